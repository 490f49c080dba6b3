"""The formulas over pairs of rows: tile by tile, over one batch, and compiled for accelerators."""
