"""Tokenizer of the small text models: byte-level BPE in which the words of sums and of the search world are tokens."""

from __future__ import annotations

import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig
from freshper.envs.math.env import MathText
from freshper.envs.search.env import SearchText
from freshper.envs.search.world import name_parts, world_of
from freshper.policy.tiny.text_demonstrations import AIME_TASKS
from freshper.policy.tiny.tokenizer import CHAT_TEMPLATE, END, MAX_LENGTH, PAD, ROLES

TAGS = tuple(f"<{slash}{name}>" for name in ("answer", "search", "think", "information") for slash in ("", "/"))
_SPLIT = r" ?\p{L}+| ?\d|[^\s\p{L}\d]|\s"
_VOCABULARY = 2048
"""More than there are merges, so that every word of the training text becomes one token."""


def training_words() -> list[str]:
    """Words of the messages of both tasks, names taken apart."""
    maths = [MathText(MathConfig()), MathText(MathConfig(name="aime", tasks=AIME_TASKS))]
    search = SearchText(SearchConfig(hops=(1, 2, 3)))
    wholes, endings = name_parts()
    texts = ["No answer found. Invalid reply. Nothing found. 1 turn 2 turns 1 try 2 tries left."]
    for seed in range(40):
        for env in maths:
            first, info = env.reset(seed=seed)
            texts += [info["system"], first, env.step("<answer>x</answer>")[0]]
    world = world_of(search.config)
    texts += [text for message in search.longest_first_messages() for text in message]
    texts += [document.text for document in world.documents] + [question.text for question in world.train]
    words = {word for text in texts for word in re.findall(r"[A-Za-z]+", text)}
    names = {word for word in words for ending in endings if word.endswith(ending) and word[0].isupper()}
    return sorted((words - names) | set(wholes)) + endings


def build_text_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer (deterministic, about a second); other text is encoded without loss, byte by byte."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    specials = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    words = training_words()
    pieces = [
        *words,
        *(f" {word}" for word in words if word[0].isupper() or len(word) > 1),
        *(f" {d}" for d in range(10)),
    ]
    tokenizer.train_from_iterator(pieces, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    # Plain tokens, so that decoding with skip_special_tokens keeps the tags that the environments read.
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
