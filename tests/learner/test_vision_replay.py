"""Image trajectories through the loop: what is replayed has the log-probs it had when it was collected."""

import dataclasses

import numpy as np
import pytest
import torch

from freshper.algorithms.advantages import reinforce_pp
from freshper.algorithms.gae import ppo
from freshper.algorithms.group import grpo
from freshper.config.algorithm import AlgorithmConfig, CriticConfig
from freshper.config.model import ModelConfig
from freshper.learner import checkpoint
from freshper.learner.batching import micro_batches
from freshper.learner.optimizer import Optimizer
from freshper.learner.update import Batch, Models, critic_values, response_logprobs, update
from freshper.policy.critic import load_critic
from freshper.policy.load import load_policy
from freshper.replay.buffer import ReplayBuffer
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine
from tests.replay.helpers import assert_same, make_config
from tests.vision import Pictures, random_vision_policy, reference_logprobs

POLICY = random_vision_policy(2)


def play(policy, seeds, group_size=1, temperature=0.9):
    sampling, noise = Sampling(4, temperature=temperature), torch.Generator().manual_seed(0)
    return collect(
        policy,
        lambda: HFEngine(policy, sampling, noise, 512),
        EnvPool(Pictures),
        seeds,
        Limits(512, -0.1),
        policy_version=0,
        iteration=0,
        group_size=group_size,
    )


@pytest.fixture(scope="module")
def played():
    return play(POLICY, list(range(10)))


def logprobs(policy, trajectories, budget=2000, temperature=0.9):
    found = [np.zeros(0)] * len(trajectories)
    for micro in micro_batches(trajectories, budget, policy.device):
        with torch.no_grad():
            values, _ = response_logprobs(policy, micro, temperature)
        for place, row in enumerate(micro.rows):
            found[row] = values[micro.owner == place].numpy()
    return found


def test_collected_images_are_those_of_the_environment(played):
    env = Pictures()
    for trajectory in played:
        observation, _ = env.reset(seed=trajectory.seed)
        assert len(trajectory.images) == trajectory.n_turns
        for image in trajectory.images:
            np.testing.assert_array_equal(image.pixels(), observation["image"])
            observation = env.step("")[0]
        ids = trajectory.token_ids.tolist()
        assert ids.count(POLICY.vision.image_id) == 16 * trajectory.n_turns
    # The second picture of an episode is the first one: packed once.
    longer = next(t for t in played if t.n_turns > 1)
    assert longer.images[0] is longer.images[1]


@pytest.mark.parametrize("budget", [1, 300, 5000])
def test_training_log_probs_are_those_of_collection(played, budget):
    """Alone, in small and in large micro-batches; so the ratio of fresh data is one."""
    for trajectory, found in zip(played, logprobs(POLICY, played, budget), strict=True):
        np.testing.assert_allclose(found, trajectory.behaviour_logprobs[trajectory.response_mask], atol=1e-4)


def test_they_are_transformers_own(played):
    trajectory = max(played, key=lambda t: t.n_turns)
    ids = trajectory.token_ids.tolist()
    reference = (reference_logprobs(POLICY, ids, list(trajectory.images)) / 0.9).log_softmax(-1)
    sampled = np.flatnonzero(trajectory.response_mask)
    expected = [float(reference[k - 1, ids[k]]) for k in sampled]
    np.testing.assert_allclose(trajectory.behaviour_logprobs[sampled], expected, atol=1e-4)


def test_replayed_log_probs_are_those_of_collection_after_a_checkpoint(played, tmp_path):
    """Through the packed buffer, the checkpoint's files and a policy loaded from its folder."""
    buffer = ReplayBuffer(make_config(capacity=10), np.random.default_rng(0))
    buffer.add(played, None, 0)
    folder = checkpoint.save(tmp_path, 1, POLICY, {}, buffer.state_dict())
    saved = checkpoint.load(folder)
    again = load_policy(ModelConfig(kind="hf", path=saved.policy))
    assert again.vision is not None and again.chat == POLICY.chat and again.never.equal(POLICY.never)
    restored = ReplayBuffer(make_config(capacity=10), np.random.default_rng(9))
    restored.load_state_dict(saved.buffer)
    drawn = restored.draw(10, 0, 0.0).trajectories
    originals = {t.seed: t for t in played}
    for trajectory, found in zip(drawn, logprobs(again, drawn), strict=True):
        assert_same(originals[trajectory.seed], trajectory)
        np.testing.assert_allclose(found, trajectory.behaviour_logprobs[trajectory.response_mask], atol=1e-4)
    # It is the images that matter: with others the same tokens have other log-probs.
    wrong = [dataclasses.replace(t, images=played[0].images[:1] * t.n_turns) for t in drawn if t.seed != played[0].seed]
    right = [t for t in drawn if t.seed != played[0].seed]
    moved = np.abs(np.concatenate(logprobs(again, wrong)) - np.concatenate(logprobs(again, right)))
    assert moved.max() > 1e-2


