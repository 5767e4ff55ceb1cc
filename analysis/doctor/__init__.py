"""What is wrong with some runs and comparisons, and the commands that mend it."""
