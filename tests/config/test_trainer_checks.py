"""What is wrong with an external trainer is known before it starts, all at once."""

from __future__ import annotations

import sys

import pytest

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.config.identity import identity
from freshper.config.load import load_config
from freshper.config.placeholders import fill, placeholder_values, placeholders

LOG = {"metrics": "log", "step": r"step (\d+)", "patterns": {"eval/success": r"success (\S+)"}}


def found(kind="command", **command):
    """Issues of `trainer.command`, by key below it."""
    try:
        load_config({"trainer": {"kind": kind, "command": {"argv": [sys.executable], **command}}})
    except ConfigError as error:
        return {issue.key.removeprefix("trainer.command."): issue.expected for issue in error.issues}
    return {}


@pytest.mark.parametrize(
    ("command", "key", "word"),
    [
        ({"argv": []}, "argv", "a program and its arguments"),
        ({"argv": ["no-such-program-x"]}, "argv[0]", "none of this name in PATH"),
        ({"argv": ["./no/such"]}, "argv[0]", "there is no"),
        ({"argv": ["/etc/passwd"]}, "argv[0]", "not executable"),
        ({"argv": ["python3", "no_such.py"]}, "argv[1]", "there is no"),
        ({"argv": ["{python}", "{sead}"]}, "argv[1]", "unknown placeholder {sead}; did you mean seed"),
        ({"argv": ["{python}", "{tau}"]}, "argv[1]", "did you mean scale.tau or replay.decay.tau"),
        ({"argv": ["{python}", "{replay}"]}, "argv[1]", "unknown placeholder {replay}"),
        ({"argv": ["{python}", "{seed"]}, "argv[1]", "single {"),
        ({"resume_argv": ["--from", "}"]}, "resume_argv[1]", "single }"),
        ({"env": {"A": "{x}"}}, "env.A", "unknown placeholder {x}"),
        ({"env": {"A=B": "1"}}, "env.A=B", "environment variable"),
        ({"cwd": "/no/such/folder"}, "cwd", "there is no /no/such/folder"),
        ({"file": "{run_dir}/status.json"}, "file", "written by freshper"),
        ({"file": "/tmp"}, "file", "is a folder"),
        ({"step": "x"}, "step", "no effect unless trainer.command.metrics = log"),
        ({"patterns": {"eval/success": "x"}}, "patterns", "no effect unless"),
        ({**LOG, "step": None}, "step", "finds the iteration"),
        ({**LOG, "step": "step (", "patterns": LOG["patterns"]}, "step", "expected a regular expression: missing )"),
        ({**LOG, "step": r"step \d+"}, "step", "expected a group"),
        ({**LOG, "patterns": {}}, "patterns", "expected a metric called eval/success"),
        ({**LOG, "patterns": {"eval/sucess": "(x)"}}, "patterns", "found eval/sucess"),
        ({**LOG, "patterns": {"eval/success": "(x)", "a b": "(x)"}}, "patterns.a b", "a metric's name"),
        ({**LOG, "percent": ["eval/sucess"]}, "percent", "did you mean eval/success"),
        ({**LOG, "file": "{run_dir}/metrics.jsonl"}, "file", "written by freshper"),
        ({"grace": -1}, "grace", "at least 0"),
        ({"metrics": "csv"}, "metrics", "'jsonl' or 'log'"),
    ],
)
def test_each_mistake_is_named(command, key, word):
    issues = found(**command)
    assert list(issues) == [key]
    assert word in issues[key]


def test_all_at_once():
    issues = found(argv=["no-such-program-x"], cwd="/no/such", **{**LOG, "step": "(", "patterns": {"a": "b"}})
    assert set(issues) == {"cwd", "step", "patterns", "patterns.a"}


def test_settings_that_nothing_would_read():
    issues = found(kind="local", env={"A": "1"}, grace=3)
    assert set(issues) == {"argv", "env", "grace"} and "trainer=command" in issues["env"]


@pytest.mark.parametrize("command", [{}, LOG, {**LOG, "percent": ["eval/success"], "file": "x.log"}])
def test_what_is_right(command):
    assert found(**command) == {}


def test_a_program_beside_us_and_in_a_path_of_its_own(tmp_path):
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert found(argv=["bin/tool"], cwd=str(tmp_path)) == {}
    assert found(argv=["tool"], env={"PATH": str(tmp_path / "bin")}) == {}
    assert "argv[0]" in found(argv=["bin/tool"])


def test_placeholders():
    values = placeholder_values(compose_config(["replay.decay.tau=inf", "seed=3", "output.root=/runs"]), resume=True)
    text = "{seed} {replay.decay.tau} {output.figures} {model.path} {resume} {{seed}} {variant.name}"
    assert placeholders(text) == ["seed", "replay.decay.tau", "output.figures", "model.path", "resume", "variant.name"]
    assert fill(text, values) == "3 inf true null true {seed} freshper"
    assert fill("{config}", values) == fill("{run_dir}/config.yaml", values)
    assert values["run_dir"].startswith("/runs/frozenlake-tiny-reinforce_pp-freshper-seed3-")
    assert values["python"] == sys.executable


def command(*overrides):
    return identity(compose_config(["trainer=command", "trainer.command.argv=['{python}','{seed}']", *overrides]))


def test_another_trainer_is_another_run_but_how_it_is_watched_does_not_matter():
    assert command() != identity(compose_config())
    assert command() != command("trainer.command.argv=['{python}','{seed}',x]")
    assert command() != command("trainer.command.env.BETA=2")
    for override in ("grace=1", "log_mib=1", "early_end=true", "resume_argv=[x]", "file=x.jsonl"):
        assert command() == command(f"trainer.command.{override}")


def test_entries_are_added_from_the_command_line():
    config = compose_config(
        [
            "trainer=command",
            "trainer.command.argv=['{python}']",
            "trainer.command.env.A=1",
            "trainer.command.env={B:x}",
            "trainer.command.metrics=log",
            "trainer.command.step='(.)'",
            "trainer.command.patterns={eval/success:'s (.+)'}",
        ]
    )
    assert config.trainer.command.env == {"A": "1", "B": "x"}
    assert config.trainer.command.patterns == {"eval/success": "s (.+)"}
