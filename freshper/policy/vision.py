"""What a vision-language policy has besides its weights: image processor, placeholder, tokens it must not sample."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jinja2.exceptions import TemplateError
from numpy.typing import NDArray

from freshper.policy.chat import ChatFormat, ChatTemplateError
from freshper.policy.errors import ModelError
from freshper.replay.images import PackedImage

_MOST_PATCH_BYTES = 256 * 2**20
_SYSTEM, _USER, _REPLY, _LATER = "qzsystem", "qzuser", "qzreply", "qzlater"


@dataclass(frozen=True)
class Patches:
    """An image as the vision tower reads it."""

    values: NDArray[np.float32]
    """[patches, values of a patch]."""
    grid: tuple[int, int, int]
    """Patches in time, height and width."""


class PatchCache:
    """Patches of images by key, the latest ones: an image is read at collection, in its update and in replays."""

    def __init__(self, most_bytes: int = _MOST_PATCH_BYTES) -> None:
        self.most_bytes = most_bytes
        self.nbytes = 0
        self._known: OrderedDict[bytes, Patches] = OrderedDict()

    def get(self, key: bytes) -> Patches | None:
        """The patches of an image, if they are still there."""
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: bytes, patches: Patches) -> None:
        """Remember patches, forgetting those that were not asked for longest where room is short."""
        self._known[key] = patches
        self.nbytes += patches.values.nbytes
        while self.nbytes > self.most_bytes and len(self._known) > 1:
            _, gone = self._known.popitem(last=False)
            self.nbytes -= gone.values.nbytes


@dataclass(frozen=True)
class Vision:
    """How a policy reads images."""

    processor: Any
    """transformers image processor, computing with Pillow whatever else is installed: equal pixels, equal inputs."""
    image_token: str
    """Token that stands for one visual token."""
    image_id: int
    """Its id."""
    placeholder: str
    """Text of an image in a user message, with the image token once."""
    cache: PatchCache = field(default_factory=PatchCache)
    """Patches computed before."""

    def tokens(self, height: int, width: int) -> int:
        """Visual tokens of an image of so many pixels."""
        patches = self.processor.get_number_of_image_patches(height, width)
        return int(patches) // self.processor.merge_size**2

    def message(self, text: str, image: PackedImage) -> str:
        """A user message: the image's placeholder, long enough for its visual tokens, then the text."""
        pads = self.image_token * self.tokens(image.height, image.width)
        return self.placeholder.replace(self.image_token, pads) + text

    def shortened(self, text: str) -> str:
        """A transcript in which the many tokens of an image are one, with their number: `<|image_pad|>x16`."""
        token = re.escape(self.image_token)
        return re.sub(f"(?:{token})+", lambda run: f"{self.image_token}x{run[0].count(self.image_token)}", text)

    def patches(self, images: Iterable[PackedImage]) -> list[Patches]:
        """The patches of images, in their order."""
        images = list(images)
        known = {image.key: self.cache.get(image.key) for image in images}
        found = {key: patches for key, patches in known.items() if patches is not None}
        missing = {image.key: image for image in images if image.key not in found}
        if missing:
            for key, patches in zip(missing, self._process(list(missing.values())), strict=True):
                found[key] = patches
                self.cache.put(key, patches)
        return [found[image.key] for image in images]

    def _process(self, images: Sequence[PackedImage]) -> list[Patches]:
        done = self.processor(
            images=[image.pixels() for image in images], return_tensors="np", input_data_format="channels_last"
        )
        grids = [(int(t), int(h), int(w)) for t, h, w in done["image_grid_thw"]]
        ends = np.cumsum([t * h * w for t, h, w in grids])[:-1]
        return [Patches(values, grid) for values, grid in zip(np.split(done["pixel_values"], ends), grids, strict=True)]


