"""Figures of runs and of the paper's reported numbers. `analysis.figures.build` has them by name."""
