"""The report: one page with everything, nothing from outside, equal bytes."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest

from analysis.__main__ import main
from tests.analysis.runs import curve_rows, write_arms, write_run

VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """Checks nesting; collects links, pictures and text."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.ids, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert not reader.open
    return reader


@pytest.fixture
def page(tmp_path):
    write_arms(tmp_path / "runs")
    write_run(tmp_path / "runs", "uniform", 0, rows=curve_rows(0)[:15], state="failed", cause="<b>disk & co</b>")
    arguments = ["report", str(tmp_path / "runs"), "--no-cache", "--out", str(tmp_path / "new" / "report.html")]
    assert main(arguments) == 0
    return tmp_path / "new" / "report.html", arguments


def test_everything_is_inside(page, capsys):
    path, arguments = page
    reader = read(path)
    text = " ".join(reader.text)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in reader.links)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
    assert len(set(reader.ids)) == len(reader.ids)
    pictures = [link for link in reader.links if link.startswith("data:")]
    assert len(pictures) == len([name for name in reader.ids if name.startswith("figure-")]) >= 6
    assert all(base64.b64decode(one.partition(",")[2]).startswith(b"\x89PNG") for one in pictures)
    for words in (
        "Main table",
        "Learning curves: frozenlake",
        "Provenance",
        "<b>disk & co</b>",
        "python run.py variant=",
    ):
        assert words in text, words
    assert "Sensitivity to tau: no two runs" in text  # what is left out is said
    source = path.read_text(encoding="utf-8")
    assert 'name="viewport"' in source and "@media print" in source and not re.search(r"https?://", source)
    before = path.read_bytes()
    assert main(arguments) == 0 and path.read_bytes() == before
    assert str(path) in capsys.readouterr().out


def test_a_single_run_and_no_run(tmp_path, capsys):
    write_run(tmp_path / "runs", "on_policy")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "runs"), "--no-cache", "--out", str(out)]) == 0
    assert "Report on 1 run" in " ".join(read(out).text)
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "--no-cache", "--out", str(tmp_path / "no.html")]) == 2
    assert not (tmp_path / "no.html").exists()
    assert main(["report", str(tmp_path / "runs"), "--no-cache", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
