"""wandb offline runs: the `run-<id>.wandb` file in a folder `offline-run-*`.

The file is a sequence of protobuf records (message classes: the wandb package) in LevelDB's log format with wandb's own
header: blocks of 32 KiB, each piece with CRC-32, length and type (full, first, middle, last).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.findings import AnalysisError, Finding
from analysis.load.columns import from_rows
from analysis.load.facts import facts_of, flat
from analysis.load.names import facts_from_name
from analysis.load.record import RunRecord

BLOCK, PIECE, HEADER = 32768, 7, b":W&B\xe1\xbe\x00"
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class TornLogError(Exception):
    """The log ends in the middle of a record, or a piece fails its checksum."""


def scan(data: bytes) -> Iterator[bytes]:
    """Payloads of the records of a log.

    Raises:
        TornLogError: after the last complete record, if the rest cannot be read.
    """
    position, parts, whole = len(HEADER), b"", True
    while position < len(data):
        left = BLOCK - position % BLOCK
        if left < PIECE:  # too short for another piece: padding
            position += left
            continue
        if position + PIECE > len(data):
            raise TornLogError(f"byte {position}")
        checksum, size, kind = struct.unpack_from("<IHB", data, position)
        payload = data[position + PIECE : position + PIECE + size]
        if kind not in (FULL, FIRST, MIDDLE, LAST) or len(payload) < size:
            raise TornLogError(f"byte {position}")
        if zlib.crc32(bytes([kind]) + payload) != checksum:
            raise TornLogError(f"byte {position}")
        position += PIECE + size
        parts = payload if kind in (FULL, FIRST) else parts + payload
        whole = kind in (FULL, LAST)
        if whole:
            yield parts
    if not whole:
        raise TornLogError(f"byte {position}")


def read_wandb_offline(path: Path) -> RunRecord:
    """Read one .wandb file. Needs the wandb package.

    Raises:
        AnalysisError: wandb is not installed, or the file is none of its logs.
    """
    try:
        from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]  # made by protobuf
    except ImportError as error:
        raise AnalysisError(
            f"{path}: reading wandb's offline files needs the wandb package (pip install wandb)"
        ) from error
    data = path.read_bytes()
    if not data.startswith(HEADER):
        raise AnalysisError(f"{path} is no wandb log: it starts with {data[:7]!r}, expected {HEADER!r}")
    rows: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    name, state, findings = "", "unknown", []
    try:
        for payload in scan(data):
            record = Record.FromString(payload)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                name = record.run.display_name or record.run.run_id
                config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            elif kind == "config":
                config |= {item.key: json.loads(item.value_json) for item in record.config.update if item.key}
            elif kind == "history":
                rows.append(_row(record.history))
            elif kind == "exit":
                state = "finished" if record.exit.exit_code == 0 else "failed"
        if state == "unknown":
            text = f"{path}: no word of the run's end: it was killed, is still being written, or the file is cut off"
            findings.append(Finding("warning", "no end", (name,), text))
    except TornLogError as error:
        text = f"{path}: the log breaks off at {error}; what follows is left out"
        findings.append(Finding("warning", "truncated", (name or path.stem,), text))
    return _record(path, name or path.stem.removeprefix("run-"), rows, config, state, findings)


def _row(history: Any) -> dict[str, Any]:
    row = {}
    for item in history.item:
        key = item.key or ".".join(item.nested_key)
        row[key] = json.loads(item.value_json)
    if "_step" not in row:
        row["_step"] = history.step.num
    return row


def _record(
    path: Path, name: str, rows: list[dict[str, Any]], config: dict[str, Any], state: str, findings: list[Finding]
) -> RunRecord:
    named = [
        {"iteration": row["_step"], **{key: value for key, value in row.items() if not key.startswith("_")}}
        for row in rows
    ]
    columns, superseded, ignored, _ = from_rows(named)
    if superseded:
        text = f"{path}: {superseded} rows of steps that were logged again; the later ones count"
        findings.append(Finding("note", "superseded", (name,), text))
    if ignored:
        findings.append(
            Finding("note", "no number", (name,), f"{path}: {', '.join(ignored)} are no numbers and left out")
        )
    config = {key: value for key, value in config.items() if not key.startswith("_")}
    ours = {"env", "variant", "seed", "replay"} <= config.keys()
    return RunRecord(
        run=name,
        source=path,
        kind="wandb_offline",
        facts=facts_of(config)[0] if ours else facts_from_name(name),
        columns=columns,
        state=state,
        config=config if ours else None,
        settings=flat(config) if ours else {},
        findings=tuple(findings),
    )
