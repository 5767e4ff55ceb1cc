"""One table in four formats."""

from __future__ import annotations

import csv
import io
import math
import re
from html.parser import HTMLParser

import pytest

from analysis.tables.render import FORMATS, csv_text, latex, markdown, write_table
from analysis.tables.table import Cell, number, plain, table

SAMPLE = table(
    "sample", "A_b & c", "Mean ± 5 % of n_k <x>.", ["name|x", "value", "plain"],
    [["a_1 & b", Cell("", 0.5, 0.25, 0.75, 3), plain(-1.5)], ["c", Cell("no runs"), plain(None, missing="-")],
     ["d", Cell("", 0.5, None, None, 1), ""],
     ["e", Cell("", 0.5, 0.4, 0.9, 4, suffix="; 1 failed"), plain(12345.0, 0)]],
    ["A note."],
)  # fmt: skip


def test_markdown():
    text = markdown(SAMPLE)
    assert r"| name\|x | value | plain |" in text
    assert "| a_1 & b | 0.500 ± 0.250 (n 3) | -1.500 |" in text
    assert "| d | 0.500 ± - (n 1) |  |" in text and "| e | 0.500 [0.400, 0.900] (n 4); 1 failed | 12,345 |" in text
    assert text.endswith("Mean ± 5 % of n_k <x>.\n\n- A note.\n")


def test_latex_is_booktabs_and_escaped():
    text = latex(SAMPLE)
    for part in (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"A\_b \& c",
        r"\begin{tabular}{lrr}",
        r"\label{tab:sample}",
    ):
        assert part in text
    assert r"a\_1 \& b & 0.500 $\pm$ 0.250 (n 3) & $-1.500$ \\" in text
    assert r"Mean $\pm$ 5 \% of n\_k \textless{}x\textgreater{}." in text
    assert not re.search(r"(?<!\\)[%#]", text) and text.count("{") == text.count("}")


def test_csv_has_full_precision_and_interval_columns():
    rows = list(csv.DictReader(io.StringIO(csv_text(SAMPLE))))
    assert list(rows[0]) == ["name|x", "value", "value low", "value high", "value n", "value note", "plain"]
    assert (rows[0]["value"], rows[0]["value low"], rows[0]["value n"]) == ("0.5", "0.25", "3")
    assert rows[1]["value"] == "no runs" and rows[2]["value low"] == "" and rows[3]["value note"] == "1 failed"


def test_html_is_well_formed_and_escaped():
    class Checker(HTMLParser):
        open: list[str] = []
        data: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            self.data.append(data.strip())

    checker = Checker()
    checker.feed(FORMATS["html"](SAMPLE))
    assert checker.open == [] and "A_b & c" in checker.data and "Mean ± 5 % of n_k <x>." in checker.data


def test_numbers():
    assert [number(-0.0004, 3), number(-0.0, 1), number(-1234.5, 1), number(math.inf, 2)] == [
        "0.000",
        "0.0",
        "-1,234.5",
        "inf",
    ]
    with pytest.raises(ValueError, match="2 cells under 1"):
        table("x", "", "", ["a"], [["b", "c"]])


def test_write_table_writes_every_format(tmp_path):
    assert [path.name for path in write_table(SAMPLE, tmp_path / "new")] == [
        "sample.md",
        "sample.tex",
        "sample.csv",
        "sample.html",
    ]
