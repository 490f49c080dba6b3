"""The paper's experiment: data sets, methods, protocol, results. Import the parts by name; this file imports none."""
