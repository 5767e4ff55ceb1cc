"""One module per command of `python -m analysis`, each with `run(options)`, which returns the exit status."""
