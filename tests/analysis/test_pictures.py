"""The cache of finished figures: the same pictures without drawing; never those of other data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from analysis.figures import build
from analysis.figures.options import FigureOptions
from analysis.figures.pictures import make_pictures
from analysis.findings import AnalysisError
from analysis.load.study import Study, load
from tests.analysis.runs import write_run

OPTIONS = FigureOptions()


@pytest.fixture
def study(tmp_path):
    write_run(tmp_path / "runs", "freshper")
    write_run(tmp_path / "runs", "on_policy")
    return load([tmp_path / "runs"], ages=True)


@pytest.fixture
def drawn(monkeypatch):
    """Each set of figures that was drawn."""
    seen = []
    real = build.build_figures
    monkeypatch.setattr(build, "build_figures", lambda *arguments: seen.append(1) or real(*arguments))
    return seen


def pictures(study, cache, names=("learning",), options=OPTIONS, pdf=False):
    skipped = []
    return list(make_pictures(study, names, options, skipped, pdf, cache)), skipped


def test_a_second_time_nothing_is_drawn(study, tmp_path, drawn):
    first = pictures(study, tmp_path / "cache", ("all",))
    assert pictures(study, tmp_path / "cache", ("all",)) == first == pictures(study, None, ("all",))
    assert len(drawn) == 2  # the first time, and without a cache
    made, skipped = first
    assert len(made) > 3 and all(one.png.startswith(b"\x89PNG") and one.pdf is None for one in made)
    assert any("Sensitivity to tau" in text for text in skipped)
    (one,), _ = pictures(study, tmp_path / "cache", pdf=True)
    assert one.pdf.startswith(b"%PDF")


def test_whatever_a_figure_is_made_of_makes_it_new(study, tmp_path, drawn):
    first, second = study.records
    values = first.columns.values.copy()
    values[first.columns.names.index("eval/success"), -1] += 1e-12
    ages = dataclasses.replace(first.ages, table=first.ages.table * (1 + 1e-12))
    studies = [
        study,
        Study((dataclasses.replace(first, columns=dataclasses.replace(first.columns, values=values)), second), ()),
        Study((dataclasses.replace(first, state="dead"), second), ()),
        Study((dataclasses.replace(first, facts=dataclasses.replace(first.facts, arm="mine")), second), ()),
        Study((dataclasses.replace(first, ages=ages), second), ()),
        Study((second, first), ()),
        Study((first,), ()),
    ]
    for one in [*studies, study]:  # one file for all: the last is drawn again
        pictures(one, tmp_path / "cache")
    pictures(study, tmp_path / "cache", options=FigureOptions(smoothing=0.5))
    assert len(drawn) == len(studies) + 2
    assert len(list((tmp_path / "cache").iterdir())) == 2
    present = first.columns.present.copy()
    present[:, -1] = False
    gone = dataclasses.replace(first.columns, present=present)
    pictures(Study((dataclasses.replace(first, columns=gone), second), ()), tmp_path / "cache")
    assert len(drawn) == len(studies) + 3 and np.isfinite(values).any()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"x" * 99])
def test_a_damaged_file_is_drawn_anew(study, tmp_path, drawn, damage):
    first = pictures(study, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert pictures(study, tmp_path / "cache") == first and len(drawn) == 2
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    assert pictures(study, tmp_path / "cache") == first and len(drawn) == 3


def test_what_cannot_be_drawn_is_not_stored(study, tmp_path):
    with pytest.raises(AnalysisError, match="no two runs differ"):
        pictures(study, tmp_path / "cache", ("tau",))
    assert not (tmp_path / "cache").exists()
    (tmp_path / "file").write_text("")
    assert pictures(study, tmp_path / "file")[0]  # a cache that cannot be written stops nothing
