"""Compose and validate configs outside `hydra.main`: for checks before a sweep starts, tests and scripts.

`compose_config(["variant=on_policy", "seed=3"])` is the config of `python run.py variant=on_policy seed=3`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from freshper.config.errors import ConfigError, Issue
from freshper.config.experiment import sweep_params
from freshper.config.load import load_config, unknown_key
from freshper.config.overrides import sort_overrides
from freshper.config.run import RunConfig
from freshper.config.schema import CONF_DIR, family_keys, group_options, register_defaults


def compose_config(overrides: Sequence[str] = (), conf_dir: Path = CONF_DIR) -> RunConfig:
    """The validated config that `python run.py <overrides>` would train with.

    Raises:
        ConfigError: if it cannot be composed or is not valid.
    """
    parsed, issues = sort_overrides(overrides, multirun=False, conf_dir=conf_dir)
    own = [override for override in parsed if not override.is_hydra_override()]
    return _compose_jobs([[override.input_line or "" for override in own]], conf_dir, issues)[0]


def compose_sweep(overrides: Sequence[str], conf_dir: Path = CONF_DIR) -> list[RunConfig]:
    """The validated configs of all jobs of `python run.py -m <overrides>`, in Hydra's order.

    A named experiment's sweeps are included; equal jobs are not merged.

    Raises:
        ConfigError: with the problems of every job, so that nothing starts if one of twenty is wrong.
    """
    _, issues = sort_overrides(overrides, multirun=True, conf_dir=conf_dir)
    params = {} if issues else sweep_params(overrides, conf_dir)
    swept = [f"{key}={value}" for key, value in params.items()]
    parsed, issues = sort_overrides([*swept, *overrides], multirun=True, conf_dir=conf_dir)
    return _compose_jobs(expand(parsed), conf_dir, issues)


def expand(parsed: Sequence[Override]) -> list[list[str]]:
    """The grid of a sweep: one list of overrides per job. Overrides of Hydra's own are left out."""
    own = [override for override in parsed if not override.is_hydra_override()]
    return BasicSweeper.split_arguments(own, None)[0]


def _compose_jobs(jobs: Sequence[Sequence[str]], conf_dir: Path, found: Sequence[Issue]) -> list[RunConfig]:
    """Compose and validate; `found` are problems known before, raised together with the new ones."""
    if any(issue.key in group_options(conf_dir) for issue in found):
        raise ConfigError(found)  # what the rest would be checked against is not known
    register_defaults()
    configs: list[RunConfig] = []
    issues: list[Issue] = list(found)
    # Hydra keeps one global instance; put back whatever was there.
    hydra = GlobalHydra.instance()
    before = hydra.hydra
    hydra.clear()
    try:
        with initialize_config_dir(str(conf_dir.resolve()), version_base=None):
            for job in jobs:
                try:
                    configs.append(load_config(compose("config", overrides=list(job))))
                except ConfigError as error:
                    issues += error.issues
                except (HydraException, OmegaConfBaseException) as error:
                    issues += _other_family(job, conf_dir) or [
                        Issue(" ".join(job) or "conf/config.yaml", f"cannot be composed: {error}")
                    ]
    finally:
        hydra.hydra = before
    if issues:
        raise ConfigError(issues)
    return configs


def _other_family(job: Sequence[str], conf_dir: Path) -> list[Issue]:
    """Overrides of a job that cannot be composed because they are keys of another environment family."""
    parsed, _ = sort_overrides(job, multirun=False, conf_dir=conf_dir)
    groups = group_options(conf_dir)
    chosen = [override.input_line or "" for override in parsed if override.key_or_group in groups]
    try:
        family = compose("config", overrides=chosen).env.family
    except (HydraException, OmegaConfBaseException):
        return []
    return [
        unknown_key(override.key_or_group, (override.input_line or "").partition("=")[2], family)
        for override in parsed
        if override.key_or_group.startswith("env.") and override.key_or_group not in family_keys()[family]
    ]
