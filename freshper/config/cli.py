"""What `run.py` does before it trains: check the command line, show a dry run."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from hydra._internal.utils import get_args_parser

from freshper.config.compose import compose_config, compose_sweep
from freshper.config.experiment import check_experiment
from freshper.config.help import help_text, register_help
from freshper.config.identity import run_path
from freshper.config.overrides import check_overrides, sort_overrides
from freshper.config.report import report
from freshper.config.run import RunConfig
from freshper.config.schema import register_defaults, resolved

EXIT_CONFIG = 2
"""Exit status of a config that cannot be used."""


def prepare(argv: Sequence[str]) -> str | None:
    """Make defaults and help known to Hydra, and check every job that `argv` asks for, before anything starts.

    Nothing is checked for flags that only show something (`--help`, `--cfg`, ...), nor for another config folder.

    Returns:
        A text to print instead of running (the help), or None.
    Raises:
        ConfigError: with all problems of the overrides, or else all problems of the composed configs.
    """
    register_defaults()
    register_help()
    args = get_args_parser().parse_args(list(argv))
    if args.help:
        return help_text()
    shows = args.hydra_help or args.cfg or args.info or args.shell_completion
    if shows or args.experimental_rerun or args.config_path or args.config_name or args.config_dir:
        return None
    multirun = is_sweep(argv)
    parsed, _ = sort_overrides(args.overrides, multirun)
    check_experiment(args.overrides, multirun)
    if not multirun:
        compose_config(args.overrides)
    elif any(override.key_or_group == "hydra/sweeper" for override in parsed):
        compose_sweep(args.overrides)
    else:  # our sweeper composes and checks every run of the sweep itself
        check_overrides(args.overrides, multirun)
    return None


def is_sweep(argv: Sequence[str]) -> bool:
    """Whether the command line asks for a multirun."""
    args = get_args_parser().parse_args(list(argv))
    return bool(args.multirun) or any(text.lower() == "hydra.mode=multirun" for text in args.overrides)


def dry_run(config: RunConfig) -> str:
    """The resolved config, the run folder and what it all amounts to."""
    text = yaml.safe_dump(resolved(config), sort_keys=False, allow_unicode=True)
    return f"{text}\n{report(config)}\n\ndry run: nothing written; the run folder would be {run_path(config)}"
