"""From overrides to cells: everything that a sweep will run, composed, validated and free of duplicates.

Grammar: Hydra's own (`a,b`, `range()`, `choice()`, `glob()`, `shuffle()`, `tag()`, `interval()`). Finite dimensions
span a grid; `interval()` dimensions are left to a search (sweeps/search.py), which makes one study per cell of the
grid: the sampler then never has to model what a choice of arm does, and every arm gets the same number of runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from freshper.config.errors import ConfigError, Issue
from freshper.config.identity import digest, identity, run_path
from freshper.config.load import load_config
from freshper.config.run import RunConfig
from freshper.config.schema import CONF_DIR, group_options, register_defaults, resolved
from sweeps.grammar import Interval, centre, dimensions, merge, title


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    overrides: tuple[str, ...]
    """Command line of the run alone: `python run.py <overrides>` is the same run."""
    config: RunConfig
    """Validated config."""
    settings: tuple[tuple[str, str], ...]
    """Swept key -> value, in the order of the command line."""

    @property
    def path(self) -> Path:
        """Run folder."""
        return run_path(self.config).absolute()

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self.path.name

    @property
    def identity(self) -> str:
        """Identity of the run (freshper/config/identity.py)."""
        return identity(self.config)

    @property
    def arm(self) -> str:
        """What the run shares with its repetitions: swept settings without the seed, or the variant's name."""
        return label([(key, value) for key, value in self.settings if key != "seed"]) or self.config.variant.name

    @property
    def label(self) -> str:
        """Swept settings, short enough for a table."""
        return label(self.settings) or self.config.variant.name


@dataclass(frozen=True)
class Plan:
    """Everything that a sweep consists of."""

    cells: tuple[Cell, ...]
    """Runs of a grid; with `intervals`, the grid that each study is made for (the searched keys at their centre)."""
    intervals: tuple[Interval, ...]
    """Dimensions that are searched."""
    duplicates: int
    """Combinations that were the same run as an earlier one."""
    root: Path
    """`output.root`, absolute."""
    title: str
    """Experiment, or "sweep"."""

    @property
    def id(self) -> str:
        """`<title>-<eight hex digits>`: the same for the same set of runs, however it was written."""
        runs = sorted(cell.name for cell in self.cells)
        space = sorted([i.key, float(i.low), float(i.high), i.integer, i.log] for i in self.intervals)
        return f"{self.title[:40]}-{digest({'runs': runs, 'space': space})[:8]}"


def label(settings: Sequence[tuple[str, str]]) -> str:
    """`variant=freshper tau=30`: each key by its last part, or in full where two would read the same."""
    short = [key.rpartition(".")[2] for key, _ in settings]
    names = [name if short.count(name) == 1 else key for name, (key, _) in zip(short, settings, strict=True)]
    return " ".join(f"{name}={value}" for name, (_, value) in zip(names, settings, strict=True))


def make_plan(overrides: Sequence[str], params: Mapping[str, str] | None = None, conf_dir: Path = CONF_DIR) -> Plan:
    """Expand, compose and validate a sweep.

    Args:
        overrides: command line of the sweep.
        params: sweeps given in a file (`hydra.sweeper.params`); the command line wins.
        conf_dir: folder of the config groups.
    Raises:
        ConfigError: with every problem of every cell.
    """
    parsed = merge(params or {}, overrides, conf_dir)
    grid, intervals = dimensions(parsed, conf_dir)
    combinations = [tuple(itertools.chain.from_iterable(parts)) for parts in itertools.product(*grid.values())]
    swept = [key for key, choices in grid.items() if len(choices) > 1]
    cells = _compose_all(combinations, swept, intervals, conf_dir)
    kept = tuple(_merged(cells))
    _check_folders(kept)
    return Plan(
        cells=kept,
        intervals=intervals,
        duplicates=len(cells) - len(kept),
        root=kept[0].path.parent,
        title=title(parsed),
    )


