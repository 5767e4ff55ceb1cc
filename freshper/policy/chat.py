"""How a conversation becomes tokens, turn by turn, without ever tokenising sampled text again.

A chat template is written for whole conversations. Rollouts need its pieces: the text of the first prompt, and the text
between the end of one assistant turn and the start of the next. They are found once, by rendering marker words, and
checked on a longer conversation, so a template that rewrites earlier turns is refused instead of silently mistrained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import TemplateError

_SYSTEM, _USER, _REPLY, _LATER, _REPLY2, _LAST = ("qzsystem", "qzuser", "qzreply", "qzlater", "qzanswer", "qzfinal")


class ChatTemplateError(ValueError):
    """The tokenizer has no chat template, or one that multi-turn training cannot use."""


@dataclass(frozen=True)
class ChatFormat:
    """The fixed text around the messages of a conversation."""

    before_system: str
    """Text before the system message."""
    before_user: str
    """Text between the system message and the first user message."""
    after_user: str
    """Text from the end of a user message to the first sampled token."""
    between: str
    """Text from the end of the assistant's words to the next user message; starts with the end-of-turn token."""
    folds_system: bool
    """The template has no system role: the system message is put in front of the first user message."""

    def first_prompt(self, system: str, user: str) -> str:
        """Text up to the first assistant turn."""
        return f"{self.before_system}{system}{self.before_user}{user}{self.after_user}"

    def next_prompt(self, user: str) -> str:
        """Text between two assistant turns, closing the earlier one."""
        return f"{self.between}{user}{self.after_user}"


def chat_format(tokenizer: Any, where: str) -> ChatFormat:
    """Find the pieces of a tokenizer's chat template.

    Args:
        tokenizer: a transformers tokenizer.
        where: its folder or name, for messages.

    Raises:
        ChatTemplateError: no template, or one whose rendering of earlier turns depends on later ones.
    """
    if not tokenizer.chat_template:
        raise ChatTemplateError(
            f"model.path={where}: the tokenizer has no chat template; expected `chat_template` in "
            "tokenizer_config.json or a file chat_template.jinja (an instruct model has one)"
        )

    def render(*messages: tuple[str, str]) -> str:
        chat = [{"role": role, "content": content} for role, content in messages]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert isinstance(text, str)
        return text

    folds = False
    try:
        start = render(("system", _SYSTEM), ("user", _USER))
        folds = _SYSTEM not in start
    except TemplateError:
        folds = True
    head = [("user", f"{_SYSTEM}\n\n{_USER}")] if folds else [("system", _SYSTEM), ("user", _USER)]
    try:
        start = render(*head)
        second = render(*head, ("assistant", _REPLY), ("user", _LATER))
        third = render(*head, ("assistant", _REPLY), ("user", _LATER), ("assistant", _REPLY2), ("user", _LAST))
    except TemplateError as error:
        raise ChatTemplateError(f"model.path={where}: the chat template cannot render two turns: {error}") from error

    before_system, rest = _split(start, _SYSTEM, where)
    before_user, after_user = _split(rest, _USER, where)
    if not second.startswith(start + _REPLY):
        raise ChatTemplateError(_rewrites(where))
    between, after_later = _split(second[len(start) + len(_REPLY) :], _LATER, where)
    if after_later != after_user or third != f"{second}{_REPLY2}{between}{_LAST}{after_user}":
        raise ChatTemplateError(_rewrites(where))
    return ChatFormat(before_system, before_user, after_user, between, folds)


def _split(text: str, marker: str, where: str) -> tuple[str, str]:
    parts = text.split(marker)
    if len(parts) != 2:
        raise ChatTemplateError(
            f"model.path={where}: the chat template shows a message {len(parts) - 1} times, expected once"
        )
    return parts[0], parts[1]


def _rewrites(where: str) -> str:
    return (
        f"model.path={where}: the chat template changes earlier turns when later ones are added; multi-turn training "
        "needs one that only appends"
    )


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of rendered prompt texts; the template already holds all special tokens, so none is added."""
    if tokenizer.is_fast:  # the Rust call, without the per-text Python objects of the usual one
        return [e.ids for e in tokenizer.backend_tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]
