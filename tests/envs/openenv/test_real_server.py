"""An environment written with OpenEnv's own classes, on OpenEnv's own server, played and trained on by its address."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshper.config.envs.openenv import OpenEnvConfig
from freshper.envs.errors import EnvError
from freshper.envs.openenv.env import OpenEnvText
from freshper.envs.prefetch import prefetch
from freshper.records.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[3]
PYTHON = Path(sys.prefix) / "openenv-env" / "bin" / "python"
SESSIONS = 8

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"no {PYTHON}: set up OpenEnv by `make openenv`")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [str(PYTHON), str(Path(__file__).with_name("corridor.py")), str(SESSIONS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def make(url: str, **settings: object) -> OpenEnvText:
    return OpenEnvText(OpenEnvConfig.model_validate({"url": url, "retries": 0, "action_from": "answer", **settings}))


def test_the_fields_are_found_and_the_seed_counts(url: str) -> None:
    env = make(url)
    try:
        env.check()
        first = [env.reset(seed=seed)[0] for seed in range(20)]
        assert first == [env.reset(seed=seed)[0] for seed in range(20)] and len(set(first)) == 6
    finally:
        env.close()


def test_episodes_to_the_goal_side_by_side(url: str) -> None:
    envs = [make(url) for _ in range(SESSIONS)]
    try:
        goals = [int(env.reset(seed=seed)[0].split("goal is at ")[1][0]) for seed, env in enumerate(envs)]
        replies = [f"<answer>{'Left' if goal < 3 else 'Right'}</answer>" for goal in goals]
        for turn in range(3):
            live = [k for k in range(SESSIONS) if abs(goals[k] - 3) > turn]
            prefetch([envs[k] for k in live], [replies[k] for k in live])
            for k in live:
                _, reward, terminated, truncated, info = envs[k].step(replies[k])
                there = abs(goals[k] - 3) == turn + 1
                assert (reward, terminated, truncated) == (float(there), there, False)
                assert info == {"valid": True, "success": there, "turn": turn + 1}
        with pytest.raises(EnvError, match="rollout.lock_step"):
            make(url).reset(seed=0)
    finally:
        for env in envs:
            env.close()


def test_a_refused_action_costs_the_turn_and_a_broken_environment_the_episode(url: str) -> None:
    env = make(url)
    try:
        before = env.reset(seed=0)[0]
        text, reward, terminated, truncated, info = env.step("<answer>Up</answer>")
        assert text.startswith("Invalid action: Input should be 'Left'") and not info["valid"] and "error" not in info
        assert env.step("<answer>Left</answer>")[0] == before.replace("at 3", "at 2")
        assert "Jump" in env.step("<answer>Jump</answer>")[4]["error"]
        assert env.reset(seed=0)[0] == before
    finally:
        env.close()


def test_it_trains(url: str, tmp_path: Path) -> None:
    command = [
        sys.executable, "run.py", "env=openenv", f"env.url={url}", "env.action_from=answer", "env.max_turns=4",
        "model.base=frozen_lake", "iterations=1", f"rollout.episodes={SESSIONS}", f"evaluation.episodes={SESSIONS}",
        "trainer.threads=1", "output.figures=false", "output.name=run", f"output.root={tmp_path}",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    last = read_metrics(tmp_path / "run")[-1]
    assert last["iteration"] == 1 and last["fresh/log_ratio_max"] < 1e-4 and 0 < last["fresh/valid_rate"] <= 1
