"""Token draws: frequencies, truncation, temperature."""

import numpy as np
import torch
from scipy.stats import chisquare

from freshper.rollout.engine import Sampling
from freshper.rollout.sampling import draw_tokens

LOGITS = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5])


def draws(sampling, n=20_000):
    return draw_tokens(LOGITS.expand(n, -1), sampling, torch.Generator().manual_seed(0))


def test_frequencies_follow_the_tempered_distribution():
    tokens, logp, dropped = draws(Sampling(1, temperature=0.7))
    expected = torch.softmax(LOGITS.double() / 0.7, -1).numpy()
    counts = np.bincount(tokens.numpy(), minlength=5)
    assert chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 1e-3
    np.testing.assert_allclose(logp.exp(), expected[tokens], rtol=1e-5)
    assert not dropped.any()


def test_top_k_and_top_p_keep_the_most_probable():
    probs = torch.softmax(LOGITS, -1)
    tokens, logp, dropped = draws(Sampling(1, top_k=2))
    assert set(tokens.tolist()) == {1, 2}
    torch.testing.assert_close(logp, probs.log()[tokens])  # before truncation, as documented
    torch.testing.assert_close(dropped[0], 1 - probs[1] - probs[2])
    kept = draws(Sampling(1, top_p=float(probs[2]) + 1e-3))[0]
    assert set(kept.tolist()) == {1, 2}  # the smallest set that reaches the mass
    assert set(draws(Sampling(1, top_p=1e-6))[0].tolist()) == {2}


def test_greedy_takes_the_argmax():
    tokens, logp, _ = draws(Sampling(1, greedy=True), n=3)
    assert tokens.tolist() == [2, 2, 2]
    torch.testing.assert_close(logp, torch.log_softmax(LOGITS, -1)[2].expand(3))
