"""Draw tokens from logits."""

from __future__ import annotations

import torch
from torch import Tensor

from freshper.rollout.engine import Sampling


def draw_tokens(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Sample one token per row.

    Args:
        logits: [B, V] float32.
        sampling: temperature and truncation.
        generator: source of randomness, on the device of the logits.

    Returns:
        token ids [B]; their log-probs [B] at the temperature, *before* truncation, which is what the trainer can
        recompute; and the probability mass [B] that truncation cut off (0 without truncation).
    """
    logp = torch.log_softmax(logits / sampling.temperature, dim=-1)
    dropped = torch.zeros(len(logp), device=logp.device)
    if sampling.greedy:
        tokens = logp.argmax(-1)
    else:
        probs = logp.exp()
        if sampling.top_k or sampling.top_p < 1:
            kept = _truncate(probs, sampling.top_k, sampling.top_p)
            dropped = (1 - kept.sum(-1)).clamp_min(0)
            probs = kept
        tokens = _invert(probs, generator)
    return tokens, logp.gather(-1, tokens[:, None])[:, 0], dropped


def _invert(probs: Tensor, generator: torch.Generator) -> Tensor:
    """One draw per row by inverting the cumulative distribution: a single random number each, unlike torch.multinomial.

    A token owns the half-open stretch up to its cumulative sum, so one of probability zero is never drawn.
    """
    cumulative = probs.double().cumsum(-1)
    uniform = torch.rand(len(probs), 1, generator=generator, dtype=torch.float64, device=probs.device)
    drawn = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)[:, 0]
    # Rounding can put the product at the total itself; the last token with any probability owns that end.
    last = probs.shape[-1] - 1 - (probs > 0).flip(-1).to(torch.uint8).argmax(-1)
    return torch.minimum(drawn, last)


def _truncate(probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Zero everything outside the `top_k` most probable tokens and the smallest set of mass `top_p`."""
    ordered, index = probs.sort(dim=-1, descending=True)
    if top_k:
        ordered[:, top_k:] = 0
    # A token stays if the mass before it is below top_p, so the most probable one always stays.
    ordered = ordered * ((ordered.cumsum(-1) - ordered) < top_p)
    return torch.zeros_like(probs).scatter(-1, index, ordered)
