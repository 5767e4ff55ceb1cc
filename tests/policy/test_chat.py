"""Chat formats: pieces add up to the template's own rendering; unusable templates are refused."""

import copy

import pytest

from freshper.policy.chat import ChatTemplateError, chat_format, encode
from tests.models import tokenizer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
FORGETFUL = CHATML.replace("m.content", "(m.content if loop.last or m.role != 'assistant' else '...')")


def with_template(template):
    tok = copy.copy(tokenizer())
    tok.chat_template = template
    return tok


@pytest.mark.parametrize("template", [None, CHATML, NO_SYSTEM])
def test_pieces_rebuild_the_whole_conversation(template):
    tok = tokenizer() if template is None else with_template(template)
    chat = chat_format(tok, "here")
    text = (
        chat.first_prompt("Be brief.", "Go?") + "left" + chat.next_prompt("And now?") + "up" + chat.next_prompt("Then?")
    )
    head = [{"role": "user", "content": "Be brief.\n\nGo?"}] if chat.folds_system else [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go?"}]  # fmt: skip
    later = [("assistant", "left"), ("user", "And now?"), ("assistant", "up"), ("user", "Then?")]
    whole = [*head, *({"role": role, "content": content} for role, content in later)]
    expected = tok.apply_chat_template(whole, tokenize=False, add_generation_prompt=True)
    assert text == expected


def test_missing_template_is_named():
    with pytest.raises(ChatTemplateError, match="some/folder.*chat_template"):
        chat_format(with_template(None), "some/folder")


def test_template_that_rewrites_earlier_turns_is_refused():
    with pytest.raises(ChatTemplateError, match="changes earlier turns"):
        chat_format(with_template(FORGETFUL), "here")


def test_encoding_adds_no_special_tokens():
    tok = tokenizer()
    assert encode(tok, ["Left", "a b"]) == [
        tok("Left", add_special_tokens=False)["input_ids"],
        tok("a b", add_special_tokens=False)["input_ids"],
    ]
