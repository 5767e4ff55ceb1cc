"""What a run measures about staleness, and when it is given up."""
