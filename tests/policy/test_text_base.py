"""The small text models' tokenizer, players and recipe."""

from dataclasses import replace

import numpy as np
import pytest

from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig
from freshper.envs.math.env import MathText
from freshper.envs.search.env import SEARCH, SearchText
from freshper.envs.search.world import name_parts, world_of
from freshper.policy.chat import chat_format
from freshper.policy.tiny.text_demonstrations import Searcher, TextDemonstrations, names, solve
from freshper.policy.tiny.text_pretrain import RECIPES, pretrain_text
from freshper.policy.tiny.text_tokenizer import TAGS, build_text_tokenizer

TOKENIZER = build_text_tokenizer()


def test_words_of_the_tasks_are_single_tokens_and_all_text_comes_back() -> None:
    wholes, _ = name_parts()
    assert all(len(TOKENIZER(f" {word}").input_ids) == 1 for word in wholes)
    assert all(len(TOKENIZER(tag).input_ids) == 1 for tag in TAGS)
    documents = world_of(SearchConfig()).documents
    lengths = [len(TOKENIZER(f" {document.title}").input_ids) for document in documents]
    assert np.mean(lengths) < 2.3 and max(lengths) <= 5
    env = SearchText(SearchConfig())
    for text in ("日本 ½ x\n\t\x00", env.reset(seed=0)[0], env.step(SEARCH.format(env.question.path[0]))[0]):
        assert TOKENIZER.decode(TOKENIZER(text).input_ids) == text
    assert chat_format(TOKENIZER, "test").between.startswith("<|end|>")


def test_the_tokenizer_is_the_same_every_time() -> None:
    assert build_text_tokenizer().backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()


def share_right(env: MathText | SearchText, skill: float) -> float:
    """Share of episodes that a player solves; a try at a sum counts as the first one only."""
    rng, right = np.random.default_rng(0), 0
    for seed in range(100):
        env.reset(seed=seed)
        if isinstance(env, MathText):
            right += env.step(solve(env, rng, skill))[4]["success"]
            continue
        searcher, observation, over = Searcher(), "", False
        searcher.start(env.question.text)
        while not over:
            observation, _, terminated, truncated, info = env.step(searcher.reply(env, observation, rng, skill))
            over = terminated or truncated
        right += info["success"]
    return right / 100


@pytest.mark.parametrize("env", [MathText(MathConfig()), SearchText(SearchConfig(people=30, hops=(1, 2, 3)))])
def test_a_skilled_player_is_always_right_and_a_guessing_one_seldom(env: MathText | SearchText) -> None:
    assert share_right(env, 1.0) == 1
    assert share_right(env, 0.0) < 0.2 < share_right(env, 0.6)


def test_only_the_player_is_learned_from() -> None:
    demonstrations = TextDemonstrations([SearchConfig(people=8)], TOKENIZER, 1)
    for ids, mask in demonstrations.draw(8, 1.0):
        said = TOKENIZER.decode(ids[mask])
        assert "<information>" not in said and "Question" not in said and said.count("<answer>") == 1


def test_demonstrations_know_no_fact_of_the_task() -> None:
    config = SearchConfig(people=30)
    envs = TextDemonstrations([config], TOKENIZER, 0).envs
    assert config.world_seed not in {env.config.world_seed for env in envs if isinstance(env, SearchText)}


def test_names_and_sums() -> None:
    assert names("Question: Where was Ada Ash born?") == ["Ada Ash"]
    env = MathText(MathConfig())
    env.reset(seed=0)
    assert solve(env, np.random.default_rng(0), 1.0) == f"<answer> {env.problem.answer}</answer>"


@pytest.mark.slow
@pytest.mark.parametrize("family", ["math", "search"])
def test_the_recipe_learns_and_is_seeded(family: str) -> None:
    recipe, configs = RECIPES[family]
    recipe = replace(recipe, steps=8, episodes=8, unsure_steps=min(recipe.unsure_steps, 2))
    if family == "search":
        configs = (SearchConfig(people=8),)
    _, losses = pretrain_text(recipe, configs, TOKENIZER, lambda step, loss: None)
    _, again = pretrain_text(recipe, configs, TOKENIZER, lambda step, loss: None)
    assert losses == again and losses[-1] < losses[0]
