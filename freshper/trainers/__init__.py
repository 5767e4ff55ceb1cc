"""Who runs a learner: this process, or an external program. Importing this imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from freshper.config.run import RunConfig


def train(config: RunConfig, argv: Sequence[str]) -> int:
    """Train one run with the trainer that `trainer.kind` names, or go on with it, or say that it is finished.

    Args:
        config: validated config.
        argv: command line for the record.
    Returns:
        Exit status: 0 finished, 1 failed, 2 cannot be used, 3 diverged, 4 dead.
    """
    if config.trainer.kind == "command":
        from freshper.trainers.command import train as train_command

        return train_command(config, argv)
    from freshper.trainers.local import train as train_local

    return train_local(config, argv)
