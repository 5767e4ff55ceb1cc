"""From token ids and images of a batch of conversations to what a vision-language model computes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from freshper.policy.vision import Vision
from freshper.replay.images import PackedImage


@dataclass(frozen=True)
class VisionInputs:
    """The images of a batch [B, T] of conversations. An image that is shown several times is computed once."""

    pixel_values: Tensor
    """[patches, values of a patch] of the distinct images, in the order in which they are first shown."""
    grid: Tensor
    """[distinct images, 3] patches in time, height, width."""
    placeholders: Tensor
    """[B, T] true at image tokens."""
    order: Tensor
    """[image tokens] row of the distinct images' features that belongs at each image token, row by row of the batch."""
    positions: Tensor
    """[3, B, T] rotary positions of the whole conversation: time, height, width."""


def vision_inputs(
    model: Any, vision: Vision, token_ids: Tensor, images: Sequence[Sequence[PackedImage]]
) -> VisionInputs:
    """Inputs for a batch.

    Args:
        model: vision-language model; only its layout of positions is used.
        vision: how it reads images.
        token_ids: [B, T] whole conversations (or parts that start with text, at position 0), padded on the right.
        images: [B] the images of each conversation, in order.

    Raises:
        ValueError: images that do not belong to the image tokens: another number or another size.
    """
    placeholders = token_ids == vision.image_id
    shown = [image for row in images for image in row]
    distinct = {image.key: image for image in shown}
    by_key = dict(zip(distinct, vision.patches(distinct.values()), strict=True))
    counts = {key: int(np.prod(p.grid)) // vision.processor.merge_size**2 for key, p in by_key.items()}
    _check(placeholders, images, [counts[image.key] for image in shown])
    starts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    order = np.concatenate([np.arange(starts[i.key], starts[i.key] + counts[i.key]) for i in shown])
    device = token_ids.device
    # Positions depend on what precedes a token, images included: a sequence of images of its own for every row.
    positions, _ = model.base_model.get_rope_index(
        token_ids,
        mm_token_type_ids=placeholders.int(),
        image_grid_thw=torch.tensor([by_key[image.key].grid for image in shown], device=device),
    )
    return VisionInputs(
        pixel_values=torch.from_numpy(np.concatenate([p.values for p in by_key.values()])).to(device),
        grid=torch.tensor([p.grid for p in by_key.values()], device=device),
        placeholders=placeholders,
        order=torch.from_numpy(order).to(device),
        positions=positions,
    )


def embeddings(model: Any, token_ids: Tensor, vision: VisionInputs) -> Tensor:
    """Input embeddings [B, T, hidden], with the features of the images at their image tokens."""
    embedded = model.get_input_embeddings()(token_ids)
    features = model.base_model.get_image_features(vision.pixel_values, image_grid_thw=vision.grid).pooler_output
    placed = torch.cat(list(features))[vision.order].to(embedded.dtype)
    return embedded.masked_scatter(vision.placeholders[..., None], placed)


def _check(placeholders: Tensor, images: Sequence[Sequence[PackedImage]], tokens: Sequence[int]) -> None:
    """Every run of image tokens must have the length of its image's: sizes out of order are caught, not only counts."""
    edges = np.diff(np.pad(placeholders.cpu().numpy().astype(np.int8), ((0, 0), (1, 1))), axis=1)
    rows, starts = np.nonzero(edges == 1)
    lengths = np.nonzero(edges == -1)[1] - starts
    owners = [row for row, members in enumerate(images) for _ in members]
    found, expected = list(zip(rows.tolist(), lengths.tolist(), strict=True)), list(zip(owners, tokens, strict=True))
    if found != expected:
        raise ValueError(
            f"image tokens and images of the batch disagree: (row, image tokens) in the text {found[:8]}..., of the "
            f"images {expected[:8]}..."
        )
