"""The keys of `hydra.sweeper` (conf/hydra/sweeper/ray_tune.yaml), checked like every other key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from freshper.config.errors import ConfigError, Issue, did_you_mean
from freshper.config.section import Float, Int, Section

PREFIX = "hydra.sweeper."


class AshaOptions(Section):
    """Early stopping of bad runs: asynchronous successive halving (Li et al., 2020)."""

    enabled: bool = False
    """Stop runs whose metric is worse than most others' at the same iteration."""
    grace_iterations: Int = Field(20, ge=1)
    """No run is stopped before this iteration."""
    reduction_factor: Float = Field(3.0, gt=1)
    """One run in this many goes on at each halving."""


class SweepOptions(Section):
    """How a sweep is run. Nothing here changes what a run learns."""

    params: dict[str, str] = {}
    """Sweeps given in a file: key -> text as on the command line."""
    cpus: Float = Field(1.0, gt=0)
    """CPU cores per run; also its torch threads unless `trainer.threads` is given."""
    gpus: Float = Field(0.0, ge=0)
    """GPUs per run; fractions share one."""
    memory_gib: Float = Field(0.0, ge=0)
    """Memory per run that Ray sets aside, GiB."""
    concurrency: Int | None = Field(None, ge=1)
    """Runs at a time; None: as many as the resources allow."""
    address: str | None = None
    """None: Ray on this machine; `auto` or `host:port`: an existing cluster."""
    start_timeout: Float = Field(300.0, gt=0)
    """Seconds that a run may wait for resources of a cluster before the sweep ends."""
    min_free_gib: Float = Field(1.0, ge=0)
    """Least free disk at `output.root` for a run to start, GiB."""
    fail_fast: bool = False
    """Stop after the first failed run."""
    retries: Int = Field(0, ge=0)
    """How often a failed or crashed run is started again."""
    stop_grace: Float = Field(120.0, gt=0)
    """Seconds that a run may take to save its checkpoint when it is told to stop."""
    metric: str = "eval/success"
    """Metric that interval() dimensions optimise and early stopping watches."""
    mode: Literal["max", "min"] = "max"
    """Whether more of `metric` is better."""
    n_trials: Int | None = Field(None, ge=1)
    """Runs per study; needed with interval()."""
    sampler: Literal["tpe", "random"] = "tpe"
    """Optuna's sampler."""
    study_seed: Int = Field(0, ge=0)
    """Seed of the sampler."""
    storage: str | None = None
    """Optuna storage of the studies; None keeps them in memory and in trials.json."""
    asha: AshaOptions = AshaOptions()
    """Early stopping."""
    progress: Literal["auto", "table", "lines", "off"] = "auto"
    """Display; `auto` is a table on a terminal and lines elsewhere."""


def load_options(values: Mapping[str, Any]) -> SweepOptions:
    """Validate plain values of `hydra.sweeper`.

    Raises:
        ConfigError: with every unknown key and wrong value, named by its full key.
    """
    values = dict(values)
    values["params"] = {key: _as_typed(value) for key, value in dict(values.get("params") or {}).items()}
    try:
        options = SweepOptions.model_validate(values)
    except ValidationError as error:
        raise ConfigError([_issue(detail) for detail in error.errors(include_url=False)]) from error
    if options.address is not None and "://" in options.address:
        raise ConfigError(
            [
                Issue(
                    f"{PREFIX}address",
                    "expected null, auto or host:port; Ray's client protocol would run the sweep on another machine "
                    "(start it on a node of the cluster with address=auto instead)",
                    options.address,
                )
            ]
        )
    return options


def _as_typed(value: Any) -> str:
    """A YAML value as it would be typed on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _issue(detail: Any) -> Issue:
    key = PREFIX + ".".join(str(step) for step in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return Issue(key, f"unknown key{did_you_mean(key, option_keys())}", detail["input"])
    return Issue(key, detail["msg"], detail["input"])


def option_keys() -> list[str]:
    """Every dotted key of `hydra.sweeper`."""
    keys = [PREFIX + name for name in SweepOptions.model_fields]
    return keys + [f"{PREFIX}asha.{name}" for name in AshaOptions.model_fields]
