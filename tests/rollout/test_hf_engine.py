"""The lock-step engine against transformers' own generate and against a full forward pass."""

import numpy as np
import pytest
import torch

from freshper.rollout import lane_cache
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine
from tests.models import random_policy

AGREEMENT = 1e-4


def prompts(rng, count, shared=0, longest=30):
    prefix = rng.integers(10, 400, shared).tolist()
    return [prefix + rng.integers(10, 400, int(rng.integers(1, longest))).tolist() for _ in range(count)]


def engine(policy, greedy=False, new=6, max_length=512, seed=0, **kwargs):
    return HFEngine(policy, Sampling(new, greedy=greedy, **kwargs), torch.Generator().manual_seed(seed), max_length)


def full_logprobs(policy, ids, start, temperature=1.0):
    with torch.no_grad():
        logits = policy.model(torch.tensor([ids])).logits[0].float() / temperature
    logp = logits.log_softmax(-1)
    return [float(logp[k - 1, ids[k]]) for k in range(start, len(ids))]


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
@pytest.mark.parametrize("shared", [0, 12])
def test_greedy_turn_equals_generate_for_prompts_of_different_lengths(architecture, shared):
    policy, rng = random_policy(1, architecture), np.random.default_rng(0)
    batch = prompts(rng, 7, shared)
    turns = engine(policy, greedy=True, new=8).start(batch)
    for prompt, turn in zip(batch, turns, strict=True):
        expected = policy.model.generate(
            torch.tensor([prompt]), max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=list(policy.end_ids)
        )[0, len(prompt) :].tolist()
        assert turn.token_ids == expected
        assert turn.ended == (expected[-1] in policy.end_ids)


@pytest.fixture
def poisoned_memory():
    """torch fills what `empty` returns with NaN, so that reading a slot before it is written shows."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
@pytest.mark.parametrize("shared", [0, 12])
@pytest.mark.parametrize("room", [512, 3])
def test_logprobs_over_many_turns_agree_with_a_full_forward(architecture, shared, room, monkeypatch, poisoned_memory):
    """Lanes of different lengths, closing at random moments: what is stored is what the trainer recomputes."""
    monkeypatch.setattr(lane_cache, "_ROOM", room)  # with 3, the cache has to grow again and again
    policy, rng = random_policy(2, architecture), np.random.default_rng(1)
    lanes = prompts(rng, 9, shared)
    history, sampled = [list(p) for p in lanes], [[] for _ in lanes]
    run = engine(policy, temperature=0.8)
    turns, active = run.start(lanes), list(range(9))
    for turn_index in range(6):
        for lane, turn in zip(active, turns, strict=True):
            sampled[lane].append((len(history[lane]), turn.logprobs))
            history[lane] += turn.token_ids
        active = [lane for lane in active if rng.random() < 0.75] if turn_index else active
        if not active:
            break
        rng.shuffle(active)  # an engine must not depend on the order of lanes
        news = prompts(rng, len(active))
        for lane, new in zip(active, news, strict=True):
            history[lane] += new
        turns = run.extend(active, news)
    compared = 0
    for lane, ids in enumerate(history):
        for start, logprobs in sampled[lane]:
            expected = full_logprobs(policy, ids[: start + len(logprobs)], start, 0.8)
            np.testing.assert_allclose(logprobs, expected, atol=AGREEMENT)
            compared += len(logprobs)
    assert compared > 100


def test_a_lane_is_the_same_alone_and_in_company():
    policy, rng = random_policy(3), np.random.default_rng(2)
    batch = prompts(rng, 5, shared=10)
    together = engine(policy, greedy=True).start(batch)
    alone = [engine(policy, greedy=True).start([prompt])[0] for prompt in batch]
    assert [t.token_ids for t in together] == [t.token_ids for t in alone]


def test_stops_at_the_conversation_limit():
    policy = random_policy(4)
    turn = engine(policy, new=50, max_length=20).start([list(range(10, 26))])[0]
    assert len(turn.token_ids) <= 4


def test_same_seed_same_samples_and_another_seed_others():
    policy, batch = random_policy(5), prompts(np.random.default_rng(3), 6)
    first, again, other = (engine(policy, seed=s).start(batch) for s in (0, 0, 1))
    assert first == again
    assert [t.token_ids for t in first] != [t.token_ids for t in other]


def test_grouped_query_attention_and_eager_attention():
    for changes in ({"num_key_value_heads": 2}, {"_attn_implementation": "eager"}):
        policy, batch = random_policy(6, **changes), prompts(np.random.default_rng(4), 4)
        for prompt, turn in zip(batch, engine(policy).start(batch), strict=True):
            expected = full_logprobs(policy, prompt + turn.token_ids, len(prompt))
            np.testing.assert_allclose(turn.logprobs, expected, atol=AGREEMENT)
