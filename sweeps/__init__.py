"""Sweeps: from `python run.py -m ...` to a complete set of runs, by Ray Tune and Optuna.

Whether a run is done is read from its own folder, never from Ray. `freshper` does not know this package.
"""
