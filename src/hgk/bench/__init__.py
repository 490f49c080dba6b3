"""The paper's experiment: data sets, protocol, methods, recorded runs, and what they show."""
