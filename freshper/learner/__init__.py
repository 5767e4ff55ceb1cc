"""The training loop: update steps, evaluation, checkpoints."""
