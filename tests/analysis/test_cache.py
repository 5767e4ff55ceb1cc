"""The cache: the same study, without parsing; never a stale one."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from analysis.load import cache as caches
from analysis.load import study as studies
from analysis.load.study import load
from freshper.records.jsonl import encode
from tests.analysis.runs import age_rows, write_arms, write_run


@pytest.fixture
def parsed(monkeypatch):
    """Folders that were parsed, in order."""
    seen = []
    real = studies.parse
    monkeypatch.setattr(studies, "parse", lambda data: seen.append(1) or real(data))
    return seen


def same(one, two):
    pd.testing.assert_frame_equal(one.runs, two.runs)
    pd.testing.assert_frame_equal(one.frame(), two.frame())
    assert [r.config for r in one.records] == [r.config for r in two.records]
    assert [r.provenance for r in one.records] == [r.provenance for r in two.records]
    assert one.findings == two.findings
    for a, b in zip(one.records, two.records, strict=True):
        assert (a.ages is None) == (b.ages is None)
        assert a.ages is None or (a.ages.unit == b.ages.unit and (a.ages.table == b.ages.table).all())


def test_a_second_look_parses_nothing_and_says_the_same(tmp_path, parsed):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    folders = write_arms(root, seeds=(0, 1))
    (folders[0] / "metrics.jsonl").write_text('{"iteration": 0, "eval/success": "nan", "x": [1]}\n{"iter')
    (folders[1] / "config.yaml").write_text("]")
    fresh = load([root], ages=True)
    assert len(parsed) == 6
    first = load([root], cache=cache, ages=True)
    second = load([root], cache=cache, ages=True)
    assert len(parsed) == 12
    same(fresh, first)
    same(fresh, second)


def test_a_change_is_seen_even_with_the_same_size_and_times(tmp_path, parsed):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    folder, _ = write_run(root), write_run(root, seed=1)
    load([root], cache=cache)
    path = folder / "metrics.jsonl"
    before = path.stat()
    text = path.read_text()
    old, new = '"fresh/success": 0.2075', '"fresh/success": 0.9075'
    assert text.count(old) == 1 and '"iteration": 1,' in text.splitlines()[1]
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    del parsed[:]
    study = load([root], cache=cache)
    assert len(parsed) == 1
    assert study.records[0].columns.series("fresh/success")[1][0] == 0.9075


def test_ages_have_an_entry_of_their_own(tmp_path, parsed, monkeypatch):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    folder = write_run(root)
    pooled = []
    real = studies.read_ages
    monkeypatch.setattr(studies, "read_ages", lambda data: pooled.append(1) or real(data))
    assert load([root], cache=cache).records[0].ages is None
    for _ in range(2):
        assert load([root], cache=cache, ages=True).records[0].ages.batches == 40
        load([root], cache=cache)  # does not lose them
    assert (len(parsed), len(pooled)) == (1, 1)
    with (folder / "ages.jsonl").open("a") as file:
        file.write(encode(next(age_rows())) + "\n")
    assert load([root], cache=cache, ages=True).records[0].ages.batches == 41
    assert (len(parsed), len(pooled)) == (1, 2)


def test_status_is_never_cached(tmp_path):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    folder = write_run(root)
    assert load([root], cache=cache).records[0].state == "finished"
    status = folder / "status.json"
    status.write_text(status.read_text().replace("finished", "diverged"))
    assert load([root], cache=cache).records[0].state == "diverged"


def test_runs_that_come_and_go(tmp_path, parsed):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    folder = write_run(root)
    load([root], cache=cache)
    other = write_run(root, seed=1)
    assert len(load([root], cache=cache).records) == 2
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()
    assert load([root], cache=cache).runs["run"].tolist() == [other.name]
    assert len(parsed) == 2


def test_other_code_makes_entries_void(tmp_path, parsed, monkeypatch):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    write_run(root)
    load([root], cache=cache)
    monkeypatch.setattr(caches, "code_digest", lambda: "other")
    load([root], cache=cache)
    assert len(parsed) == 2


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:200], lambda data: data[:-300], lambda data: b"x" * 99]
)
def test_a_damaged_cache_is_made_anew(tmp_path, parsed, damage):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    write_run(root)
    first = load([root], cache=cache)
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    same(first, load([root], cache=cache))
    same(first, load([root], cache=cache))
    assert len(parsed) == 2


def test_a_flipped_bit_in_the_cache_is_noticed(tmp_path, parsed):
    root, cache = tmp_path / "runs", tmp_path / "cache"
    write_run(root)
    first = load([root], cache=cache)
    (file,) = cache.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    same(first, load([root], cache=cache))
    assert len(parsed) == 2


def test_a_cache_that_cannot_be_written_is_told(tmp_path):
    root = tmp_path / "runs"
    write_run(root)
    (tmp_path / "file").write_text("")
    study = load([root], cache=tmp_path / "file")
    assert any("nothing cached" in finding.text for finding in study.findings)
