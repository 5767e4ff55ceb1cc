"""The critic in an update: gradients against a plain loop in float64, targets, sharing and separation."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from freshper.algorithms.gae import ppo
from freshper.config.algorithm import AlgorithmConfig, CriticConfig
from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDER
from freshper.learner.optimizer import Norms, Optimizer
from freshper.learner.update import Batch, Models, critic_values, update
from freshper.policy.critic import Critic, load_critic
from freshper.policy.load import ModelError, load_policy
from tests.learner.test_update import batch
from tests.models import random_policy


def make_critic(policy, separate, seed=5):
    torch.manual_seed(seed)
    hidden = policy.model.config.hidden_size
    head = nn.Linear(hidden, 1).double()
    return Critic(head, random_policy(7).model.model.double() if separate else None, None, False)


class Catch(Optimizer):
    """Keeps the gradient instead of applying it."""

    def step(self):
        for name in ("weights", "critic_weights"):
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in getattr(self, name)]
            setattr(self, f"caught_{name}", torch.cat([g.flatten() for g in grads]))
        self.discard()
        self.steps += 1
        return Norms(1.0, 1.0)


def loop_loss(policy, critic, rows, estimates, weights, config):
    """Policy and value loss of a batch, one token after another."""
    tokens = sum(int(t.response_mask.sum()) for t in rows)
    valued = sum(int(e.trained.sum()) for e in estimates)
    total = torch.zeros((), dtype=torch.float64)
    for t, e, w in zip(rows, estimates, weights, strict=True):
        ids = torch.tensor(t.token_ids[None].astype(np.int64))
        logp = policy.model(ids).logits[0].log_softmax(-1)
        states = (policy.model.model if critic.trunk is None else critic.trunk)(ids).last_hidden_state[0]
        for place, k in enumerate(np.flatnonzero(t.response_mask)):
            advantage = float(t.advantages[k])
            ratio = (logp[k - 1, int(t.token_ids[k])] - float(t.behaviour_logprobs[k])).exp()
            bounded = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
            total = total - w * torch.minimum(ratio * advantage, bounded * advantage) / tokens
            if not e.trained[place]:
                continue
            value = critic.head(states[k - 1])[0]
            clip, before, target = config.critic.value_clip, float(e.values[place]), float(e.returns[place])
            bounded_value = value.clamp(before - clip, before + clip)
            loss = torch.maximum((value - target) ** 2, (bounded_value - target) ** 2) / 2
            total = total + config.critic.coefficient * w * loss / valued
    return total


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("over", ["tokens", "turns"])
def test_gradient_equals_a_plain_loop_over_tokens(separate, over):
    policy = random_policy()
    policy.model.double()
    critic = make_critic(policy, separate)
    config = AlgorithmConfig(name="ppo", gae_over=over, gamma=0.9, gae_lambda=0.8, micro_batch_tokens=60)
    models = Models(policy, None, critic)
    rows = batch(policy, 6)
    rows, estimates = ppo(rows, critic_values(models, rows, config), config)
    nn.init.normal_(critic.head.weight, std=0.1)  # values have moved since, some of them beyond the clip
    weights = np.random.default_rng(0).random(len(rows))
    optimizer = Catch(policy, config, 100, critic)
    result = update(models, optimizer, Batch(rows, weights, estimates), config, 1.0, np.random.default_rng(0), 1, 1)
    assert 0 < result.metrics["value_clip_fraction"] < 1

    policy.model.zero_grad()
    loss = loop_loss(policy, critic, rows, estimates, weights, config)
    loss.backward()
    assert result.metrics["loss"] == pytest.approx(loss.item(), rel=1e-9)
    for name, parameters in (("weights", policy.model.parameters()), ("critic_weights", critic.parameters())):
        expected = torch.cat([p.grad.flatten() for p in parameters])
        # transformers normalises hidden states in float32 whatever the weights are
        torch.testing.assert_close(getattr(optimizer, f"caught_{name}"), expected, rtol=1e-4, atol=1e-7)


def test_values_do_not_depend_on_micro_batches():
    policy = random_policy()
    policy.model.double()
    models = Models(policy, None, make_critic(policy, False))
    rows = batch(policy, 9)
    whole = critic_values(models, rows, AlgorithmConfig(name="ppo"))
    split = critic_values(models, rows, AlgorithmConfig(name="ppo", micro_batch_tokens=1))
    for a, b, t in zip(whole, split, rows, strict=True):
        assert len(a) == t.response_mask.sum()
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_values_learn_the_returns(kind):
    policy = load_policy(ModelConfig())
    config = AlgorithmConfig(
        name="ppo", learning_rate=1e-3, warmup_steps=0,
        critic=CriticConfig(kind=kind, learning_rate=1e-2, value_clip=None, coefficient=1.0),
    )  # fmt: skip
    critic = load_critic(config.critic, ModelConfig(), policy)
    models, optimizer = Models(policy, None, critic), Optimizer(policy, config, 100, critic)
    rows = batch(policy, 8)
    assert all((v == 0).all() for v in critic_values(models, rows, config))  # the head starts at zero
    before = copy.deepcopy(policy.model.state_dict())
    rows, estimates = ppo(rows, critic_values(models, rows, config), config)
    results = [
        update(models, optimizer, Batch(rows, np.ones(8), estimates), config, 1.0, np.random.default_rng(0), 1, 1)
        for _ in range(30)
    ]
    assert results[-1].metrics["value_loss"] < 0.2 * results[0].metrics["value_loss"]
    assert results[-1].metrics["explained_variance"] > 0.5 > results[0].metrics["explained_variance"]
    assert results[0].metrics["critic_grad_norm"] > 0
    assert any(not torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())


def test_a_critic_left_alone_does_not_move():
    policy = random_policy()
    critic = load_critic(CriticConfig(kind="separate"), ModelConfig(), policy)
    nn.init.ones_(critic.head.weight)
    config = AlgorithmConfig(name="ppo", warmup_steps=0, weight_decay=0.1)
    models, optimizer = Models(policy, None, critic), Optimizer(policy, config, 100, critic)
    before = copy.deepcopy(critic.state_dict())
    update(models, optimizer, Batch(batch(policy), np.ones(10)), config, 1.0, np.random.default_rng(0), 1, 1)
    for part in ("head", "trunk"):
        for name, value in critic.state_dict()[part].items():
            assert torch.equal(value, before[part][name])


def test_each_side_has_its_own_learning_rate():
    policy = random_policy()
    critic = load_critic(CriticConfig(), ModelConfig(), policy)
    config = AlgorithmConfig(
        name="ppo", schedule="linear", warmup_steps=0, learning_rate=1e-3, critic=CriticConfig(learning_rate=1e-2)
    )
    optimizer = Optimizer(policy, config, 10, critic)
    for step in range(3):
        optimizer.step()
        rates = [group["lr"] for group in optimizer.adam.param_groups]
        assert rates == pytest.approx([1e-3 * (1 - step / 10), 1e-2 * (1 - step / 10)])


def test_a_separate_critic_may_have_any_size_but_needs_the_same_tokens(tmp_path):
    policy = load_policy(ModelConfig())
    small = random_policy(hidden_size=32, intermediate_size=64, num_attention_heads=2,
                          num_key_value_heads=1)  # fmt: skip
    small.model.save_pretrained(tmp_path / "small")
    small.tokenizer.save_pretrained(tmp_path / "small")
    critic = load_critic(CriticConfig(kind="separate", path=str(tmp_path / "small")), ModelConfig(), policy)
    assert critic.head.in_features == 32
    rows = batch(policy, 3)
    assert len(critic_values(Models(policy, None, critic), rows, AlgorithmConfig(name="ppo"))) == 3

    other = shutil.copytree(TINY_FOLDER, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["A"], ids["B"] = ids["B"], ids["A"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(ModelError, match="another tokenizer than the policy"):
        load_critic(CriticConfig(kind="separate", path=str(other)), ModelConfig(), policy)