def _merged(cells: Sequence[Cell]) -> Iterator[Cell]:
    """Each run once. A swept setting in which two spellings of one run differ means nothing to it and is not shown."""
    same: dict[tuple[str, Path], list[Cell]] = {}
    for cell in cells:
        same.setdefault((cell.identity, cell.path), []).append(cell)
    for group in same.values():
        common = set.intersection(*(set(cell.settings) for cell in group))
        yield replace(group[0], settings=tuple(item for item in group[0].settings if item in common))


def _compose_all(
    combinations: Sequence[tuple[str, ...]], swept: Sequence[str], intervals: Sequence[Interval], conf_dir: Path
) -> list[Cell]:
    """Compose and validate every combination, with searched keys at their ends and their centre."""
    found: dict[str, tuple[Issue, list[str]]] = {}
    cells: list[Cell] = []
    with composer(conf_dir) as make:
        for combination in combinations:
            for searched in _probes(intervals):
                try:
                    cell = make(combination, swept, searched)
                except ConfigError as error:
                    for issue in error.issues:
                        found.setdefault(str(issue), (issue, []))[1].append(" ".join(combination))
                    continue
            if not found:
                cells.append(cell)
    if found:
        raise ConfigError([_in_cells(issue, where, len(combinations)) for issue, where in found.values()])
    return cells


def _in_cells(issue: Issue, where: Sequence[str], total: int) -> Issue:
    """The issue, with the number of runs that have it unless all do."""
    runs = list(dict.fromkeys(where))
    if len(runs) == total:
        return issue
    text = f"{issue.expected} (in {len(runs)} of {total} runs: {runs[0]}{', ...' if len(runs) > 1 else ''})"
    return Issue(issue.key, text, issue.value, issue.also)


def _probes(intervals: Sequence[Interval]) -> Iterator[dict[str, float]]:
    """Points of the search space at which a cell has to be valid; the centre comes last."""
    if intervals:
        yield {i.key: int(i.low) if i.integer else i.low for i in intervals}
        yield {i.key: int(i.high) if i.integer else i.high for i in intervals}
    yield {i.key: centre(i) for i in intervals}


class composer:  # noqa: N801  # used like a function: `with composer() as make`
    """Context in which `make(overrides, swept keys, searched values)` gives a validated `Cell`."""

    def __init__(self, conf_dir: Path = CONF_DIR) -> None:
        self._conf_dir = conf_dir

    def __enter__(self) -> composer:
        register_defaults()
        # Hydra keeps one global instance; whatever was there comes back in the end.
        self._before = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        self._context = initialize_config_dir(str(self._conf_dir.resolve()), version_base=None)
        self._context.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._context.__exit__(*exception)
        GlobalHydra.instance().hydra = self._before

    def __call__(self, overrides: Sequence[str], swept: Sequence[str] = (), searched: Mapping[str, float] = {}) -> Cell:
        """Compose one run.

        Raises:
            ConfigError: if it cannot be composed or is not valid.
        """
        full = (*overrides, *(f"{key}={value!r}" for key, value in searched.items()))
        try:
            config = load_config(compose("config", overrides=list(full)))
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError([Issue(" ".join(full) or "conf/config.yaml", f"cannot be composed: {error}")]) from error
        groups = group_options(self._conf_dir)
        settings = [(key, _option(key, full) if key in groups else _shown(key, config)) for key in (*swept, *searched)]
        return Cell(full, config, tuple(settings))


def _option(group: str, overrides: Sequence[str]) -> str:
    """The option that the overrides choose of a group."""
    chosen = ""
    for text in overrides:
        key, _, value = text.partition("=")
        if key.lstrip("+").partition("@")[0] == group:
            chosen = value
    return chosen


def _shown(key: str, config: RunConfig) -> str:
    """A value as it is shown: the validated one, so that `5e2` is 500."""
    value: Any = resolved(config)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_folders(cells: Sequence[Cell]) -> None:
    """Raise if two different runs would share a folder."""
    owner: dict[Path, Cell] = {}
    issues = []
    for cell in cells:
        first = owner.setdefault(cell.path, cell)
        if first is not cell:
            issues.append(
                Issue(
                    "output.name",
                    f"{first.label} and {cell.label} are different runs in one folder; expected null or a name per run",
                    cell.config.output.name,
                )
            )
    if issues:
        raise ConfigError(issues)
