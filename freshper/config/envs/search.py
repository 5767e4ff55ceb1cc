"""Settings of question answering with a search engine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.dataset import DatasetSection
from freshper.config.section import Float, Int


class SearchConfig(DatasetSection):
    """Think, search, answer, scored by exact match: NQ Search (paper section 3)."""

    family: Literal["search"] = "search"
    """Which environment class this section configures."""
    name: str = "nq_search"
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(5, ge=1)
    """Turns (assistant messages); each is one search or the answer, which ends the episode."""
    answer_key: str = "golden_answers"
    """Column of the gold answer, or of the list of them."""
    match: Literal["exact", "substring"] = "exact"
    """`exact`: equal to a gold answer after SQuAD normalisation; `substring`: the released code's rule, by which one
    contains the other (a full stop alone, or a list of guesses, counts as right)."""
    retriever: Literal["auto", "bm25", "http"] = "auto"
    """`bm25`: in this process, over `corpus` or the embedded articles; `http`: a server that speaks Search-R1's
    `/retrieve`, at `url`; `auto`: bm25 if there is a corpus or `source` is embedded, else http."""
    corpus: str | None = None
    """JSON lines with `id` and `contents` (title on the first line), or `title` and `text`: file, or folder of
    .jsonl files; for bm25."""
    url: str = "http://127.0.0.1:8000/retrieve"
    """Address of the retrieval server; for http."""
    top_k: Int = Field(3, ge=1, le=100)
    """Documents per search."""
    document_characters: Int = Field(1200, ge=20)
    """Most characters shown of a document."""
    query_characters: Int = Field(300, ge=1)
    """Most characters of a query that are searched for."""
    timeout: Float = Field(10.0, gt=0)
    """Seconds that one request may take; for http."""
    retries: Int = Field(2, ge=0)
    """Further attempts after a failed request, with growing pauses; for http."""
    batch_size: Int = Field(64, ge=1)
    """Most queries in one request; for http."""
    cache: Int = Field(20_000, ge=0)
    """Most queries whose results are remembered; 0 remembers none."""
    hops: tuple[Int, ...] = Field((1, 2), min_length=1)
    """Articles that a question of `source: embedded` takes: any of 1, 2, 3."""
    people: Int = Field(400, ge=8, le=400)
    """People on each side (training, evaluation) of the embedded world; towns, rivers and firms grow with them."""
    world_seed: Int = Field(0, ge=0)
    """Fixes the embedded world."""
