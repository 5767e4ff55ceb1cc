"""What runs next: Ray Tune's search interface over a list of runs, and over Optuna studies for `interval()`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from freshper.config.errors import ConfigError
from freshper.records.metrics import read_metrics, series
from sweeps.folder import SweepFolder
from sweeps.grammar import Interval
from sweeps.options import SweepOptions
from sweeps.plan import Cell, Plan, composer
from sweeps.points import GridCell, Point, grid_cells, read_points, write_points
from sweeps.store import BROKEN, DONE, Store

RELOOK_SECONDS = 2.0


class Source(Protocol):
    """Where runs come from."""

    def take(self, trial: str) -> Cell | None:
        """The next run to start, for a trial of that name; None if there is none now."""
        ...

    def ended(self, trial: str, cell: Cell, failed: bool) -> None:
        """A run has ended, however it did."""
        ...

    def report(self, trial: str, result: Mapping[str, Any]) -> None:
        """A run has news."""
        ...


class GridSource:
    """The runs of a grid that are to be done, then those whose owner has gone meanwhile."""

    def __init__(self, todo: Sequence[Cell], elsewhere: Sequence[Cell], store: Store) -> None:
        self._store = store
        self._todo = deque(todo)
        self._elsewhere = list(elsewhere)
        self._looked = time.monotonic()

    def take(self, trial: str) -> Cell | None:
        """The next run that nobody else has begun or done since the sweep was planned."""
        while self._todo:
            cell = self._todo.popleft()
            state = self._store.look(cell).state
            if state == "running":
                self._elsewhere.append(cell)
            elif state not in DONE:
                return cell
        if time.monotonic() - self._looked > RELOOK_SECONDS:
            self._looked = time.monotonic()
            for cell in list(self._elsewhere):
                if self._store.look(cell).todo:
                    self._elsewhere.remove(cell)
                    return cell
        return None

    def ended(self, trial: str, cell: Cell, failed: bool) -> None:
        """Nothing to learn from it."""

    def report(self, trial: str, result: Mapping[str, Any]) -> None:
        """Nothing to learn from it."""


@dataclass
class Study:
    """One Optuna study: the search over the interval dimensions of one cell of the grid."""

    cell: GridCell
    """What it is made for."""
    points: list[Point] = field(default_factory=list)
    """Every point so far, in order."""
    redo: deque[Point] = field(default_factory=deque)
    """Points of an earlier start that still have to be run."""
    search: OptunaSearch | None = None
    """Ray Tune's wrapper of the study."""
    asked: dict[str, Point] = field(default_factory=dict)
    """Trial -> point, of points that were not suggested in this start and so are told by value."""


