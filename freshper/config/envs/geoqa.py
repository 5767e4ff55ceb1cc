"""Settings of questions about pictures."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from freshper.config.envs.dataset import DatasetSection
from freshper.config.section import Float, Int

DiagramTask = Literal["angle", "length", "area", "perimeter", "longest", "triangle"]
"""Kinds of generated diagrams."""


class GeoQAConfig(DatasetSection):
    """Questions about a picture, several tries with feedback: GeoQA (paper section 3), generated diagrams, easy-VQA."""

    images: ClassVar[bool] = True

    family: Literal["geoqa"] = "geoqa"
    """Which environment class this section configures."""
    name: str = "geoqa"
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(3, ge=1)
    """Tries (assistant messages) before the episode is cut; 1 gives the usual accuracy of a benchmark."""
    format_penalty: Float = Field(0.0, le=0)
    """Added to the *training* reward of a turn without an answer; never to the score or the priority."""
    reward: Literal["by_try", "binary", "public"] = "by_try"
    """`by_try`: 1, 1/2, 1/4, ... for the right answer on try 1, 2, 3; `binary`: 1 on any try (the paper's text);
    `public`: per try 2 right, 0.5 wrong, 0 without an answer (public runs), which pays most for two wrong tries before
    the right one."""
    tolerance: Float = Field(0.01, ge=0, lt=1)
    """Largest relative error of a number that still counts as right."""
    data: Literal["diagrams", "easy_vqa"] = "diagrams"
    """What `source: embedded` is: generated diagrams, or the pictures of shapes in the package easy-vqa."""
    tasks: tuple[DiagramTask, ...] = Field(("angle", "length", "area"), min_length=1)
    """Kinds of generated diagrams, each as likely as the others."""
    image_key: str = "image"
    """Column of the picture: encoded bytes, a path within `folder`, a data URI, or {bytes, path}."""
    question_key: str = "problem"
    """Column of the question."""
    answer_key: str = "solution"
    """Column of the gold answer; of a longer text, what stands in its answer tag or its last box."""
    image_size: Int = Field(64, ge=48, le=1024)
    """Height and width to which every picture is brought."""
    fit: Literal["pad", "stretch"] = "pad"
    """How a picture that is no square becomes one: `pad` with white, which keeps its angles, or `stretch`."""

    def image_pixels(self) -> int:
        """Pixels of a picture, which all have one size."""
        return self.image_size**2
