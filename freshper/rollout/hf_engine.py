"""Generate with transformers in this process: all lanes in lock step, the KV cache kept across turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from freshper.policy.load import Policy
from freshper.policy.vision_inputs import VisionInputs
from freshper.rollout.engine import Images, Sampling, Turn
from freshper.rollout.lane_cache import LaneCache
from freshper.rollout.sampling import draw_tokens

_SHORTEST_PREFIX = 8
"""A shared prompt prefix shorter than this is not worth a forward pass of its own."""


class HFEngine:
    """Lock-step generation for conversations of different lengths.

    Rows of the cache are compacted as lanes close. Log-probs come from the same weights and the same float32 softmax as
    the trainer's, so they agree with recomputed ones to rounding.

    The slot of a token is its place in the conversation. Its rotary position is another number once images came before:
    an image takes fewer positions than tokens. `_shift` is what to add to a slot. Positions of a prompt with images are
    counted from the start of the prompt and moved to where the conversation stands: those of the whole conversation.
    """

    def __init__(self, policy: Policy, sampling: Sampling, generator: torch.Generator, max_length: int) -> None:
        """
        Args:
            policy: model that generates; must not change while lanes are open.
            sampling: how tokens are drawn.
            generator: source of randomness on the policy's device.
            max_length: most tokens of a conversation; a turn stops when it is reached.
        """
        self.policy, self.sampling, self.generator, self.max_length = policy, sampling, generator, max_length
        self._lanes: list[int] = []  # lane held by each row
        self._lengths = torch.zeros(0, dtype=torch.long)  # tokens in the cache, by row
        self._pending: list[list[int]] = []  # sampled last, not yet in the cache, by row
        self._shift: Tensor | None = None  # rotary position less slot of the next token, by row; None without vision
        self._cache: LaneCache

    @torch.inference_mode()
    def start(self, prompts: Sequence[Sequence[int]], images: Images = ()) -> list[Turn]:
        """Open one lane per prompt; see :class:`freshper.rollout.engine.Engine`."""
        device, rows = self.policy.device, len(prompts)
        longest = max(len(prompt) for prompt in prompts)
        self._cache = LaneCache(rows, self.policy.model.config.get_text_config().num_hidden_layers, device, longest)
        self._lanes = list(range(rows))
        self._pending = [[] for _ in prompts]
        prefix = _common_prefix(prompts)
        if self.policy.vision is not None:
            self._shift = torch.zeros(rows, dtype=torch.long, device=device)
            prefix = _before(prompts[0][:prefix], self.policy.vision.image_id)  # equal tokens, different images
        if rows == 1 or prefix < _SHORTEST_PREFIX:
            prefix = 0
        self._lengths = torch.full((rows,), prefix, dtype=torch.long, device=device)
        with _attention_with_masks(self.policy):
            if prefix:
                self._forward_prefix(list(prompts[0][:prefix]))
            return self._sample_turns([list(prompt[prefix:]) for prompt in prompts], images)

    @torch.inference_mode()
    def extend(self, lanes: Sequence[int], token_ids: Sequence[Sequence[int]], images: Images = ()) -> list[Turn]:
        """Append tokens and sample the next turn; see :class:`freshper.rollout.engine.Engine`."""
        row_of = {lane: row for row, lane in enumerate(self._lanes)}
        order = self._cache.keep_rows([row_of[lane] for lane in lanes])
        self._lanes = [self._lanes[row] for row in order]
        self._pending = [self._pending[row] for row in order]
        index = torch.tensor(order, device=self._lengths.device)
        self._lengths = self._lengths[index]
        if self._shift is not None:
            self._shift = self._shift[index]
        new = dict(zip(lanes, token_ids, strict=True))
        shown = dict(zip(lanes, images, strict=True)) if images else {}
        with _attention_with_masks(self.policy):
            turns = self._sample_turns(
                [[*pending, *new[lane]] for lane, pending in zip(self._lanes, self._pending, strict=True)],
                [shown[lane] for lane in self._lanes] if images else (),
            )
        by_lane = dict(zip(self._lanes, turns, strict=True))
        return [by_lane[lane] for lane in lanes]

    def _sample_turns(self, prompts: list[list[int]], images: Images) -> list[Turn]:
        """Feed `prompts` and their images (one entry per row), then sample until every row has ended its turn."""
        rows = len(prompts)
        tokens: list[list[int]] = [[] for _ in range(rows)]
        logprobs: list[list[float]] = [[] for _ in range(rows)]
        dropped = [0.0] * rows
        ended, open_rows = [False] * rows, set(range(rows))
        logits = self._forward(prompts, images=images)
        starts = self._lengths.tolist()
        while True:
            ids, logp, cut = draw_tokens(logits, self.sampling, self.generator)
            for row, (token, value, mass) in enumerate(zip(ids.tolist(), logp.tolist(), cut.tolist(), strict=True)):
                if row not in open_rows:
                    continue
                tokens[row].append(token)
                logprobs[row].append(value)
                dropped[row] += mass
                full = starts[row] + len(tokens[row]) >= self.max_length
                if token in self.policy.end_ids:
                    ended[row] = True
                if ended[row] or full or len(tokens[row]) >= self.sampling.max_new_tokens:
                    open_rows.discard(row)
                    self._pending[row] = [token]
            if not open_rows:
                break
            # Rows that are done ride along: what they write lies beyond their length and is overwritten later.
            logits = self._forward([[t[-1]] for t in tokens], advance=open_rows)
        return [Turn(t, lp, e, d / len(t)) for t, lp, e, d in zip(tokens, logprobs, ended, dropped, strict=True)]

    def _forward(self, token_ids: list[list[int]], advance: set[int] | None = None, images: Images = ()) -> Tensor:
        """Feed ragged tokens; returns float32 logits [rows, V] after each row's last one."""
        device = self.policy.device
        counts = torch.tensor([len(ids) for ids in token_ids], device=device)
        longest = max(len(ids) for ids in token_ids)
        padded = torch.tensor([[*ids, *([0] * (longest - len(ids)))] for ids in token_ids], device=device)
        positions = self._lengths[:, None] + torch.arange(longest, device=device)
        width = int(positions.max()) + 1
        self._cache.place(positions, width)
        visible = torch.arange(width, device=device) <= positions[:, None, :, None]
        vision = self.policy.look(padded, images)
        hidden = self.policy.hidden(
            padded,
            vision,
            attention_mask=self._mask(visible),
            position_ids=self._rotary(positions, counts, vision),
            use_cache=True,
            **{self.policy.cache_argument: self._cache},
        )
        if advance is None:
            self._lengths = self._lengths + counts
        else:
            self._lengths = self._lengths + torch.tensor([row in advance for row in range(len(counts))], device=device)
        return self.policy.logits(hidden[torch.arange(len(counts), device=device), counts - 1])

    def _rotary(self, slots: Tensor, counts: Tensor, vision: VisionInputs | None) -> Tensor:
        """Rotary positions of new tokens, [rows, q] or [3, rows, q]; moves the shift past the images among them."""
        if self._shift is None:
            return slots
        if vision is None:
            return slots + self._shift[:, None]
        rotary = vision.positions + (self._lengths + self._shift)[None, :, None]
        last = rotary[:, torch.arange(len(counts), device=counts.device), counts - 1].amax(0)
        self._shift = last + 1 - (self._lengths + counts)
        return rotary

    def _forward_prefix(self, prefix: list[int]) -> None:
        """Feed tokens that all lanes start with, once."""
        device = self.policy.device
        positions = torch.arange(len(prefix), device=device)[None]
        self._cache.place(positions, len(prefix), shared=True)
        visible = torch.arange(len(prefix), device=device) <= positions[:, None, :, None]
        self.policy.hidden(
            torch.tensor([prefix], device=device),
            None,
            attention_mask=self._mask(visible),
            position_ids=positions,
            use_cache=True,
            **{self.policy.cache_argument: self._cache},
        )

    def _mask(self, visible: Tensor) -> Tensor:
        """Additive mask in the format of the weights: boolean ones are converted anew in every layer."""
        if self.policy.autocast is not None and self.policy.model.config._attn_implementation == "sdpa":
            return visible  # sdpa wants the mask in the queries' own format, which autocast decides
        dtype = self.policy.model.dtype
        return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(
            ~visible, torch.finfo(dtype).min
        )


def _common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts start with; leaves at least one token of each prompt."""
    shortest = min(len(prompt) for prompt in prompts) - 1
    first = prompts[0]
    for index in range(shortest):
        if any(prompt[index] != first[index] for prompt in prompts):
            return index
    return shortest


def _before(ids: Sequence[int], token: int) -> int:
    """Number of ids before the first `token`."""
    return next((index for index, found in enumerate(ids) if found == token), len(ids))


@contextmanager
def _attention_with_masks(policy: Policy) -> Iterator[None]:
    """Flash attention takes no masks, which lanes of different lengths need: generate with sdpa, which agrees."""
    config = policy.model.config
    configured = config._attn_implementation
    if configured != "flash_attention_2":
        yield
        return
    policy.model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        policy.model.set_attn_implementation(configured)
