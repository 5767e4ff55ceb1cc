"""The Hydra sweeper behind `python run.py -m`. Imports neither Ray nor Optuna: a dry run needs neither."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.utils import get_args_parser
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from freshper.config.errors import ConfigError, Issue, did_you_mean
from sweeps.errors import SweepError
from sweeps.options import PREFIX, load_options, option_keys
from sweeps.plan import make_plan
from sweeps.session import EXIT_FAILED, Session

EXIT_CONFIG = 2


class RayTuneSweeper(Sweeper):
    """Runs a sweep and ends the process with its exit status."""

    # Hydra takes plugins from the package hydra_plugins only, and looks at nothing but the name.
    __module__ = "hydra_plugins.freshper"

    def __init__(self, **options: Any) -> None:
        self._values = {key: _plain(value) for key, value in options.items()}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Nothing is needed of Hydra but the overrides: every run is composed anew, in a process of its own."""

    def sweep(self, arguments: list[str]) -> None:
        """Run the sweep.

        Raises:
            SystemExit: with the sweep's status, unless it is 0. Hydra would turn an exception into its own message.
        """
        try:
            status = run_sweep(arguments, self._values)
        except ConfigError as error:
            print(error, file=sys.stderr)
            status = EXIT_CONFIG
        except SweepError as error:
            print(error, file=sys.stderr)
            status = EXIT_FAILED
        if status:
            raise SystemExit(status)


def run_sweep(overrides: list[str], values: Mapping[str, Any]) -> int:
    """Plan, check, then show (`dry_run=true`) or run.

    Args:
        overrides: command line of the sweep, Hydra's own left out.
        values: `hydra.sweeper`.
    Raises:
        ConfigError: if it cannot be run; nothing has been written then.
    """
    options = load_options(values)
    plan = make_plan(overrides, options.params)
    session = Session(plan, options, sys.argv)
    session.check()
    if any(cell.config.dry_run for cell in plan.cells):
        print(session.dry_run())
        return 0
    return session.run()


def register(argv: Sequence[str]) -> None:
    """Make the sweeper known to Hydra, under the name in conf/hydra/sweeper/ray_tune.yaml, and check its keys.

    Raises:
        ConfigError: for a key of `hydra.sweeper` that does not exist (Hydra would not name the nearest one), and for
            flags that name another config, which the runs would not see.
    """
    if any(text.startswith("hydra/sweeper=") and text != "hydra/sweeper=ray_tune" for text in argv):
        return  # another one is to run it
    issues = []
    flags = get_args_parser().parse_args(list(argv))
    for name in ("config_path", "config_name", "config_dir"):
        if vars(flags)[name] is not None:
            flag = f"--{name.replace('_', '-')}"
            issues.append(Issue(flag, "sweeps read conf/config.yaml; expected hydra/sweeper=basic", vars(flags)[name]))
    for text in argv:
        key, separator, value = text.lstrip("+").partition("=")
        if separator and key.startswith(PREFIX) and not key.startswith(f"{PREFIX}params") and key not in option_keys():
            issues.append(Issue(key, f"unknown key{did_you_mean(key, option_keys())}", value))
    if issues:
        raise ConfigError(issues)
    Plugins.instance().register(RayTuneSweeper)
    # Hydra looks the class up by its name; without another plugin installed there is no package hydra_plugins at all.
    try:
        package = importlib.import_module("hydra_plugins")
    except ModuleNotFoundError:
        package = sys.modules["hydra_plugins"] = types.ModuleType("hydra_plugins")
    package.freshper = sys.modules["hydra_plugins.freshper"] = sys.modules[__name__]  # type: ignore[attr-defined]


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
