"""Log-probabilities and entropies of chosen tokens, without ever holding all logits of a large vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from freshper.policy.load import Policy

_MOST_LOGITS = 32_000_000
"""Float32 logits held at once (128 MB); beyond it, positions are done in chunks and recomputed in the backward pass."""


def token_logprobs(policy: Policy, hidden: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies at the sampling temperature.

    Args:
        policy: the model.
        hidden: [N, hidden] states *before* each target token.
        targets: [N] token ids.
        temperature: logits are divided by it, as in sampling.

    Returns:
        log pi(target) [N] in nats, and the entropy of each distribution [N] in nats.
    """

    def chunk(states: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        logp = torch.log_softmax(policy.logits(states) / temperature, dim=-1)
        return logp.gather(-1, ids[:, None])[:, 0], -(logp.exp() * logp).sum(-1)

    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    rows = max(1, _MOST_LOGITS // vocabulary)
    if len(hidden) <= rows:
        return chunk(hidden, targets)
    parts = []
    for states, ids in zip(hidden.split(rows), targets.split(rows), strict=True):
        grad = torch.is_grad_enabled()
        parts.append(checkpoint(chunk, states, ids, use_reentrant=False) if grad else chunk(states, ids))
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
