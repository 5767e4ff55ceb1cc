"""Train with an external program: start it, turn its progress into our record, end it and all its children with us.

    python run.py trainer=command 'trainer.command.argv=[python,train.py,--seed,"{seed}",--out,"{run_dir}"]'

The run folder is like a local run's: config.yaml (which the program may read), provenance.json, status.json,
metrics.jsonl, curve.png, and output.log. The run is `finished` if the program exits with 0 and its last row is that of
the last iteration; anything else is `failed`, with the end of the output in error.txt.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from freshper.config.placeholders import fill, placeholder_values
from freshper.config.report import report
from freshper.config.run import RunConfig
from freshper.records import curve, provenance
from freshper.records.metrics import Row, read_metrics
from freshper.records.progress import Progress
from freshper.records.run_dir import RunDirectory, RunDirError, RunInUse
from freshper.records.status import State, now
from freshper.records.summary import summary
from freshper.records.trackers import log_all, make_trackers
from freshper.trainers.local import EXIT, INTERRUPTED
from freshper.trainers.output_log import BoundedLog, LineSplitter
from freshper.trainers.process import Ending, GuardedProcess
from freshper.trainers.reading import LogReader, MetricsError, Recorder, Tail, parse_row, settle


@dataclass(frozen=True)
class Call:
    """A command with its placeholders filled in."""

    argv: tuple[str, ...]
    """Program and arguments."""
    cwd: Path
    """Working directory."""
    env: dict[str, str]
    """Variables added to ours."""
    file: Path | None
    """File that is read; None: the program's output."""

    def __str__(self) -> str:
        return shlex.join(self.argv)


def make_call(config: RunConfig, resume: bool) -> Call:
    """What is started for an attempt at a run."""
    command, values = config.trainer.command, placeholder_values(config, resume)
    texts = command.argv + (command.resume_argv if resume else ())
    cwd = Path(fill(command.cwd, values)).expanduser().absolute()
    name = command.file
    if name is None and command.metrics == "jsonl":
        name = "{run_dir}/metrics.jsonl"
    return Call(
        argv=tuple(fill(text, values) for text in texts),
        cwd=cwd,
        env={key: fill(text, values) for key, text in command.env.items()},
        file=None if name is None else cwd / fill(name, values),
    )


def train(config: RunConfig, argv: Sequence[str]) -> int:
    """Train one run, or go on with it, or say that it is finished.

    Args:
        config: validated config with `trainer.kind: command`.
        argv: command line for the record.
    Returns:
        Exit status, see `freshper.trainers.local.EXIT`.
    """
    try:
        run = RunDirectory.open(config)
    except (RunDirError, RunInUse) as error:
        print(error, file=sys.stderr)
        return 2
    with run, sigterm_as_interrupt():
        if run.state == "finished":
            assert run.status is not None
            print(f"{run.path} is {run.status.state} already; nothing to do (resume=never or another seed starts anew)")
            state: State = run.status.state
        else:
            state = _train(config, run, argv)
        picture = run.curve if run.curve.is_file() else None
        print(summary(read_metrics(run.metrics), config.evaluation.episodes, run.path, picture))
        return EXIT[state]


def _train(config: RunConfig, run: RunDirectory, argv: Sequence[str]) -> State:
    call = make_call(config, resume=run.state == "resume")
    run.start(provenance.collect(config, argv) | {"command": {"argv": list(call.argv), "cwd": str(call.cwd)}})
    attempt = Attempt(config, run, call)
    print(report(config))
    print(f"trainer   {call}\n          in {call.cwd}; its output is in {attempt.log.path}", flush=True)
    state: State = "failed"
    cause: str | None = None
    error: str | None = None
    try:
        cause = attempt.verdict(attempt.follow())
        state = "finished" if cause is None else "failed"
        error = None if cause is None else f"{cause}\n\ncommand: {call}\n\n{attempt.log.tail()}\n"
    except MetricsError as problem:
        cause = str(problem)
        error = f"{cause}\n\ncommand: {call}\n\n{attempt.log.tail()}\n"
    except KeyboardInterrupt:
        cause = INTERRUPTED
    except Exception as problem:  # the one place that records a failed run
        cause, error = f"{type(problem).__name__}: {problem}", traceback.format_exc()
    finally:
        attempt.close(failed=state != "finished")
        rows = settle(run.metrics)
        run.end(state, cause, rows[-1]["iteration"] if rows else None, error)
    if config.output.figures and rows:
        curve.draw(rows, run.curve, run.path.name, config.variant.name, config.evaluation.episodes)
    if error:
        print(error, file=sys.stderr)
    if cause:
        print(f"{state}: {cause}", file=sys.stderr)
    return state


