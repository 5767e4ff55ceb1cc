"""A generated world with articles and multi-hop questions: search tasks that need no download.

The world has two sides that share no name. Training asks about one, evaluation about the other; the articles of both
are in the corpus.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from freshper.config.envs.search import SearchConfig
from freshper.envs.search.items import Document, Question

# Names are put together from these parts, so that a model can know the parts of a name that it has never met.
_FIRST = (
    "Ada Ben Cora Dan Eva Finn Gina Hugo Ida Jack Kate Leo Mona Ned Olga Paul Rita Sam Tina Vera "
    "Alma Boris Clara Dora Emil Frida Georg Hanna Ivan Jana Karl Lena Max Nina Otto Petra Rolf Sara Theo Uma"
)
_LAST = (
    "Ash Berg Cole Dale Eck Ford Gray Hill Irving Jones Kern Lake Moss Nash Orr Park Quinn Reed Stone Tate "
    "Vale Wood York Zorn Abel Bond Croft Dunn Ellis Frost Grant Hale Ives Judd Knox Lang Mead Noble Oaks Pike"
)
_TOWN_HEADS = (
    "North South East West Old New High Low Long Black White Red Green Silver Gold Iron Bright Deep Wild Clear "
    "Fox Wolf Bear Hawk Swan Otter Raven Stag Heron Elk"
)
_TOWN_TAILS = "ham ford ton bury wick"
_RIVER_HEADS = "Alder Birch Cedar Hazel Willow Rowan Maple Linden Thorn Briar Fern Moor"
_RIVER_TAILS = "beck burn dale"
_FIRM_TAILS = "Mills Works Press Motors Foods"
_JOBS = ("painter", "doctor", "pilot", "singer", "baker", "writer", "farmer", "judge")


@dataclass(frozen=True)
class World:
    """Articles of both sides and the questions of each."""

    documents: tuple[Document, ...]
    train: tuple[Question, ...]
    evaluation: tuple[Question, ...]


@functools.lru_cache(maxsize=4)
def make_world(people: int, hops: tuple[int, ...], seed: int) -> World:
    """Generate a world.

    Every person was born in a town and has a job, every town lies on a river and every firm was founded by a person:
    one hop asks for one of these, two for the river of a birth town or the birth town of a founder, three for the
    river of a founder's birth town.

    Args:
        people: people on each side; a third as many towns and firms, a tenth as many rivers.
        hops: articles that questions take, any of 1, 2, 3.
        seed: fixes everything.
    """
    rng = np.random.default_rng(seed)
    names = _combine(_FIRST, " ", _LAST)
    towns = _combine(_TOWN_HEADS, "", _TOWN_TAILS)
    firms = _combine(_LAST, " ", _FIRM_TAILS)
    rivers = _combine(_RIVER_HEADS, "", _RIVER_TAILS)
    for pool in (names, towns, firms, rivers):
        rng.shuffle(pool)
    counts = (people, max(4, min(people // 3, len(towns) // 2)), max(2, min(people // 3, len(firms) // 2)))
    streams = max(2, min(people // 10, len(rivers) // 2))
    documents: list[Document] = []
    questions: list[tuple[Question, ...]] = []
    for side in (0, 1):
        pools = [
            pool[side * count : (side + 1) * count]
            for pool, count in zip((names, towns, firms, rivers), (*counts, streams), strict=True)
        ]
        articles, asked = _side(rng, pools, hops)
        documents += articles
        questions.append(tuple(asked[k] for k in rng.permutation(len(asked)).tolist()))
    order = rng.permutation(len(documents))
    numbered = tuple(
        Document(str(number), documents[k].title, documents[k].text) for number, k in enumerate(order.tolist())
    )
    return World(numbered, questions[0], questions[1])


def _combine(heads: str, between: str, tails: str) -> list[str]:
    return [f"{head}{between}{tail}" for head in heads.split() for tail in tails.split()]


def name_parts() -> tuple[list[str], list[str]]:
    """What names are made of: whole words, and endings that are written onto a word."""
    wholes = " ".join((_FIRST, _LAST, _TOWN_HEADS, _RIVER_HEADS, _FIRM_TAILS)).split()
    return [*wholes, *_JOBS], f"{_TOWN_TAILS} {_RIVER_TAILS}".split()


def world_of(config: SearchConfig) -> World:
    """The embedded world of a config."""
    return make_world(config.people, tuple(sorted(set(config.hops))), config.world_seed)


def _side(
    rng: np.random.Generator, pools: list[list[str]], hops: tuple[int, ...]
) -> tuple[list[Document], list[Question]]:
    """Articles and questions about the given people, towns, firms and rivers."""
    names, towns, firms, rivers = pools
    river_of = {town: rivers[int(rng.integers(len(rivers)))] for town in towns}
    town_of = {name: towns[int(rng.integers(len(towns)))] for name in names}
    job_of = {name: _JOBS[int(rng.integers(len(_JOBS)))] for name in names}
    founder_of = dict(zip(firms, (names[k] for k in rng.permutation(len(names))[: len(firms)]), strict=True))
    documents = [
        *(Document("", name, f"{name} is a {job_of[name]}. {name} was born in {town_of[name]}.") for name in names),
        *(Document("", town, f"{town} is a town. {town} lies on the {river_of[town]} River.") for town in towns),
        *(Document("", firm, f"{firm} is a firm. {firm} was founded by {founder_of[firm]}.") for firm in firms),
        *(Document("", f"{river} River", f"The {river} River flows to the sea.") for river in rivers),
    ]

    def river_golds(town: str) -> tuple[str, ...]:
        river = river_of[town]
        return (f"{river} River", river, f"River {river}")

    by_hops: dict[int, list[Question]] = {
        1: [
            *(Question(f"Where was {name} born?", (town_of[name],), (name,)) for name in names),
            *(Question(f"On which river does {town} lie?", river_golds(town), (town,)) for town in towns),
            *(Question(f"Who founded {firm}?", (founder_of[firm],), (firm,)) for firm in firms),
        ],
        2: [
            *(
                Question(
                    f"On which river does the birth town of {name} lie?",
                    river_golds(town_of[name]),
                    (name, town_of[name]),
                )
                for name in names
            ),
            *(
                Question(
                    f"Where was the founder of {firm} born?", (town_of[founder_of[firm]],), (firm, founder_of[firm])
                )
                for firm in firms
            ),
        ],
        3: [
            Question(
                f"On which river does the birth town of the founder of {firm} lie?",
                river_golds(town_of[founder_of[firm]]),
                (firm, founder_of[firm], town_of[founder_of[firm]]),
            )
            for firm in firms
        ],
    }
    return documents, [question for hop in hops for question in by_hops[hop]]
