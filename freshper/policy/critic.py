"""The critic: a linear value head on hidden states, of the policy's own trunk or of a separate model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from freshper.config.algorithm import CriticConfig
from freshper.config.model import ModelConfig
from freshper.policy.errors import ModelError
from freshper.policy.load import Policy, autocast_dtype, hidden_states, load_parts, model_folder, weights_at
from freshper.policy.vision_inputs import VisionInputs


class Critic:
    """Values of states. The head starts at zero, so the first advantages are plain returns."""

    def __init__(self, head: nn.Linear, trunk: Any | None, autocast: torch.dtype | None, checkpointing: bool) -> None:
        """
        Args:
            head: hidden -> 1, float32.
            trunk: transformers model without a head; None takes the policy's hidden states.
            autocast: format of the trunk's matrix products, None for that of its weights.
            checkpointing: recompute the trunk's activations in the backward pass.
        """
        self.head, self.trunk = head, trunk
        self.autocast, self.checkpointing = autocast, checkpointing

    def values(
        self, hidden: Tensor | None, token_ids: Tensor, states: Tensor, vision: VisionInputs | None = None
    ) -> Tensor:
        """V [N] before each response token.

        Args:
            hidden: [B, T, hidden] states of the policy for `token_ids`; not read with a separate trunk.
            token_ids: [B, T] inputs.
            states: [N] index into B * T of the state before each response token.
            vision: what the policy reads of the images.
        """
        if self.trunk is not None:
            hidden = hidden_states(self.trunk, token_ids, self.autocast, self.checkpointing, vision, use_cache=False)
        assert hidden is not None, "a critic without a trunk of its own needs the policy's hidden states"
        return self.head(hidden.flatten(0, 1)[states].to(self.head.weight.dtype))[:, 0]

    def parameters(self) -> Iterator[nn.Parameter]:
        """Weights of head and separate trunk."""
        yield from self.head.parameters()
        if self.trunk is not None:
            yield from self.trunk.parameters()

    def state_dict(self) -> dict[str, Any]:
        """Weights of head and separate trunk."""
        return {
            "head": self.head.state_dict(),
            "trunk": None if self.trunk is None else self.trunk.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.head.load_state_dict(state["head"])
        if self.trunk is not None:
            self.trunk.load_state_dict(state["trunk"])


def load_critic(config: CriticConfig, model: ModelConfig, policy: Policy) -> Critic:
    """Make the critic of a policy.

    Args:
        config: `algorithm.critic`.
        model: the policy's model section: number formats, attention, device; its weights are the default for a
            separate trunk.
        policy: the policy, for its tokenizer and device.

    Raises:
        ModelError: a separate critic that cannot be loaded, or whose token ids mean something else.
    """
    trunk = None
    if config.kind == "separate":
        from transformers import AutoModel

        where = weights_at(config.path) if config.path else model_folder(model)
        source = f"algorithm.critic.path={where}"
        tokenizer, trunk = load_parts(AutoModel, where, model, source)
        if tokenizer.get_vocab() != policy.tokenizer.get_vocab():
            raise ModelError(f"{source}: has another tokenizer than the policy; its token ids would mean other text")
        _check_vision(policy.model.config, trunk.config, source)
        trunk.to(policy.device)
    owner = policy.model if trunk is None else trunk
    head = nn.Linear(owner.config.get_text_config().hidden_size, 1, device=policy.device, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return Critic(head, trunk, autocast_dtype(model), model.gradient_checkpointing)


def _check_vision(policy: Any, critic: Any, source: str) -> None:
    """A critic sees what the policy sees: it needs a vision tower that cuts images into the same patches."""
    if not hasattr(policy, "vision_config"):
        return
    if not hasattr(critic, "vision_config"):
        raise ModelError(f"{source}: is a model of text, and the policy reads images; expected a vision-language model")
    names = ("patch_size", "spatial_merge_size", "temporal_patch_size")
    ours, theirs = ([getattr(config.vision_config, name) for name in names] for config in (policy, critic))
    if ours != theirs:
        raise ModelError(f"{source}: reads patches of {dict(zip(names, theirs, strict=True))}, the policy of {ours}")
