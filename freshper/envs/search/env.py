"""Answer a question with the help of a search engine: a search or the answer per turn (paper section 3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
from gymnasium.error import ResetNeeded

from freshper.config.envs.search import SearchConfig
from freshper.envs.errors import EnvError
from freshper.envs.search.failures import RetrievalError
from freshper.envs.search.items import Hit, Question
from freshper.envs.search.match import is_match
from freshper.envs.search.questions import load_questions
from freshper.envs.search.retriever import shared_retriever
from freshper.envs.text_space import AnyText

SYSTEM = "You answer questions with a search engine."
SEARCH, ANSWER = "<search>{}</search>", "<answer>{}</answer>"
"""The replies that the instruction asks for."""
_TAG = re.compile(r"<(/?)(search|answer)>", re.IGNORECASE)
# Tags of the protocol and of chat templates (<|im_end|>, </s>, [INST]) that a web page may contain.
_MARKUP = re.compile(r"<\||\|>|</?(?:s|think|search|information|answer)>|\[/?INST\]", re.IGNORECASE)
_MAX_TEXT = 1_000_000


@dataclass(frozen=True)
class Action:
    """What a reply asks for."""

    kind: Literal["search", "answer"]
    text: str
    """Query or answer, whitespace stripped; not empty."""


class SearchText(gymnasium.Env[str, str]):
    """A question, up to `max_turns` turns, each a search or the answer, which ends the episode.

    The first complete `<search>` or `<answer>` of a reply counts, what follows is ignored; a reply without one, or with
    an empty one, uses up the turn. What was found is the next observation. Reward 1 for a right answer, else 0. A
    search that fails for no fault of the policy ends the episode with `info["error"]`: it says nothing about the policy
    and must not be trained on. The seed chooses the question.
    """

    metadata = {"render_modes": []}

    def __init__(self, config: SearchConfig | None = None) -> None:
        self.config = config or SearchConfig()
        self.observation_space = AnyText(_MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._questions = load_questions(self.config)
        self._retriever = shared_retriever(self.config)
        self._question = Question("", ())
        self._turn = 0
        self._over = True

    @property
    def question(self) -> Question:
        """The current question and its gold answers."""
        return self._question

    def check(self) -> None:
        """Search once.

        Raises:
            EnvError: the retriever does not answer.
        """
        try:
            self._retriever.search(self._query(self._questions.at(self.config.eval_seed).text))
        except RetrievalError as error:
            hint = "start the server first, or use env.retriever=bm25"
            raise EnvError(f"env.url = {self.config.url}: {error}; {hint}") from error

    def longest_first_messages(self) -> list[tuple[str, str]]:
        """System and first user message of the longest questions."""
        questions = self._questions.longest(lambda question: len(question.text))
        return [(SYSTEM, first_message(question, self.config)) for question in questions]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask the question of `seed` (None: a training question); info carries the system message."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(self.config.train_seed, self.config.eval_seed))
        self._question = self._questions.at(seed)
        self._turn = 0
        self._over = False
        return first_message(self._question, self.config), self._info(valid=True)

    def prefetch(self, replies: Sequence[str]) -> None:
        """Run the searches of many replies in few requests, before they are stepped.

        Args:
            replies: of environments that share this one's config and turn.
        """
        if self._turn + 1 < self.config.max_turns:
            actions = [read_action(reply) for reply in replies]
            searches = [a.text for a in actions if a is not None and a.kind == "search"]
            self._retriever.prefetch([self._query(text) for text in searches])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply. info: `valid`, `success`, `turn`; `answer` or `query`; `error` if a search failed."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        self._turn += 1
        act = read_action(action)
        info = self._info(valid=act is not None)
        if act is not None and act.kind == "answer":
            right = is_match(act.text, self._question.golds, self.config.match)
            self._over = True
            info |= {"answer": act.text, "success": right}
            return "Correct." if right else "Incorrect.", float(right), True, False, info
        left = self.config.max_turns - self._turn
        self._over = left == 0
        remaining = f"{left} {'turn' if left == 1 else 'turns'} left."
        if act is None:
            text = f"Invalid reply. {SEARCH.format('query')} or {ANSWER.format('answer')}."
            return f"{text} {remaining}", 0.0, False, self._over, info
        info["query"] = act.text
        if self._over:  # nobody would read what it finds
            return remaining, 0.0, False, True, info
        try:
            hits = self._retriever.search(self._query(act.text))
        except RetrievalError as error:
            self._over = True
            return "The search failed.", 0.0, False, True, {**info, "error": str(error)}
        return f"{information(hits, self.config.document_characters)}\n{remaining}", 0.0, False, False, info

    def _query(self, text: str) -> str:
        return " ".join(text.split())[: self.config.query_characters]

    def _info(self, valid: bool) -> dict[str, Any]:
        return {"system": SYSTEM, "valid": valid, "success": False, "turn": self._turn}


def read_action(reply: str) -> Action | None:
    """The action that the first closing tag ends; None if there is none, or nothing in it.

    Where generation stops at the closing tags, as search engines for language models do, there is no other.
    """
    begun: dict[str, int] = {}
    for tag in _TAG.finditer(reply):
        kind = tag[2].lower()
        if not tag[1]:
            begun[kind] = tag.end()
        elif kind in begun:
            text = reply[begun[kind] : tag.start()].strip()
            return Action("search" if kind == "search" else "answer", text) if text else None
    return None


def first_message(question: Question, config: SearchConfig) -> str:
    """The first user message: the protocol, the number of turns, the question."""
    return (
        f"Think in <think></think>, then reply {SEARCH.format('query')} or {ANSWER.format('answer')}. "
        f"{config.max_turns} turns.\nQuestion: {question.text}"
    )


def information(hits: Sequence[Hit], characters: int) -> str:
    """Documents as the policy sees them, each cut to so many characters; nothing in them can pose as markup."""
    shown = []
    for number, hit in enumerate(hits, start=1):
        text = " ".join(hit.document.text.split())
        text = text if len(text) <= characters else f"{text[:characters].rstrip()}…"
        title = f"({hit.document.title}) " if hit.document.title else ""
        shown.append(f"{number} {plain(title)}{plain(text)}")
    return "<information>\n" + ("\n".join(shown) or "Nothing found.") + "\n</information>"


def plain(text: str) -> str:
    """The text with a space inside whatever a chat template or the protocol would take for markup."""
    return _MARKUP.sub(lambda match: match[0][0] + " " + match[0][1:], text)
