"""The small model's tokenizer."""

from pathlib import Path

import pytest
from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast

from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.envs.frozen_lake import REPLY, SYSTEM, FrozenLakeText, instruction
from freshper.envs.lake_map import ACTIONS
from freshper.policy.tiny.tokenizer import ANSWER_TAGS, BOARD_SYMBOLS, VOCABULARY, build_tokenizer, load_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def render(tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]], prompt: bool = False) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))


def count(tokenizer: PreTrainedTokenizerFast, text: str) -> int:
    return len(tokenizer(text).input_ids)


def conversation(turns: int) -> list[dict[str, str]]:
    env = FrozenLakeText(FrozenLakeConfig())
    observation, info = env.reset(seed=1)
    messages = [{"role": "system", "content": info["system"]}, {"role": "user", "content": observation}]
    for _ in range(turns):
        messages.append({"role": "assistant", "content": REPLY.format("Right")})
        messages.append({"role": "user", "content": env.step(REPLY.format("Right"))[0]})
    return messages


def test_the_game_is_spoken_in_single_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    roles = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>")
    for text in (*ANSWER_TAGS, *ACTIONS, *BOARD_SYMBOLS, *roles, "\n", *"0123456789"):
        assert count(tokenizer, text) == 1, text
    assert count(tokenizer, "<answer>Left</answer><|end|>") == 4
    assert tokenizer.eos_token_id != tokenizer.pad_token_id
    assert tokenizer.eos_token == "<|end|>"
    assert len(tokenizer) <= VOCABULARY


def test_board_cells_stay_apart(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "OOGP\n_OO_\nXOO√\nPPGG"
    assert [tokenizer.decode([token]) for token in tokenizer(text).input_ids] == list(text)


@pytest.mark.parametrize(
    "text", ["", "héllo 日本 🎉", " two  spaces\t\n\n", "x = 3.14; <b>", "OO√_ row15 col3", "a <answer> b"]
)
def test_any_text_survives(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_skipping_special_tokens_keeps_the_answer_tags(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer("<answer>Up</answer><|end|>").input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<answer>Up</answer>"


def test_rendering_grows_by_appending(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = conversation(3)
    for k in range(1, len(messages)):
        assert render(tokenizer, messages[: k + 1]).startswith(render(tokenizer, messages[:k]))
        if messages[k]["role"] == "assistant":
            prompt = render(tokenizer, messages[:k], prompt=True)
            assert render(tokenizer, messages[: k + 1]) == prompt + messages[k]["content"] + "<|end|>"


def test_replies_are_rendered_verbatim(tokenizer: PreTrainedTokenizerFast) -> None:
    odd = "  \n<answer>Up\n "
    assert render(tokenizer, [{"role": "assistant", "content": odd}]) == f"<|assistant|>{odd}<|end|>"
    with pytest.raises(TemplateError, match="unknown role"):
        render(tokenizer, [{"role": "tool", "content": "x"}])


def test_token_counts(tokenizer: PreTrainedTokenizerFast) -> None:
    # What the speed of every run rests on.
    assert (
        count(tokenizer, f"<|system|>{SYSTEM}<|end|>") + count(tokenizer, instruction(FrozenLakeConfig()) + "\n") == 59
    )
    lengths = [count(tokenizer, render(tokenizer, conversation(turns), prompt=True)) for turns in range(3)]
    assert lengths == [95, 95 + 42, 95 + 2 * 42]


def test_saving_and_building_again_give_the_same_tokenizer(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    text = render(tokenizer, conversation(2))
    assert loaded.get_vocab() == tokenizer.get_vocab() == build_tokenizer().get_vocab()
    assert loaded(text).input_ids == tokenizer(text).input_ids == build_tokenizer()(text).input_ids
    assert render(loaded, conversation(2)) == text
