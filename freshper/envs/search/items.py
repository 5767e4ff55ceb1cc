"""What search tasks are made of: documents and questions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """An article or passage."""

    id: str
    """Identifier in its corpus."""
    title: str
    """Title, may be empty."""
    text: str
    """What is shown of it, without the title."""


@dataclass(frozen=True)
class Question:
    """A question and all answers that count."""

    text: str
    """The question."""
    golds: tuple[str, ...]
    """Accepted answers, at least one."""
    path: tuple[str, ...] = ()
    """Titles of the articles that lead to the answer, in order (generated questions only)."""


@dataclass(frozen=True)
class Hit:
    """A document that a search found."""

    document: Document
    score: float
    """The retriever's own score; larger is better."""
