"""Checks of an external trainer, before anything starts: what it is told, whether it exists, how it is read."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from freshper.config.errors import Issue, did_you_mean
from freshper.config.identity import run_path
from freshper.config.placeholders import fill, placeholder_values, placeholders
from freshper.config.run import RunConfig
from freshper.config.trainer import CommandConfig

SECTION = "trainer.command"
OURS = frozenset(
    {"metrics.jsonl", "config.yaml", "provenance.json", "status.json", "error.txt", "output.log", "output.log.1"}
)
"""Files of a run folder that this process writes."""


def check_trainer(config: RunConfig) -> Iterator[Issue]:
    """Everything that is wrong with `trainer`."""
    command = config.trainer.command
    if config.trainer.kind != "command":
        for name, field in CommandConfig.model_fields.items():
            if getattr(command, name) != field.get_default():
                yield Issue(
                    f"{SECTION}.{name}",
                    f"has no effect, since trainer.kind = {config.trainer.kind}; expected it unset, or trainer=command",
                    _shown(getattr(command, name)),
                    also=("trainer.kind",),
                )
        return
    if not command.argv:
        yield Issue(
            f"{SECTION}.argv", "expected a program and its arguments, such as [python,train.py,--seed,'{seed}']", "[]"
        )
    yield from _environment(command)
    broken = list(_placeholders(config))
    yield from broken
    if not broken:
        yield from _files(config)
    yield from _log(command) if command.metrics == "log" else _jsonl(command)


def _shown(value: object) -> str:
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)


def _environment(command: CommandConfig) -> Iterator[Issue]:
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name + value:
            yield Issue(f"{SECTION}.env.{name}", "expected the name and value of an environment variable", value)


def _placeholders(config: RunConfig) -> Iterator[Issue]:
    command = config.trainer.command
    texts = {f"{SECTION}.argv[{i}]": text for i, text in enumerate(command.argv)}
    texts |= {f"{SECTION}.resume_argv[{i}]": text for i, text in enumerate(command.resume_argv)}
    texts |= {f"{SECTION}.env.{name}": text for name, text in command.env.items()}
    texts |= {f"{SECTION}.cwd": command.cwd} | ({} if command.file is None else {f"{SECTION}.file": command.file})
    valid = placeholder_values(config, resume=False)
    for key, text in texts.items():
        try:
            names = placeholders(text)
        except ValueError as error:
            yield Issue(key, str(error), text)
            continue
        for name in names:
            if name not in valid:
                yield Issue(key, f"unknown placeholder {{{name}}}{did_you_mean(name, valid)}", text)


def _files(config: RunConfig) -> Iterator[Issue]:
    """Working directory, program, script and metrics file."""
    command, values = config.trainer.command, placeholder_values(config, resume=False)
    folder = run_path(config).absolute()
    cwd = Path(fill(command.cwd, values)).expanduser().absolute()
    inside = cwd == folder or folder in cwd.parents  # made when the run starts
    if not inside and not cwd.is_dir():
        yield Issue(f"{SECTION}.cwd", f"expected a folder; there is no {cwd}", command.cwd)
    elif command.argv:
        yield from _program(command, [fill(text, values) for text in command.argv], cwd)
    if command.file is not None:
        file = cwd / fill(command.file, values)
        direct = command.metrics == "jsonl" and file.name == "metrics.jsonl"
        if file.parent == folder and file.name in OURS and not direct:
            yield Issue(f"{SECTION}.file", f"expected another name: {file.name} is written by freshper", command.file)
        elif file.is_dir():
            yield Issue(f"{SECTION}.file", f"expected a file, but {file} is a folder", command.file)


def _program(command: CommandConfig, argv: list[str], cwd: Path) -> Iterator[Issue]:
    program, key = argv[0], f"{SECTION}.argv[0]"
    if os.sep in program:
        path = cwd / Path(program).expanduser()
        if not path.is_file():
            yield Issue(key, f"expected a program; there is no {path}", command.argv[0])
        elif not os.access(path, os.X_OK):
            yield Issue(key, f"expected a program, but {path} is not executable (chmod +x)", command.argv[0])
    elif shutil.which(program, path=command.env.get("PATH")) is None:
        yield Issue(key, "expected a program, found none of this name in PATH", command.argv[0])
    interpreted = re.fullmatch(r"python[\d.]*|(ba|z)?sh", Path(program).name)
    if interpreted and len(argv) > 1 and argv[1].endswith((".py", ".sh")) and not (cwd / argv[1]).is_file():
        yield Issue(f"{SECTION}.argv[1]", f"expected a script; there is no {cwd / argv[1]}", command.argv[1])


def _jsonl(command: CommandConfig) -> Iterator[Issue]:
    for name in ("step", "patterns", "percent"):
        value = getattr(command, name)
        if value:
            yield Issue(
                f"{SECTION}.{name}",
                f"has no effect unless {SECTION}.metrics = log; expected it unset",
                _shown(value),
                also=(f"{SECTION}.metrics",),
            )


def _log(command: CommandConfig) -> Iterator[Issue]:
    if command.step is None:
        yield Issue(
            f"{SECTION}.step", r"expected a regular expression that finds the iteration, such as 'step: (\d+)'", None
        )
    else:
        yield from _pattern(f"{SECTION}.step", command.step)
    for name, pattern in command.patterns.items():
        yield from _pattern(f"{SECTION}.patterns.{name}", pattern)
        if not re.fullmatch(r"\w+(/[\w.@-]+)*", name) or name == "iteration":
            yield Issue(f"{SECTION}.patterns.{name}", "expected a metric's name, such as eval/success", pattern)
    if "eval/success" not in command.patterns:
        yield Issue(
            f"{SECTION}.patterns",
            "expected a metric called eval/success, by which runs are compared"
            + (f"; found {', '.join(command.patterns)}" if command.patterns else ""),
            also=(f"{SECTION}.metrics",),
        )
    for name in command.percent:
        if name not in command.patterns:
            yield Issue(
                f"{SECTION}.percent", f"expected metrics of patterns{did_you_mean(name, command.patterns)}", name
            )


def _pattern(key: str, pattern: str) -> Iterator[Issue]:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        yield Issue(key, f"expected a regular expression: {error}", pattern)
        return
    if groups == 0:
        yield Issue(key, "expected a group ( ) around the number", pattern)
