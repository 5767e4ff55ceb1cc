"""A whole sweep: look, check, run what is left, sum up. Used by `python run.py -m` and by `python -m sweeps retry`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from freshper.config.errors import ConfigError, Issue
from freshper.records.atomic import write_json
from freshper.records.lock import FolderLock, RunInUse
from freshper.records.provenance import git_state
from freshper.records.status import now
from freshper.records.summary import duration
from sweeps.board import Board
from sweeps.cost import Estimate, Peer, estimate, read_peers
from sweeps.errors import SweepError
from sweeps.fairness import unfair
from sweeps.folder import INTERRUPTED, SUBFOLDER, Order, SweepFolder, write_order
from sweeps.options import PREFIX, SweepOptions
from sweeps.plan import Cell, Plan
from sweeps.points import known_cells, unmade
from sweeps.resources import check_disk, check_machine
from sweeps.store import BROKEN, Standing, Store, check_folders
from sweeps.summary import arm_table, best_table, columns, failures, result_row, totals, write_results

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
"""Exit status of a sweep with a failed, crashed or unstarted run, and of one stopped by a signal; 0 if none is left."""


class Session:
    """One start of one sweep."""

    def __init__(
        self, plan: Plan, options: SweepOptions, argv: Sequence[str], folder: SweepFolder | None = None
    ) -> None:
        """
        Args:
            plan: what is to be run.
            options: how.
            argv: command line for the record, script first.
            folder: the sweep's folder, if it is not the one that follows from the plan.
        """
        self.plan, self.options, self.argv = plan, options, list(argv)
        self.folder = folder or SweepFolder(plan.root / SUBFOLDER / plan.id)
        self.store = Store(self.folder.read_stopped() if options.asha.enabled else {})
        cells = known_cells(plan, self.folder) if plan.intervals else plan.cells
        self.cells: dict[str, Cell] = {cell.name: cell for cell in cells}
        self.peers: list[Peer] = read_peers(plan.root)

    def check(self) -> None:
        """Everything that can be known before anything starts.

        Raises:
            ConfigError: with all of it.
        """
        issues = check_folders(list(self.cells.values()))
        issues += check_machine(self.options)
        if self.plan.intervals and self.options.n_trials is None:
            keys = ", ".join(interval.key for interval in self.plan.intervals)
            issues.append(Issue(f"{PREFIX}n_trials", f"a number of runs is needed to search {keys}"))
        if not self.plan.intervals and self.options.n_trials is not None:
            issues.append(Issue(f"{PREFIX}n_trials", "has no effect without interval()", self.options.n_trials))
        if issues:
            raise ConfigError(issues)
        waiting, sizes = self.look(), [e.bytes for e in self.estimates().values() if e is not None]
        runs = sum(standing.todo for standing in waiting.values()) + self.unmade()
        issues = check_disk(self.plan.root, self.options, runs, max(sizes) if sizes else None) if runs else []
        if issues:
            raise ConfigError(issues)

    def unmade(self) -> int:
        """Runs that a search has still to suggest."""
        if not self.plan.intervals or self.options.n_trials is None:
            return 0
        return unmade(self.plan, self.folder, self.options.n_trials)

    def look(self) -> dict[str, Standing]:
        """Run -> where it stands, now."""
        return {name: self.store.look(cell) for name, cell in self.cells.items()}

    def estimates(self) -> dict[str, Estimate | None]:
        """Run (or cell of the grid that is searched) -> what it is expected to cost."""
        return {cell.name: estimate(cell.config, self.peers) for cell in self.plan.cells}

    def dry_run(self) -> str:
        """What would be run. Writes nothing."""
        standings, costs = self.look(), self.estimates()
        if self.plan.intervals:
            standings = {cell.name: Standing("new") for cell in self.plan.cells}
        table = [["id", "state", "cost", "overrides"]]
        common = set.intersection(*(set(cell.overrides) for cell in self.plan.cells))
        todo_seconds, unknown = 0.0, 0
        for cell in self.plan.cells:
            standing, cost = standings[cell.name], costs[cell.name]
            share = 1 - standing.iteration / cell.config.iterations
            if standing.todo:
                todo_seconds += 0.0 if cost is None else cost.seconds * share
                unknown += cost is None
            shown = "?" if cost is None else duration(cost.seconds)
            own = " ".join(text for text in cell.overrides if text not in common)
            table.append([cell.identity, standing.state, shown, own or "(none of its own)"])
        todo = sum(standing.todo for standing in standings.values())
        shared = [text for text in self.plan.cells[0].overrides if text in common and not text.startswith("dry_run=")]
        lines = [columns(table), "", *([f"All of them: {' '.join(shared)}"] if shared else []), self._scope()]
        if self.plan.intervals:
            todo, known = self.unmade(), self.look()
            todo += sum(standing.todo for standing in known.values())
            todo_seconds *= todo / len(table[1:])
            lines.append(
                f"Each is the centre of a search of {self.options.n_trials} runs; so far {len(known)} are known."
            )
        cost_text = duration(todo_seconds) if todo_seconds else "unknown"
        if unknown:
            cost_text += f" and {unknown} runs without a finished peer to estimate them from" if todo_seconds else ""
        lines.append(f"To be run: {todo}; one after another: {cost_text}.")
        lines += self.warnings()
        lines.append(f"dry run: nothing written; the sweep's folder would be {self.folder.path}")
        return "\n".join(lines)

    def warnings(self) -> list[str]:
        """Why the arms may not be comparable."""
        sentences = unfair(self.plan.cells)
        return [f"warning: {sentence}" for sentence in sentences]

    def _scope(self) -> str:
        return f"{len(self.plan.cells)} runs{self._merged()}."

    def _merged(self) -> str:
        count = self.plan.duplicates
        return f" ({count} more combinations turned out to be one of these runs)" if count else ""

    def run(self, only: frozenset[str] | None = None) -> int:
        """Run what is left and sum up.

        Args:
            only: states to be run; None for all that are not done.
        Returns:
            Exit status.
        """
        begun = time.monotonic()
        standings = self.look()
        todo = [c for n, c in self.cells.items() if standings[n].todo and (only is None or standings[n].state in only)]
        elsewhere = [cell for name, cell in self.cells.items() if standings[name].state == "running"]
        search = f", {self.unmade()} to be suggested" if self.plan.intervals else ""
        print(f"sweep {self.folder.path.name}: {totals(list(standings.values()))}{search}{self._merged()}", flush=True)
        for warning in self.warnings():
            print(warning, file=sys.stderr)
        if not todo and not (self.unmade() and only is None):
            print("nothing to do")
            return self._sum_up(None, None)
        self.folder.make()
        self.write_record(standings)
        reason = self._dispatch(todo, elsewhere)
        return self._sum_up(reason, time.monotonic() - begun)

    def _dispatch(self, todo: Sequence[Cell], elsewhere: Sequence[Cell]) -> str | None:
        """Run them; why the sweep was stopped, if it was."""
        from sweeps.dispatch import Stop, dispatch, ray_session
        from sweeps.progress import Display

        board = Board(self.unmade())
        for cell in self.cells.values():
            board.add(cell, self.store.look(cell), estimate(cell.config, self.peers))

        def announce(cell: Cell) -> None:
            board.unmade -= cell.name not in self.cells
            self.cells.setdefault(cell.name, cell)
            board.add(cell, self.store.look(cell), estimate(cell.config, self.peers))
            self._write_order(cell)

        def source(announce: Any) -> Any:
            from sweeps.search import GridSource, StudySource

            if self.plan.intervals:
                return StudySource(self.plan, self.options, self.folder, self.store, announce)
            for cell in todo:
                announce(cell)
            return GridSource(todo, elsewhere, self.store)

        stop = Stop(self.folder)
        lock = self._own_search()
        try:
            with (
                ray_session(self.options, self.folder) as cluster,
                stop,
                Display(board, self.options.progress) as display,
            ):
                dispatch(source, self.store, self.options, self.folder, board, display, stop, cluster, announce)
        except TimeoutError as error:
            return str(error)
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            if lock is not None:
                lock.release()
        return stop.reason

    def _own_search(self) -> FolderLock | None:
        """The lock on a search: its studies are in one process' memory. A grid needs none, its runs have theirs."""
        if not self.plan.intervals:
            return None
        try:
            lock = FolderLock(self.folder.path)
        except RunInUse as error:
            raise SweepError(f"this search is being run already: {error}") from error
        lock.name_holder()
        return lock

    def _write_order(self, cell: Cell) -> None:
        config = cell.config
        if config.trainer.threads == 0:
            threads = max(1, int(self.options.cpus))
            config = config.model_copy(update={"trainer": config.trainer.model_copy(update={"threads": threads})})
        write_order(self.folder.order(cell.name), Order((self.argv[0], *cell.overrides), config))

    def _sum_up(self, reason: str | None, seconds: float | None) -> int:
        """Write the record and the results, print the table, name what failed."""
        standings = self.look()
        entries = [entry(cell) for cell in self.cells.values()]
        rows = [result_row(one, standings[one["name"]]) for one in entries]
        if seconds is not None or not self.folder.record.is_file():
            self.folder.make()
            self.write_record(standings)
            write_results(rows, self.folder.results)
        print()
        if self.plan.intervals:
            print(best_table(rows, self.options.metric, self.options.mode))
        else:
            print(arm_table(rows))
            print("Last evaluation, in %: mean ± half a Student t 95 % interval over n finished runs; - with one run.")
        print(f"\n{totals(list(standings.values()), seconds)}")
        failed = failures(entries, standings, self.folder.path / "logs")
        if failed:
            print(f"failed:\n{failed}", file=sys.stderr)
        for name, standing in standings.items():
            if standing.state == "running":
                print(f"left to its owner: {self.cells[name].label} ({standing.cause})")
        if reason is not None:
            print(f"stopped: {reason}; the same command goes on", file=sys.stderr)
        print(f"results           {self.folder.results}")
        if reason == INTERRUPTED:
            return EXIT_INTERRUPTED
        broken = any(standing.state in BROKEN for standing in standings.values())
        left = any(standing.todo for standing in standings.values()) or self.unmade() > 0
        return EXIT_FAILED if broken or left or reason is not None else 0

    def write_record(self, standings: Mapping[str, Standing]) -> None:
        """Replace sweep.json."""
        commit, dirty = git_state(Path(__file__).resolve().parents[1])
        runs = [
            {**entry(cell), "state": standings[name].state, "cause": standings[name].cause,
             "iteration": standings[name].iteration, "attempts": standings[name].attempts}
            for name, cell in self.cells.items()
        ]  # fmt: skip
        write_json(
            self.folder.record,
            {
                "id": self.folder.path.name,
                "updated": now(),
                "argv": self.argv,
                "cwd": str(Path.cwd()),
                "commit": commit,
                "dirty": dirty,
                "options": self.options.model_dump(mode="json"),
                "searched": [interval.key for interval in self.plan.intervals],
                "runs": runs,
            },
        )


def entry(cell: Cell) -> dict[str, Any]:
    """What sweep.json says of a run, its state aside."""
    return {
        "name": cell.name,
        "label": cell.label,
        "identity": cell.identity,
        "folder": str(cell.path),
        "arm": cell.arm,
        "variant": cell.config.variant.name,
        "seed": cell.config.seed,
        "settings": dict(cell.settings),
        "overrides": list(cell.overrides),
    }
