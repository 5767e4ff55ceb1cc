"""What a named experiment (a file in conf/experiment) sweeps over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from freshper.config.errors import ConfigError, Issue
from freshper.config.overrides import sort_overrides
from freshper.config.schema import CONF_DIR, register_defaults


def sweep_params(overrides: Sequence[str], conf_dir: Path = CONF_DIR) -> dict[str, str]:
    """Key -> sweep in Hydra's grammar: `hydra.sweeper.params` of the config that the overrides make.

    Args:
        overrides: command line, sweeps included; they count as not given, as in Hydra.
        conf_dir: folder of the groups.
    Raises:
        ConfigError: the overrides cannot be meant, or the config cannot be composed.
    """
    parsed, issues = sort_overrides(overrides, multirun=True, conf_dir=conf_dir)
    if issues:
        raise ConfigError(issues)
    if not any(override.key_or_group == "experiment" or override.is_hydra_override() for override in parsed):
        return {}
    register_defaults()
    given = [override.input_line or "" for override in parsed if not override.is_sweep_override()]
    hydra = GlobalHydra.instance()
    before = hydra.hydra
    hydra.clear()
    try:
        with initialize_config_dir(str(conf_dir.resolve()), version_base=None):
            composed = compose("config", overrides=given, return_hydra_config=True)
            params = OmegaConf.to_container(composed.hydra.sweeper, resolve=True).get("params")  # type: ignore[union-attr]
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError([Issue(" ".join(given), f"cannot be composed: {error}")]) from error
    finally:
        hydra.hydra = before
    return {str(key): str(value) for key, value in (params or {}).items()}


def check_experiment(overrides: Sequence[str], multirun: bool, conf_dir: Path = CONF_DIR) -> None:
    """Check that a named experiment is used as what it is. Overrides that cannot be meant are left to other checks.

    Raises:
        ConfigError: with `-m`, for several experiments or scales at once: its sweeps are read from one composed config.
            Without it, for what the experiment sweeps over and the overrides leave open.
    """
    parsed, issues = sort_overrides(overrides, multirun, conf_dir)
    if issues or not any(override.key_or_group == "experiment" for override in parsed):
        return
    found = [
        Issue(
            override.key_or_group,
            "expected one value: what a named experiment sweeps over depends on it",
            (override.input_line or "").partition("=")[2],
        )
        for override in parsed
        if override.is_sweep_override() and override.key_or_group in {"experiment", "scale"}
    ]
    if not multirun:
        given = {override.key_or_group for override in parsed}
        swept = [f"{key}={value}" for key, value in sweep_params(overrides, conf_dir).items()]
        found += [
            Issue(
                override.key_or_group,
                "this experiment sweeps over it: add -m, or give it one value",
                (override.input_line or "").partition("=")[2],
            )
            for override in sort_overrides(swept, multirun=True, conf_dir=conf_dir)[0]
            if override.is_sweep_override() and override.key_or_group not in given
        ]
    if found:
        raise ConfigError(found)
