"""Read runs from folders, trees, sweeps, wandb exports and event files into one shape."""
