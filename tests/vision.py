"""For tests with images: an untrained small vision model, random pictures, and a game that is all picture."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import torch

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.envs.observation import image_space
from freshper.envs.text_space import AnyText
from freshper.policy.load import Policy
from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
from freshper.policy.tiny.vision_demonstrations import game_texts
from freshper.replay.images import PackedImage, pack_image


@functools.cache
def vision_tokenizer():
    return build_vision_tokenizer(game_texts(FrozenLakeImageConfig()))


def random_vision_policy(seed: int = 0) -> Policy:
    """Random weights, scaled up so that choices are far from uniform and images matter."""
    policy = new_vision_policy(vision_tokenizer(), seed)
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.ndim > 1:
                weight.mul_(2.5)
    return policy


def picture(rng: np.random.Generator, height: int = 64, width: int = 64) -> PackedImage:
    """A random picture of blocks."""
    blocks = rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    return pack_image(blocks.repeat(8, axis=0).repeat(8, axis=1))


class Pictures(gymnasium.Env[dict[str, Any], str]):
    """Three turns or fewer; a new picture every turn but the second, which shows the first one again. Reward 1 now and
    then, decided by the seed."""

    def __init__(self, size: int = 64, turns: int = 3) -> None:
        self.size, self.turns = size, turns
        self.observation_space = image_space(size, size, 100)
        self.action_space = AnyText(1000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = 0
        self.image = picture(self.np_random, self.size, self.size).pixels()
        self.length = int(self.np_random.integers(1, self.turns + 1))
        self.reward = float(self.np_random.integers(2))
        return {"text": "Which way?", "image": self.image}, {"system": "Look."}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.turn += 1
        if self.turn > 1:
            self.image = picture(self.np_random, self.size, self.size).pixels()
        done = self.turn >= self.length
        reward = self.reward if done else 0.0
        info = {"valid": True, "success": reward > 0}
        return {"text": f"Turn {self.turn}", "image": self.image}, reward, done, False, info


def reference_logprobs(policy: Policy, ids: list[int], images: list[PackedImage]) -> torch.Tensor:
    """Log-probs [T - 1, V] of one conversation by transformers' own forward pass: no batch, no cache, no code of ours
    but the tokens that are ruled out."""
    assert policy.vision is not None and policy.never is not None
    tokens = torch.tensor([ids])
    done = policy.vision.processor(images=[i.pixels() for i in images], return_tensors="pt") if images else {}
    kinds = (tokens == policy.vision.image_id).int()
    with torch.no_grad():
        logits = policy.model(input_ids=tokens, mm_token_type_ids=kinds, **done, use_cache=False).logits[0, :-1]
    policy.model.model.rope_deltas = None  # which transformers keeps for a next call of its own
    return logits.index_fill(-1, policy.never, float("-inf")).log_softmax(-1)
