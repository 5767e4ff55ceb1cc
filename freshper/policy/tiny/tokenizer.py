"""The small base model's tokenizer: byte-level BPE in which the environments' words are single tokens.

On a CPU, speed is tokens. Any text still encodes without loss, because all 256 bytes are in the vocabulary.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.envs.frozen_lake import SYSTEM, instruction
from freshper.envs.lake_map import ACTIONS

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant")
ANSWER_TAGS = ("<answer>", "</answer>")
BOARD_SYMBOLS = ("P", "_", "O", "G", "X", "√")
VOCABULARY = 512
"""Upper limit on the vocabulary; the model's embedding has exactly as many rows as the tokenizer has tokens."""
MAX_LENGTH = 2048
"""Longest conversation in tokens that the small model is built for."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role']) }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""Nothing is trimmed or depends on later messages: a longer conversation extends the rendering of a shorter one."""

# "row1" and "col2" may become one token, other digits stay alone. Board cells never merge: no word of the training
# text has two capitals in a row, and signs are split off one by one.
_SPLIT = r" ?(?:row|col)\d| ?\p{L}+| ?\d|[^\s\p{L}\d]|\s"

# Words of grid games to come, so that they need no new base vocabulary.
_MORE_WORDS = "wall box target push Push cliff step invalid start turns answer The the of and to in is on you"


def training_text() -> list[str]:
    """Return the text whose words become single tokens: the environment's messages without boards."""
    digits = string.digits
    names = [f"{name}{digit}" for name in ("row", "col") for digit in digits]
    words = [word for name in ACTIONS for word in (name, f" {name}")]
    symbols = [text for symbol in BOARD_SYMBOLS for text in (symbol, f" {symbol}")]
    messages = [
        SYSTEM,
        instruction(FrozenLakeConfig()),
        instruction(FrozenLakeConfig(slippery=True)),
        "Invalid reply. Reward 0. Turn 1, 9 left\n",
        "Reward",
        "Turn",
    ]
    return [*messages, *words, *symbols, *names, *(f" {name}" for name in names), *(f" {digit}" for digit in digits)]


def build_tokenizer(
    texts: Sequence[str] = (),
    markers: Sequence[str] = (),
    chat_template: str = CHAT_TEMPLATE,
    vocabulary: int = VOCABULARY,
) -> PreTrainedTokenizerFast:
    """Train the tokenizer (deterministic, well under a second); `save_pretrained` writes it with the chat template.

    Args:
        texts: whose words become single tokens, besides those of the text game.
        markers: further special tokens.
        chat_template: how messages are laid out.
        vocabulary: upper limit on the number of tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    specials = [PAD, END, *(f"<|{role}|>" for role in ROLES), *markers]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(specials) - len(ANSWER_TAGS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    more = [piece for word in _MORE_WORDS.split() for piece in (word, f" {word}")]
    # The repetition makes merges of the environment's own words win over those of the extra words.
    tokenizer.train_from_iterator([*training_text(), *texts] * 20 + more, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    # Plain tokens, so that decoding with skip_special_tokens keeps the tags that the environment reads.
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ANSWER_TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=chat_template,
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """Load a saved tokenizer exactly as tokenizer.json says.

    Not AutoTokenizer: next to a config.json with model_type qwen2 it ignores the declared class and rebuilds the
    vocabulary as Qwen2Tokenizer, with Qwen's own splitting rules and one more token: other ids for the same text,
    without a warning.
    """
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return tokenizer
