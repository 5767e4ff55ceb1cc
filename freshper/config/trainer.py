"""Settings of who runs the learner: this process, or any program that reports its progress."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.section import Float, Int, Section


class CommandConfig(Section):
    """An external trainer: a program, and how to read its progress (`trainer.kind: command` only).

    Texts may contain placeholders: `{run_dir}`, `{config}` (the resolved config.yaml in it), `{resume}` (true or
    false), `{python}` (this interpreter) and any dotted key of the config (`{seed}`, `{replay.decay.tau}`). `{{` and
    `}}` are literal braces.
    """

    argv: tuple[str, ...] = ()
    """Program and arguments; no shell is involved."""
    resume_argv: tuple[str, ...] = ()
    """Arguments added when an earlier attempt at the run did not finish."""
    env: dict[str, str] = {}
    """Environment variables added to those of this process (from which Ray's own are removed)."""
    cwd: str = "."
    """Working directory of the program, relative to where run.py was started."""
    metrics: Literal["jsonl", "log"] = "jsonl"
    """`jsonl`: it writes rows of our metrics.jsonl; `log`: its output is searched for `step` and `patterns`."""
    file: str | None = None
    """File to read, relative to `cwd`; null: `{run_dir}/metrics.jsonl` (jsonl) or the program's own output (log)."""
    step: str | None = None
    """Regular expression with a group that holds the iteration; a line that matches begins that iteration's row."""
    patterns: dict[str, str] = {}
    """Metric name -> regular expression with a group that holds its value (`eval/success` at least)."""
    percent: tuple[str, ...] = ()
    """Metrics of `patterns` that the program prints in percent; they are divided by 100."""
    early_end: bool = False
    """Accept a program that ends well before the last of `iterations`."""
    grace: Float = Field(20.0, ge=0)
    """Seconds that a cancelled program gets after SIGINT, and again after SIGTERM, before SIGKILL."""
    log_mib: Float = Field(64.0, gt=0)
    """Most MiB kept of the program's output (output.log and output.log.1 in the run folder)."""


class TrainerConfig(Section):
    """Who runs the learner."""

    kind: Literal["local", "command"] = "local"
    """`local`: in this process; `command`: an external program, see `trainer.command`."""
    threads: Int = Field(0, ge=0)
    """torch threads; 0 chooses what measures fastest for the model."""
    progress: Literal["auto", "bar", "lines", "off"] = "auto"
    """Progress display; `auto` is a bar on a terminal and lines elsewhere."""
    command: CommandConfig = CommandConfig()
    """External trainer."""


COMMAND_NOT_IDENTITY = frozenset(
    f"trainer.command.{name}" for name in CommandConfig.model_fields if name not in {"argv", "env", "cwd"}
)
"""How a program is watched, as opposed to what it is told to do."""