class StudySource:
    """Points of the studies, in turn, until each has `n_trials`. All of them are written down in trials.json."""

    def __init__(
        self,
        plan: Plan,
        options: SweepOptions,
        folder: SweepFolder,
        store: Store,
        announce: Callable[[Cell], None],
    ) -> None:
        """
        Args:
            plan: a plan with intervals.
            options: n_trials, sampler, seed, storage, metric and mode.
            folder: trials.json is read and written here.
            store: where runs stand.
            announce: called with every cell that is new to the sweep.
        """
        assert options.n_trials is not None
        self._options, self._folder, self._store, self._announce = options, folder, store, announce
        self._intervals = plan.intervals
        self._space = {interval.key: distribution(interval) for interval in plan.intervals}
        stored = read_points(folder)
        self._studies: list[Study] = []
        self._of_trial: dict[str, Study] = {}
        self.invalid: list[tuple[str, ConfigError]] = []
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with composer() as make:
            for index, grid_cell in enumerate(grid_cells(plan)):
                study = Study(grid_cell, stored.get(grid_cell.name, []))
                study.search = self._make_search(index, study)
                for point in study.points:
                    cell = make(grid_cell.overrides, grid_cell.swept, point)
                    announce(cell)
                    value = self._value(cell)
                    if store.look(cell).todo:
                        study.redo.append(point)
                    elif value is not None and point not in self._known(study):
                        study.search.add_evaluated_point(point, value)
                self._studies.append(study)

    def _make_search(self, index: int, study: Study) -> OptunaSearch:
        # Another start of the same study must not draw the same points again.
        seed = (self._options.study_seed * 1_000_003 + index * 10_007 + len(study.points)) % 2**32
        sampler: optuna.samplers.BaseSampler = (
            optuna.samplers.RandomSampler(seed=seed)
            if self._options.sampler == "random"
            else optuna.samplers.TPESampler(seed=seed)
        )
        storage = None if self._options.storage is None else optuna.storages.get_storage(self._options.storage)
        return OptunaSearch(
            dict(self._space),
            metric=self._options.metric,
            mode=self._options.mode,
            sampler=sampler,
            study_name=self._name(study),
            storage=storage,
        )

    def _name(self, study: Study) -> str:
        return f"{self._folder.path.name}: {study.cell.name}"

    def _known(self, study: Study) -> list[Point]:
        """Points that a stored study has the result of already."""
        if self._options.storage is None:
            return []
        loaded = optuna.load_study(study_name=self._name(study), storage=self._options.storage)
        return [trial.params for trial in loaded.trials if trial.state == optuna.trial.TrialState.COMPLETE]

    def take(self, trial: str) -> Cell | None:
        """The next point of the study that has the fewest."""
        with composer() as make:
            for study in sorted(self._studies, key=lambda one: len(one.points) - len(one.redo)):
                while study.redo or len(study.points) < (self._options.n_trials or 0):
                    cell = self._next(study, trial, make)
                    if cell is not None:
                        self._of_trial[trial] = study
                        return cell
        return None

    def _next(self, study: Study, trial: str, make: composer) -> Cell | None:
        """A point to run; None if it was known already or is not valid (both are then told to the study)."""
        assert study.search is not None
        suggested = not study.redo
        if suggested:
            point = typed(study.search.suggest(trial) or {}, self._intervals)
            study.points.append(point)
            self._write()
        else:
            point = study.redo.popleft()
            study.asked[trial] = point
        try:
            cell = make(study.cell.overrides, study.cell.swept, point)
        except ConfigError as error:
            self.invalid.append((" ".join([study.cell.name, *(f"{k}={v}" for k, v in point.items())]), error))
            self._tell(study, trial, None)
            return None
        self._announce(cell)
        if self._store.look(cell).todo:
            return cell
        self._tell(study, trial, self._value(cell))
        return None

    def ended(self, trial: str, cell: Cell, failed: bool) -> None:
        """Tell the study how well the point did."""
        self._tell(self._of_trial[trial], trial, None if failed else self._value(cell))

    def report(self, trial: str, result: Mapping[str, Any]) -> None:
        """Tell the study how the point is doing."""
        study = self._of_trial[trial]
        if study.search is not None and trial not in study.asked and self._options.metric in result:
            study.search.on_trial_result(trial, {**result, "training_iteration": result["iteration"]})

    def _tell(self, study: Study, trial: str, value: float | None) -> None:
        assert study.search is not None
        point = study.asked.pop(trial, None)
        if point is None:
            result = None if value is None else {self._options.metric: value}
            study.search.on_trial_complete(trial, result, error=value is None)
        elif value is not None:
            study.search.add_evaluated_point(point, value)

    def _value(self, cell: Cell) -> float | None:
        values = series(read_metrics(cell.path), self._options.metric)[1] if cell.path.is_dir() else []
        return values[-1] if values else None

    def _write(self) -> None:
        write_points(self._folder, {study.cell.name: study.points for study in self._studies})


def distribution(interval: Interval) -> BaseDistribution:
    """Optuna's name for an interval."""
    if interval.integer:
        return IntDistribution(int(interval.low), int(interval.high), log=interval.log)
    return FloatDistribution(interval.low, interval.high, log=interval.log)


def typed(point: Mapping[str, Any], intervals: Sequence[Interval]) -> Point:
    """A suggested point with whole numbers where they are asked for."""
    return {i.key: int(point[i.key]) if i.integer else float(point[i.key]) for i in intervals}


class CellQueue(Searcher):
    """Hands runs to Ray Tune, at most `concurrency` at a time, and nothing any more once the sweep is stopping."""

    def __init__(
        self,
        source: Source,
        store: Store,
        concurrency: int,
        config: Callable[[Cell], dict[str, Any]],
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__(metric="iteration", mode="max")  # Tune wants some; the source knows its own
        self._source, self._store = source, store
        self._concurrency, self._make, self._stopping = concurrency, config, stopping
        self.live: dict[str, Cell] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """Config of the next trial; None while there is no room."""
        if len(self.live) >= self._concurrency:
            return None
        cell = None if self._stopping() else self._source.take(trial_id)
        if cell is None:
            # Others' runs may still become ours, but only while we are here anyway.
            return None if self.live else str(Searcher.FINISHED)
        self.live[trial_id] = cell
        return self._make(cell)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass news on."""
        self._source.report(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Pass an end on and make room."""
        cell = self.live.pop(trial_id)
        state = self._store.look(cell).state
        failed = error or state in BROKEN or state == "new" or self._stopping()
        self._source.ended(trial_id, cell, failed)

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the run folders say what is done."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""
