"""Rows from files that grow, are torn or replaced, and from logs."""

from __future__ import annotations

import json
import random

import pytest

from freshper.records.metrics import read_metrics
from freshper.trainers.output_log import BoundedLog, LineSplitter
from freshper.trainers.reading import LogReader, MetricsError, Recorder, Tail, parse_row, settle


def line(iteration, **values):
    return json.dumps({"iteration": iteration, **values}).encode() + b"\n"


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "expected an object"),
        (b'{"eval/success": 0.5}', "no iteration"),
        (b'{"iteration": true}', "no iteration"),
        (b'{"iteration": -1}', "no iteration"),
        (b'{"iteration": 1.0}', "no iteration"),
        (b'{"iteration": 1, "eval/success": 28.5}', "between 0 and 1"),
        (b'{"iteration": 1, "eval/success": "0.5"}', "between 0 and 1"),
        (b'{"iteration": 1, "eval/success": null}', "between 0 and 1"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(raw, word):
    with pytest.raises(MetricsError, match="m.jsonl, line 3") as caught:
        parse_row(raw, "m.jsonl, line 3")
    assert word in str(caught.value)


def test_a_diverged_value_is_a_row():
    assert parse_row(b'{"iteration": 1, "eval/success": "nan", "loss": NaN}', "here")["iteration"] == 1


def test_tail_gives_every_line_once_however_the_file_grows(tmp_path):
    file = tmp_path / "rows"
    data = b"".join(line(i, text="é" * (i % 7)) for i in range(200))
    chance = random.Random(0)
    tail, seen, position = Tail(file), [], 0
    while position < len(data):
        step = chance.randrange(1, 90)
        with file.open("ab") as out:
            out.write(data[position : position + step])
        position += step
        replaced, lines = tail.lines()
        assert not replaced
        seen += lines
    assert b"".join(raw + b"\n" for _, raw in seen) == data
    assert [where for where, _ in seen] == [f"rows, line {i + 1}" for i in range(200)]
    assert tail.rest()[1] == b""


def test_tail_starts_at_the_end_and_counts_lines_from_the_top(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(line(0) + line(1))
    tail = Tail(file)
    with file.open("ab") as out:
        out.write(line(2) + b'{"iter')
    assert tail.lines() == (False, [("rows, line 3", line(2)[:-1])])
    assert tail.rest() == ("rows, line 4", b'{"iter')


@pytest.mark.parametrize("new", [line(0), line(0) + line(7) + line(8) + line(9)], ids=["shorter", "longer"])
@pytest.mark.parametrize("rename", [True, False])
def test_tail_notices_a_file_that_was_written_anew(tmp_path, new, rename):
    file = tmp_path / "rows"
    file.write_bytes(line(0) + line(1))
    tail = Tail(file)
    if rename:
        (tmp_path / "other").write_bytes(new)
        (tmp_path / "other").replace(file)
    else:
        file.write_bytes(new)
    replaced, lines = tail.lines()
    assert replaced
    assert b"".join(raw + b"\n" for _, raw in lines) == new


def test_recorder_writes_in_order_and_goes_back_once_per_start(tmp_path):
    path, seen = tmp_path / "metrics.jsonl", []
    path.write_bytes(line(0) + line(1) + line(2) + line(3) + b'{"torn')
    recorder = Recorder(path, True, [lambda row: seen.append(row["iteration"])])
    recorder.take({"iteration": 2, "again": 1}, "line 1")
    recorder.take({"iteration": 5}, "line 2")  # evaluations may be rare
    with pytest.raises(MetricsError, match="line 3: iteration 5 comes after iteration 5"):
        recorder.take({"iteration": 5}, "line 3")
    recorder.restart()
    recorder.take({"iteration": 4}, "line 1")
    recorder.close()
    assert [row["iteration"] for row in read_metrics(path)] == [0, 1, 2, 4]
    assert read_metrics(path)[2] == {"iteration": 2, "again": 1}
    assert seen == [5]  # what was shown before is not shown again


def test_settle_keeps_the_later_row_and_cuts_at_what_is_none(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line(0) + line(1, a=1) + line(2, a=1) + line(1, a=2) + line(2, a=2) + b"oops\n" + line(3))
    assert [row["iteration"] for row in settle(path)] == [0, 1, 2]
    assert path.read_bytes() == line(0) + line(1, a=2) + line(2, a=2)
    before = path.stat()
    settle(path)
    assert path.stat() == before  # nothing to do, nothing written
    assert settle(tmp_path / "absent") == []


def rows_of(lines, step=r"step (\d+)", percent=(), **patterns):
    names = {name.replace("__", "/"): pattern for name, pattern in patterns.items()}
    reader = LogReader(step, names, percent)
    rows = [row for number, text in enumerate(lines, 1) for row, _ in reader.feed(text, f"line {number}")]
    return rows + [row for row, _ in reader.finish()]


def test_log_rows_begin_at_a_step_and_gather_what_follows():
    lines = ["success 0.1", "step 1 loss 2.5e-1", "noise", "step 2 loss nan", "success 0.3", "step 2", "step 4"]
    rows = rows_of(lines, eval__success=r"success ([\d.]+)", loss=r"loss (\S+)")
    assert rows[0] == {"iteration": 0, "eval/success": 0.1}
    assert rows[1] == {"iteration": 1, "loss": 0.25}
    assert rows[2]["eval/success"] == 0.3 and rows[2]["loss"] != rows[2]["loss"]
    assert rows[3] == {"iteration": 4} and len(rows) == 4


def test_log_percent():
    assert rows_of(["step 1: 28.5%"], percent=["eval/success"], eval__success=r"([\d.]+)%")[0]["eval/success"] == 0.285


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["step 1", "success high"], "line 2: eval/success is 'high'"),
        (["step 1", "success 28.5"], "line 2: eval/success = 28.5; expected a rate"),
        (["step x"], "line 1: the step is 'x'"),
        (["step 1.5"], "line 1: step 1.5"),
        (["step inf"], "line 1: the step is 'inf'"),
    ],
)
def test_log_values_that_are_none(lines, word):
    with pytest.raises(MetricsError) as caught:
        rows_of(lines, step=r"step (\S+)", eval__success=r"success (\S+)")
    assert word in str(caught.value)


def test_lines_are_the_same_however_the_bytes_come():
    data = "a\nb\r\nc é\rlast".encode()
    for size in range(1, len(data) + 1):
        splitter, found = LineSplitter(), []
        for start in range(0, len(data), size):
            found += splitter.feed(data[start : start + size])
        found += splitter.rest()
        assert [text for text in found if text] == ["a", "b", "c é", "last"]


def test_a_line_without_end_takes_no_memory_without_end():
    splitter = LineSplitter()
    pieces = [text for _ in range(100) for text in splitter.feed(b"x" * 10_000)] + splitter.rest()
    assert "".join(pieces) == "x" * 1_000_000
    assert max(map(len, pieces)) <= 1 << 16


def test_the_log_is_bounded_and_keeps_the_end(tmp_path):
    log = BoundedLog(tmp_path, 1000)
    for number in range(500):
        log.write(f"line {number}\n".encode())
    log.write(b"y" * 5000 + b"\nend\n")
    log.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    assert log.tail(lines=1) == "end"
    again = BoundedLog(tmp_path, 1000)
    again.write(b"more\n")
    again.close()
    assert again.tail(lines=2) == "end\nmore"
