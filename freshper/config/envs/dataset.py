"""Where a question-answering environment takes its questions from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Float, Int


class DatasetSection(EnvSection):
    """Keys shared by the families whose instances are rows: generated, from the Hugging Face hub, or from a folder."""

    source: Literal["embedded", "hub", "folder"] = "embedded"
    """`embedded`: generated questions, no download; `hub`: `hub` on huggingface.co; `folder`: files in `folder`."""
    hub: str | None = None
    """Name of the data set on the hub."""
    subset: str | None = None
    """Its configuration (`main`, `nq`, ...); null where it has one only."""
    train_split: str = "train"
    """Split that training draws from."""
    eval_split: str | None = "test"
    """Split of evaluation; null holds out a share of the training split (`holdout`)."""
    folder: str | None = None
    """Local folder, searched with its subfolders."""
    train_files: str = "*train*"
    """File names (glob) of the training rows: .jsonl, .json or .parquet."""
    eval_files: str | None = "*test*"
    """File names (glob) of the evaluation rows; null holds out a share of the training rows (`holdout`)."""
    question_key: str = "question"
    """Column of the question."""
    answer_key: str = "answer"
    """Column of the gold answer, or of the list of them."""
    holdout: Float = Field(1 / 3, gt=0, lt=1)
    """Share of the questions kept for evaluation where there is no split for it; chosen by a hash of the question."""
    evaluate_on: Literal["held_out", "train"] = "held_out"
    """`held_out`: questions that are never trained on; `train`: the training questions, as in public runs of GSM8K and
    AIME (their validation numbers are training accuracy)."""
    max_train: Int | None = Field(None, ge=1)
    """Use only the first so many training questions; null for all."""