class Attempt:
    """One start of the program: output to the log, progress to the record."""

    def __init__(self, config: RunConfig, run: RunDirectory, call: Call) -> None:
        """Everything but the program is set up here."""
        command = config.trainer.command
        self.config, self.call, self._lock = config, call, run.lock
        self.log = BoundedLog(run.path, int(command.log_mib * 2**20))
        self.log.write(f"# {now()} {call}\n".encode())
        self.trackers = make_trackers(config, run.path)
        done = settle(run.metrics)
        self.progress = Progress(config.iterations, config.trainer.progress, done=done[-1]["iteration"] if done else 0)
        direct = command.metrics == "jsonl" and call.file == run.metrics
        observers: list[Callable[[Row], None]] = [self.progress.update, lambda row: log_all(self.trackers, row)]
        self.recorder = Recorder(run.metrics, not direct, observers)
        self.rows = 0
        self._tail = None if call.file is None else Tail(call.file)
        self._reader = LogReader(command.step or "", command.patterns, command.percent)
        self._splitter, self._line = LineSplitter(), 0

    def follow(self) -> Ending:
        """Start the program and see it through to its end.

        Raises:
            MetricsError: a line of its progress cannot be read. The program is gone then.
            KeyboardInterrupt: after the program, which was stopped, is gone; rows that it wrote meanwhile are kept.
        """
        command, call = self.config.trainer.command, self.call
        call.cwd.mkdir(parents=True, exist_ok=True)
        inherit = [self._lock.fileno()]  # the folder stays taken while anything of the program lives
        with GuardedProcess(call.argv, call.cwd, call.env, command.grace, inherit) as process:
            try:
                ending = process.follow(self._on_output, self._on_tick)
            except MetricsError:
                self._see_off(process, record=False)
                raise
            except KeyboardInterrupt:
                print(f"stopping the program (at most {2 * command.grace:g} s; again: at once)", file=sys.stderr)
                self._see_off(process, record=True)
                with contextlib.suppress(MetricsError):
                    self._last_rows(strict=False)
                raise
        self._last_rows(strict=ending.returncode == 0)
        return ending

    def _see_off(self, process: GuardedProcess, record: bool) -> None:
        """Stop the program and wait; its output still has to be read, or it could not write its checkpoint."""
        process.stop()
        while process.ending is None:
            try:
                process.follow(*((self._on_output, self._on_tick) if record else (self.log.write, lambda: None)))
            except MetricsError:
                record = False
            except KeyboardInterrupt:
                process.stop(at_once=True)

    def _on_output(self, data: bytes) -> None:
        self.log.write(data)
        if self.call.file is None:
            for line in self._splitter.feed(data):
                self._take_output(line)

    def _on_tick(self) -> None:
        if self._tail is None:
            return
        replaced, lines = self._tail.lines()
        if replaced:
            self.recorder.restart()
        for where, raw in lines:
            if self.config.trainer.command.metrics == "jsonl":
                self._take(parse_row(raw, where), where)
            else:
                self._take_line(raw.decode(errors="replace"), where)

    def _last_rows(self, strict: bool) -> None:
        """What the end of the program completes.

        Raises:
            MetricsError: if `strict`, for a last row without an end.
        """
        self._on_tick()
        for line in self._splitter.rest():
            self._take_output(line)
        if self._tail is not None:
            where, rest = self._tail.rest()
            if self.config.trainer.command.metrics == "log":
                self._take_line(rest.decode(errors="replace"), where)
            elif rest and strict:
                raise MetricsError(f"{where} has no end: {rest[:200].decode(errors='replace')}")
        for row, where in self._reader.finish():
            self._take(row, where)

    def _take_output(self, line: str) -> None:
        self._line += 1
        self._take_line(line, f"line {self._line} of its output")

    def _take_line(self, line: str, where: str) -> None:
        for row, start in self._reader.feed(line, where):
            self._take(row, start)

    def _take(self, row: Row, where: str) -> None:
        self.recorder.take(row, where)
        self.rows += 1

    def verdict(self, ending: Ending) -> str | None:
        """Why the run is not finished, None if it is."""
        if ending.survivors:
            return f"processes {', '.join(map(str, ending.survivors))} cannot be killed"
        if ending.returncode != 0:
            last = self.log.tail(lines=1).strip()
            return f"{self.call.argv[0]}: {ending}" + (f"; last output: {last[:300]}" if ending.error is None else "")
        if self.recorder.last < 0 or not self.rows:
            source = "its output" if self.call.file is None else str(self.call.file)
            return f"{self.call.argv[0]} ended with exit status 0 but left no row of metrics in {source}"
        if self.recorder.last < self.config.iterations and not self.config.trainer.command.early_end:
            return (
                f"{self.call.argv[0]} ended with exit status 0 after iteration {self.recorder.last} of "
                f"{self.config.iterations} (trainer.command.early_end=true accepts that)"
            )
        return None

    def close(self, failed: bool) -> None:
        """Close display, trackers and files."""
        self.progress.close()
        for tracker in self.trackers:
            tracker.finish(failed=failed)
        self.recorder.close()
        self.log.close()


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM (a scheduler, `kill`) ends the run as Ctrl-C does, with a record. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