def load_vision(where: str, model: Any, tokenizer: Any, chat: ChatFormat, max_pixels: int | None) -> Vision:
    """The image processor of a folder or hub name, and the placeholder of its chat template.

    Args:
        where: folder or hub name.
        model: vision-language model that was loaded from it.
        tokenizer: its tokenizer.
        chat: pieces of its chat template.
        max_pixels: `model.max_pixels`.

    Raises:
        ModelError: no usable processor, or one for another vision tower.
        ChatTemplateError: a template that does not show images, or moves them.
    """
    from transformers import AutoImageProcessor

    source = f"model.path={where}"
    config = model.config
    if not hasattr(model.base_model, "get_rope_index") or not hasattr(config, "image_token_id"):
        raise ModelError(
            f"{source}: {type(model).__name__} is not a supported vision-language architecture; expected one of the "
            "Qwen2-VL line, such as Qwen2_5_VLForConditionalGeneration"
        )
    try:
        processor = AutoImageProcessor.from_pretrained(where, backend="pil")
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(f"{source}: its image processor cannot be loaded: {error}") from error
    tower = config.vision_config
    wanted = (tower.patch_size, tower.spatial_merge_size, tower.temporal_patch_size)
    found = (processor.patch_size, processor.merge_size, processor.temporal_patch_size)
    if found != wanted:
        raise ModelError(
            f"{source}: the image processor cuts patches by (patch, merge, temporal) = {found}, the vision tower reads "
            f"{wanted}"
        )
    if max_pixels is not None:
        least = int(processor.size["shortest_edge"])
        if max_pixels < least:
            raise ModelError(f"model.max_pixels={max_pixels}: {where} scales images up to {least} pixels at least")
        processor.size = {"shortest_edge": least, "longest_edge": max_pixels}
    token = tokenizer.convert_ids_to_tokens(config.image_token_id)
    return Vision(processor, token, config.image_token_id, image_placeholder(tokenizer, chat, token, where))


def image_placeholder(tokenizer: Any, chat: ChatFormat, image_token: str, where: str) -> str:
    """The text that a chat template writes for an image at the start of a user message.

    Raises:
        ChatTemplateError: it writes none, more than one image token, or changes the text around it.
    """

    def user(text: str, before: str = "") -> dict[str, Any]:
        parts = [{"type": "text", "text": before}] if before else []
        return {"role": "user", "content": [*parts, {"type": "image"}, {"type": "text", "text": text}]}

    def render(*messages: dict[str, Any]) -> str:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        assert isinstance(text, str)
        return text

    folded = f"{_SYSTEM}{chat.before_user}" if chat.folds_system else ""
    head = [user(_USER, folded)] if folded else [{"role": "system", "content": _SYSTEM}, user(_USER)]
    problem = ChatTemplateError(
        f"model.path={where}: the chat template does not show an image of a user message as one {image_token} before "
        "the text; expected that of a vision-language model"
    )
    try:
        start = render(*head)
        second = render(*head, {"role": "assistant", "content": _REPLY}, user(_LATER))
    except (TemplateError, TypeError) as error:  # templates for text add message contents up
        raise problem from error
    before, after = f"{chat.before_system}{_SYSTEM}{chat.before_user}", f"{_USER}{chat.after_user}"
    placeholder = start.removeprefix(before).removesuffix(after)
    first = chat.first_prompt(_SYSTEM, placeholder + _USER)
    if placeholder.count(image_token) != 1 or start != first:
        raise problem
    if second != f"{first}{_REPLY}{chat.next_prompt(placeholder + _LATER)}":
        raise problem
    return placeholder


def never_sampled(config: Any, tokenizer: Any, end_ids: frozenset[int]) -> list[int]:
    """Ids that only prompts may hold: those of images and videos, and padding. A reply with one would have no image.

    Args:
        config: of a vision-language model.
        tokenizer: its tokenizer.
        end_ids: tokens that end a turn, which stay allowed even where they serve as padding, too.
    """
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    ids = {getattr(config, name, None) for name in names}  # not every architecture has all of them
    ids |= {tokenizer.pad_token_id, tokenizer.get_vocab().get("<|vision_pad|>")}
    return sorted(int(i) for i in ids if i is not None and i not in end_ids)
