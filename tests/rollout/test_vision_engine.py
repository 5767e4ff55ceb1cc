"""Generation with images and a cache against transformers' own forward pass over the whole conversation."""

import numpy as np
import pytest
import torch

from freshper.policy.chat import encode
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine
from tests.vision import picture, random_vision_policy, reference_logprobs

POLICY = random_vision_policy(1)
AGREEMENT = 1e-4


def first(rng, system="Look."):
    image = picture(rng, 64, int(rng.choice([32, 64])))
    return POLICY.chat.first_prompt(system, POLICY.vision.message("Which way?", image)), image


def later(rng):
    words = "Turn " + "and on " * int(rng.integers(3))
    image = picture(rng, 64, int(rng.choice([32, 64])))
    return POLICY.chat.next_prompt(POLICY.vision.message(words, image)), image


def encoded(texts):
    return encode(POLICY.tokenizer, texts)


def engine(greedy=False, new=5, seed=0, **kwargs):
    return HFEngine(POLICY, Sampling(new, greedy=greedy, **kwargs), torch.Generator().manual_seed(seed), 1024)


def expected(ids, images, start, temperature=1.0):
    logp = (reference_logprobs(POLICY, ids, images) / temperature).log_softmax(-1)
    return [float(logp[k - 1, ids[k]]) for k in range(start, len(ids))]


@pytest.mark.parametrize("system", ["Look.", "You look at a picture and choose where to go, then say so."])
def test_logprobs_over_many_turns_agree_with_a_full_forward(system):
    """An image a turn, of different sizes; lanes close at random and come in any order. Positions go wrong from the
    second image on if they are counted from the cache."""
    rng = np.random.default_rng(0)
    texts, shown = zip(*(first(rng, system) for _ in range(6)), strict=True)
    prompts, images = encoded(list(texts)), [[image] for image in shown]
    history, seen = [list(p) for p in prompts], [list(i) for i in images]
    sampled = [[] for _ in prompts]
    run, active = engine(temperature=0.8), list(range(6))
    turns = run.start(prompts, images)
    for turn_index in range(5):
        for lane, turn in zip(active, turns, strict=True):
            sampled[lane].append((len(history[lane]), turn.logprobs, len(seen[lane])))
            history[lane] += turn.token_ids
        active = [lane for lane in active if rng.random() < 0.8] if turn_index else active
        if not active:
            break
        rng.shuffle(active)
        texts, shown = zip(*(later(rng) for _ in active), strict=True)
        news = encoded(list(texts))
        # Now and then a turn without an image.
        blind = [rng.random() < 0.2 for _ in active]
        news = [encoded(["and then?"])[0] if b else new for b, new in zip(blind, news, strict=True)]
        images = [[] if b else [image] for b, image in zip(blind, shown, strict=True)]
        for lane, new, image in zip(active, news, images, strict=True):
            history[lane] += new
            seen[lane] += image
        turns = run.extend(active, news, images if any(images) else ())
    compared = 0
    for lane, ids in enumerate(history):
        for start, logprobs, count in sampled[lane]:
            wanted = expected(ids[: start + len(logprobs)], seen[lane][:count], start, 0.8)
            np.testing.assert_allclose(logprobs, wanted, atol=AGREEMENT)
            compared += len(logprobs)
    assert compared > 60


def test_greedy_generation_equals_that_without_a_cache():
    rng = np.random.default_rng(2)
    texts, shown = zip(*(first(rng) for _ in range(4)), strict=True)
    prompts, images = encoded(list(texts)), [[image] for image in shown]
    run = engine(greedy=True)
    turns = run.start(prompts, images)
    more_texts, more = zip(*(later(rng) for _ in range(4)), strict=True)
    more_prompts = encoded(list(more_texts))
    again = run.extend(list(range(4)), more_prompts, [[image] for image in more])

    def uncached(ids, seen):
        found = []
        while len(found) < 5 and not (found and found[-1] in POLICY.end_ids):
            tokens = torch.tensor([[*ids, *found]])
            with torch.no_grad():
                hidden = POLICY.hidden(tokens, POLICY.look(tokens, [seen]), use_cache=False)
            found.append(int(POLICY.logits(hidden[0, -1]).argmax()))
        return found

    for lane in range(4):
        ids = prompts[lane]
        assert turns[lane].token_ids == uncached(ids, images[lane])
        ids = [*ids, *turns[lane].token_ids, *more_prompts[lane]]
        assert again[lane].token_ids == uncached(ids, [*images[lane], more[lane]])


def test_equal_tokens_with_different_images_share_no_prefix():
    """All prompts are the same tokens; what the image tokens show is not."""
    rng = np.random.default_rng(3)
    images = [[picture(rng)] for _ in range(5)]
    text = POLICY.chat.first_prompt("You look at a picture, then say where to go.", "{}")
    prompts = encoded([text.replace("{}", POLICY.vision.message("Which way?", row[0])) for row in images])
    assert all(prompt == prompts[0] for prompt in prompts)
    together = engine().start(prompts, images)
    for prompt, row, turn in zip(prompts, images, together, strict=True):
        wanted = expected(prompt + turn.token_ids, row, len(prompt))
        np.testing.assert_allclose(turn.logprobs, wanted, atol=AGREEMENT)
    assert len({tuple(turn.logprobs) for turn in together}) > 1
