"""The generated world: seeded, two sides without a common name, every question answered by its articles."""

import pytest

from freshper.config.envs.search import SearchConfig
from freshper.envs.search.match import is_match
from freshper.envs.search.questions import load_questions
from freshper.envs.search.world import Question, make_world


@pytest.mark.parametrize("people", [8, 120, 400])
def test_sides_share_no_article_and_no_answer(people: int) -> None:
    world = make_world(people, (1, 2, 3), 0)
    titles = [document.title for document in world.documents]
    assert len(set(titles)) == len(titles)
    sides = [{title for q in side for title in q.path} for side in (world.train, world.evaluation)]
    answers = [{gold for q in side for gold in q.golds} for side in (world.train, world.evaluation)]
    assert not sides[0] & sides[1] and not answers[0] & answers[1]
    assert not {q.text for q in world.train} & {q.text for q in world.evaluation}
    assert sides[0] | sides[1] <= set(titles)


def test_a_seed_fixes_everything() -> None:
    make_world.cache_clear()
    one = make_world(50, (1, 2), 3)
    make_world.cache_clear()
    assert make_world(50, (1, 2), 3) == one != make_world(50, (1, 2), 4)


def test_articles_lead_from_the_question_to_the_answer() -> None:
    world = make_world(120, (1, 2, 3), 0)
    text = {document.title: document.text for document in world.documents}
    by_hops: dict[int, int] = {}
    for question in (*world.train, *world.evaluation):
        by_hops[len(question.path)] = by_hops.get(len(question.path), 0) + 1
        assert question.path[0] in question.text
        for title, following in zip(question.path, question.path[1:], strict=False):
            assert following in text[title] and following not in question.text
        assert any(gold in text[question.path[-1]] for gold in question.golds)
        assert not any(gold in question.text for gold in question.golds)
    assert set(by_hops) == {1, 2, 3} and min(by_hops.values()) >= 50


def test_only_the_hops_asked_for_and_in_mixed_order() -> None:
    world = make_world(120, (1, 2), 0)
    hops = [len(question.path) for question in world.evaluation]
    assert set(hops) == {1, 2}
    assert 20 < sum(hop == 1 for hop in hops[:64]) < 55


def test_seeds_of_evaluation_never_ask_about_training() -> None:
    config = SearchConfig()
    questions = load_questions(config)
    train: set[Question] = {questions.at(seed) for seed in range(3000)}
    evaluation = {questions.at(config.eval_seed + k) for k in range(len(questions.evaluation))}
    assert not train & evaluation and len(evaluation) == len(questions.evaluation)
    assert all(is_match(gold, question.golds) for question in evaluation for gold in question.golds)
    public = load_questions(SearchConfig(evaluate_on="train"))
    assert set(public.evaluation) == set(public.train)
