"""Every cell of the tables in docs/algorithms.md: what is allowed trains, what is not says why before the start."""

from pathlib import Path

import numpy as np
import pytest

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.learner.learner import Learner
from freshper.policy.critic import load_critic
from freshper.policy.load import load_policy

DOC = Path(__file__).resolve().parents[2] / "docs" / "algorithms.md"
SMALL = ["iterations=2", "rollout.episodes=8", "env.max_turns=3", "evaluation.episodes=4"]
ALGORITHMS = {"reinforce_pp", "grpo", "ppo"}


def tables():
    """(header cells, rows of cells) of every Markdown table."""
    block, found = [], []
    for line in [*DOC.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip("|").split("|")])
        elif block:
            found.append((block[0], block[2:]))
            block = []
    return found


def cells():
    for header, rows in tables():
        if not {column.split()[0] for column in header[1:]} <= ALGORITHMS:
            continue
        for row in rows:
            for column, expected in zip(header[1:], row[1:], strict=True):
                algorithm, *anchor = column.split()
                overrides = [f"algorithm={algorithm}", *(f"algorithm.ratio_anchor={name}" for name in anchor)]
                if header[0] == "variant":
                    overrides.append(f"variant={row[0]}")
                elif header[0] == "setting":
                    overrides += row[0].strip("`").split()
                else:
                    overrides.append(f"{header[0].strip('`')}={row[0]}")
                if algorithm == "grpo" and "group_size" not in row[0]:
                    overrides.append("rollout.group_size=4")
                yield pytest.param(overrides, expected, id=" ".join(overrides))


def test_the_tables_are_found():
    assert len(list(cells())) == 8 * 6 + 6 * 3 + 31 * 3


@pytest.mark.parametrize(("overrides", "expected"), list(cells()))
def test_cell(overrides, expected):
    if expected != "yes":
        with pytest.raises(ConfigError, match=expected.replace(".", r"\.")):
            compose_config([*SMALL, *overrides])
        return
    config = compose_config([*SMALL, *overrides])
    policy = load_policy(config.model)
    reference = load_policy(config.model) if config.algorithm.kl.coefficient else None
    critic = None
    if config.algorithm.name == "ppo":
        critic = load_critic(config.algorithm.critic, config.model, policy)
    learner = Learner(config, policy, reference, critic)
    rows = [learner.iterate().metrics for _ in range(2)]
    for row in rows:
        assert all(np.isfinite(value) for value in row.values())
        if config.replay.batches_per_iteration and not row.get("fresh/groups_left_out"):
            assert row["replay/batches"] == 2
        if reference is not None:
            assert "fresh/kl_reference" in row
        if critic is not None:
            assert {"fresh/value_loss", "fresh/critic_grad_norm", "fresh/explained_variance"} <= row.keys()
            assert not config.replay.batches_per_iteration or row["replay/value_drift"] >= 0
    assert learner.optimizer.steps == rows[-1]["counts/optimizer_steps"] > 0