def steps(policy, trajectories, config, critic=None, estimates=None, reference=None):
    optimizer = Optimizer(policy, config, 10, critic)
    batch = Batch(trajectories, np.ones(len(trajectories)), estimates)
    models = Models(policy, reference, critic)
    return update(models, optimizer, batch, config, 0.9, np.random.default_rng(0), 1, 1)


def test_an_update_trains_the_vision_tower_too(played):
    policy = random_vision_policy(2)
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    config = AlgorithmConfig(warmup_steps=0)
    result = steps(policy, reinforce_pp(played, config), config)
    assert result.metrics["log_ratio_max"] < 1e-4
    moved = {name for name, weight in policy.model.state_dict().items() if not torch.equal(weight, before[name])}
    assert any("visual" in name for name in moved) and any("language_model" in name for name in moved)


@pytest.mark.parametrize("budget", [300, 5000])
def test_a_step_does_not_depend_on_micro_batches_or_checkpointing(played, budget):
    config = AlgorithmConfig(warmup_steps=0, micro_batch_tokens=budget, learning_rate=1e-3)
    plain, recomputed = random_vision_policy(2), random_vision_policy(2)
    whole = AlgorithmConfig(warmup_steps=0, micro_batch_tokens=100_000, learning_rate=1e-3)
    steps(plain, reinforce_pp(played, whole), whole)
    recomputed.checkpointing = True
    recomputed.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    steps(recomputed, reinforce_pp(played, config), config)
    probe = [t for t in played if t.n_turns > 1][:3]
    for one, two in zip(logprobs(plain, probe), logprobs(recomputed, probe), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-2)


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_ppo_sees(played, kind, tmp_path):
    folder = checkpoint.save(tmp_path, 1, random_vision_policy(2), {}, None) / "policy"
    model = ModelConfig(kind="hf", path=str(folder))
    policy = load_policy(model)
    config = AlgorithmConfig(name="ppo", warmup_steps=0, critic=CriticConfig(kind=kind))
    critic = load_critic(config.critic, model, policy)
    torch.nn.init.normal_(critic.head.weight)
    values = critic_values(Models(policy, None, critic), played, config)
    swapped = [dataclasses.replace(t, images=t.images[::-1]) for t in played]
    turned = [k for k, t in enumerate(played) if t.n_turns == 3]
    other = critic_values(Models(policy, None, critic), swapped, config)
    assert max(float(np.abs(values[k] - other[k]).max()) for k in turned) > 1e-3
    trajectories, estimates = ppo(played, values, config)
    result = steps(policy, trajectories, config, critic, estimates)
    assert result.metrics["critic_grad_norm"] > 0 and result.metrics["log_ratio_max"] < 1e-4


def test_grpo_with_a_reference_policy_sees(played):
    policy = random_vision_policy(2)
    groups = play(policy, [s for seed in range(3) for s in (seed, seed)], group_size=2)
    config = AlgorithmConfig(name="grpo", warmup_steps=0, whiten=False, kl={"coefficient": 0.1})
    result = steps(policy, grpo(groups, config), config, reference=random_vision_policy(2))
    assert result.metrics["kl_reference"] == pytest.approx(0, abs=1e-6)


def test_an_image_for_a_policy_of_text_is_an_error():
    from tests.models import random_policy

    policy = random_policy()
    with pytest.raises(ValueError, match="shows images, and the policy is a model of text"):
        collect(policy, lambda: None, EnvPool(Pictures), [0], Limits(512, 0.0), 0, 0)
