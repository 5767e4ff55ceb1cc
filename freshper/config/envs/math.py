"""Settings of the maths problems."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.dataset import DatasetSection
from freshper.config.section import Float, Int

Task = Literal["chain_sum", "simple_equations", "gsm_symbolic", "products", "gcd", "lcm", "count_primes"]
"""Generators of reasoning-gym whose answers are single numbers."""


class MathConfig(DatasetSection):
    """Problems with a checkable answer and several tries with feedback: GSM8K, AIME (paper section 3)."""

    family: Literal["math"] = "math"
    """Which environment class this section configures."""
    name: str = "gsm8k"
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(3, ge=1)
    """Tries (assistant messages) before the episode is cut; 1 gives the usual accuracy of a benchmark."""
    format_penalty: Float = Field(0.0, le=0)
    """Added to the *training* reward of a turn without an answer; never to the score or the priority."""
    answer: Literal["tagged", "last_number"] = "tagged"
    """Where the answer of a reply stands: `tagged`, in an answer tag or a box; `last_number`, there, else it is the
    last number of the text, and no format is asked for."""
    reward: Literal["by_try", "binary"] = "by_try"
    """`by_try`: 1, 1/2, 1/4, ... for the right answer on try 1, 2, 3 (public runs); `binary`: 1 on any try (the paper's
    text), which makes the first try worth no more than the last."""
    time_limit: Float = Field(2.0, gt=0)
    """Seconds that checking one answer may take; an answer that takes longer is wrong."""
    tasks: tuple[Task, ...] = Field(("chain_sum",), min_length=1)
    """Generators of `source: embedded`, each as likely as the others."""
    min_terms: Int = Field(2, ge=2)
    """Fewest terms of a sum, product or equation."""
    max_terms: Int = Field(3, ge=2)
    """Most terms."""
    min_digits: Int = Field(1, ge=1, le=6)
    """Fewest digits of a number in `chain_sum` and `products`."""
    max_digits: Int = Field(1, ge=1, le=6)
    """Most digits of a number; also bounds those of `simple_equations`, `gcd`, `lcm` and `count_primes`."""
