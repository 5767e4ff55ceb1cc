"""Finished figures of a study, and a cache of them: the same figures of the same data are drawn once.

matplotlib is imported only to draw.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.figures.options import FigureOptions
from analysis.load.cache import code_digest
from analysis.load.study import Study
from freshper.records.atomic import replacing, write_bytes, write_text

PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("matplotlib", "numpy", "pillow", "fonttools")
"""Packages that decide on the bytes of a figure."""


@dataclass(frozen=True)
class Picture:
    """One finished figure."""

    name: str
    """File name without ending."""
    title: str
    caption: str
    wide: bool
    """Has two panels beside one another."""
    png: bytes
    pdf: bytes | None
    """None where it was not asked for."""


def write_picture(picture: Picture, folder: Path) -> list[Path]:
    """Write `<folder>/<name>.png`, `.pdf` and `.txt` (title and caption); returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{picture.name}.{ending}" for ending in ("png", "pdf", "txt")]
    write_bytes(paths[0], picture.png)
    if picture.pdf is None:
        del paths[1]
    else:
        write_bytes(paths[1], picture.pdf)
    write_text(paths[-1], f"{picture.title}. {picture.caption}\n")
    return paths


def make_pictures(
    study: Study, names: Sequence[str], options: FigureOptions, skipped: list[str], pdf: bool, cache: Path | None
) -> Iterator[Picture]:
    """Figures of some names, finished; one at a time where they have to be drawn.

    Args:
        study, names, options, skipped: as in `analysis.figures.build.build_figures`.
        pdf: whether to make PDFs too.
        cache: folder of caches; None draws everything.

    Raises:
        AnalysisError: a figure that was named cannot be made.
    """
    key = "" if cache is None else _key(study, names, options, pdf)
    file = None if cache is None else cache / f"figures-{_place(study, names, options, pdf)}.zip"
    known = None if file is None else _read(file, key)
    if known is not None:
        skipped += known[1]
        yield from known[0]
        return
    from analysis.figures.build import build_figures

    made: list[Picture] = []
    left_out: list[str] = []
    for drawing in build_figures(study, names, options, left_out):
        made.append(drawing.picture(pdf))
        yield made[-1]
    skipped += left_out
    if file is not None:
        with suppress(OSError):  # loading has told that nothing can be cached
            _write(file, key, made, left_out)


def _place(study: Study, names: Sequence[str], options: FigureOptions, pdf: bool) -> str:
    """Name of the cache file: one for each set of folders and each way to draw, so that a new state replaces an old."""
    folders = sorted({str(record.source.parent) for record in study.records})
    return hashlib.sha1(repr((folders, list(names), options, pdf)).encode()).hexdigest()[:20]


def _key(study: Study, names: Sequence[str], options: FigureOptions, pdf: bool) -> str:
    """Changes with everything that figures are made of: all that is known of the runs, the options, and the code."""
    versions = [importlib.metadata.version(name) for name in LIBRARIES]
    state = hashlib.sha1(repr((code_digest(PACKAGE), versions, list(names), options, pdf)).encode())
    for record in study.records:
        columns, ages = record.columns, record.ages
        told = (record.run, record.kind, record.facts, record.state, record.settings, columns.names, len(columns))
        state.update(repr((told, ages and (ages.unit, ages.pooled, ages.batches, len(ages.table)))).encode())
        for array in (columns.iterations, columns.values, columns.present, *([] if ages is None else [ages.table])):
            state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def _write(file: Path, key: str, pictures: Sequence[Picture], skipped: Sequence[str]) -> None:
    index = [[p.name, p.title, p.caption, p.wide, p.pdf is not None] for p in pictures]
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file, durable=False) as handle, zipfile.ZipFile(handle, "w") as pack:
        pack.writestr("index.json", json.dumps({"key": key, "pictures": index, "skipped": list(skipped)}))
        for number, picture in enumerate(pictures):
            pack.writestr(f"{number}.png", picture.png)
            if picture.pdf is not None:
                pack.writestr(f"{number}.pdf", picture.pdf)


def _read(file: Path, key: str) -> tuple[list[Picture], list[str]] | None:
    """Pictures and what was left out; None if there are none of this key. The archive has checksums of its files."""
    try:
        with zipfile.ZipFile(file) as pack:
            index = json.loads(pack.read("index.json"))
            if index["key"] != key:
                return None
            pictures = [
                Picture(
                    name,
                    title,
                    caption,
                    wide,
                    pack.read(f"{number}.png"),
                    pack.read(f"{number}.pdf") if has_pdf else None,
                )
                for number, (name, title, caption, wide, has_pdf) in enumerate(index["pictures"])
            ]
            return pictures, index["skipped"]
    except (OSError, zipfile.BadZipFile, EOFError, ValueError, KeyError):
        return None
