"""Read question rows from local files or the Hugging Face hub, and keep evaluation apart from training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from freshper.config.envs.dataset import DatasetSection
from freshper.envs.errors import EnvError

Row = dict[str, Any]
T = TypeVar("T")


class Split(Generic[T]):
    """Training and evaluation instances of a data set."""

    def __init__(self, train: Sequence[T], evaluation: Sequence[T], config: DatasetSection) -> None:
        self.train, self.evaluation = train, evaluation
        self._first_eval = config.eval_seed

    def longest(self, length: Callable[[T], int], count: int = 64) -> list[T]:
        """The `count` longest instances of both sides."""
        return sorted({*self.train, *self.evaluation}, key=length, reverse=True)[:count]

    def at(self, seed: int) -> T:
        """The instance of an environment seed. Seeds of evaluation count through its instances, then start again."""
        if seed >= self._first_eval:
            return self.evaluation[(seed - self._first_eval) % len(self.evaluation)]
        return self.train[seed % len(self.train)]


def load_split(
    config: DatasetSection,
    read: Callable[[Row, str], T],
    question: Callable[[T], str],
    unit: Callable[[T], str] | None = None,
) -> Split[T]:
    """Load all rows of `source: hub` or `folder`.

    Questions are compared without regard to case and spacing; what evaluation asks is left out of training, unless
    `evaluate_on: train`, and a question that occurs twice counts once.

    Args:
        config: where the rows are.
        read: makes an instance of a row; gets the row and where it stands, and raises EnvError.
        question: text of an instance.
        unit: what the two sides do not share, where that is more than the question: a picture that several ask about.

    Raises:
        EnvError: no such folder or files, a broken file, a row that `read` refuses, nothing left of a split.
    """
    load = _hub_rows if config.source == "hub" else _folder_rows
    train_name, eval_name = (
        (config.train_split, config.eval_split) if config.source == "hub" else (config.train_files, config.eval_files)
    )
    apart = unit or (lambda item: same_text(question(item)))
    train = _distinct((read(row, where) for row, where in load(config, train_name)), question)
    if config.evaluate_on == "train":
        kept = train[: config.max_train]
        return Split(_some(kept, config, "train"), _some(kept, config, "train"), config)
    if eval_name is None:
        evaluation = [item for item in train if held_out(apart(item), config.holdout)]
    else:
        evaluation = _distinct((read(row, where) for row, where in load(config, eval_name)), question)
    asked = set(map(apart, evaluation))
    kept = [item for item in train if apart(item) not in asked][: config.max_train]
    return Split(_some(kept, config, "train"), _some(evaluation, config, "evaluation"), config)


def held_out(text: str, share: float) -> bool:
    """Whether a hash puts the text among the `share` that is kept for evaluation: the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") < share * 2**64


def same_text(text: str) -> str:
    """A question as it is compared with others: case and spacing do not count."""
    return " ".join(text.casefold().split())


def _distinct(items: Iterator[T], question: Callable[[T], str]) -> list[T]:
    found: dict[str, T] = {}
    for item in items:
        found.setdefault(same_text(question(item)), item)
    return list(found.values())


def _some(items: list[T], config: DatasetSection, name: str) -> list[T]:
    if not items:
        where = f"env.hub={config.hub}" if config.source == "hub" else f"env.folder={config.folder}"
        raise EnvError(f"{where}: no question is left for {name}; training leaves out what evaluation asks")
    return items


def _folder_rows(config: DatasetSection, pattern: str) -> Iterator[tuple[Row, str]]:
    for path in matching_files(config.folder, pattern):
        yield from read_rows(path)


def matching_files(folder: str | None, pattern: str) -> list[Path]:
    """Data files in a folder and its subfolders whose name matches, sorted.

    Raises:
        EnvError: no folder, or no such file; says which data files there are.
    """
    if folder is None:
        raise EnvError("env.source=folder needs env.folder, a folder with .jsonl, .json or .parquet files")
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise EnvError(f"env.folder={folder}: no such folder")
    files = sorted(path for path in root.rglob(pattern) if path.suffix in _READERS and path.is_file())
    if not files:
        others = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())[:8]
        raise EnvError(
            f"env.folder={folder}: no file {pattern} of format {', '.join(_READERS)}; "
            f"the folder has {', '.join(others) or 'no files'}"
        )
    return files


def read_rows(path: Path) -> Iterator[tuple[Row, str]]:
    """Rows of a .jsonl, .json or .parquet file, each with `file, row n` (counted from 1) for messages.

    Raises:
        EnvError: the file is not what its name says, or holds something else than rows.
    """
    for number, row in enumerate(_READERS[path.suffix](path), start=1):
        where = f"{path}, row {number}"
        if not isinstance(row, dict):
            raise EnvError(f"{where}: expected an object with columns, found {type(row).__name__}")
        yield row, where


def _read_jsonl(path: Path) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except json.JSONDecodeError as error:
                        raise EnvError(
                            f"{path}, line {number}: not JSON ({error.msg}); expected one object a line"
                        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise EnvError(f"{path}: cannot be read as text: {error}") from error


def _read_json(path: Path) -> Iterator[Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise EnvError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(data, list):
        raise EnvError(f"{path}: expected a list of objects, found {type(data).__name__}")
    yield from data


def _read_parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise EnvError(f"{path}: reading parquet needs pyarrow: pip install 'freshper[data]'") from error
    try:
        yield from pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise EnvError(f"{path}: not a parquet file: {error}") from error


_READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    ".jsonl": _read_jsonl, ".json": _read_json, ".parquet": _read_parquet,
}  # fmt: skip


def _hub_rows(config: DatasetSection, split: str) -> Iterator[tuple[Row, str]]:
    if config.hub is None:
        raise EnvError("env.source=hub needs env.hub, the name of a data set such as openai/gsm8k")
    try:
        import datasets
    except ImportError as error:
        raise EnvError("env.source=hub needs the datasets package: pip install 'freshper[data]'") from error
    name = f"{config.hub}" + (f" ({config.subset})" if config.subset else "")
    try:
        rows = datasets.load_dataset(config.hub, config.subset, split=split)
        for key, feature in rows.features.items():
            if isinstance(feature, datasets.Image):  # kept encoded: decoded, a data set may not fit into memory
                rows = rows.cast_column(key, datasets.Image(decode=False))
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise EnvError(
            f"env.hub={name}, split {split}: cannot be loaded: {reason}; a copy on this machine works with "
            "env.source=folder env.folder=<path>"
        ) from error
    for number, row in enumerate(rows, start=1):
        yield row, f"{name} {split}, row {number}"


def column(row: Row, key: str, where: str, name: str) -> Any:
    """A column of a row, `name` being the config key that says which.

    Raises:
        EnvError: the row has no such column.
    """
    if key not in row:
        raise EnvError(f"{where}: no column {key!r} (env.{name}); it has {', '.join(map(str, row))}")
    return row[key]


def question_of(row: Row, config: DatasetSection, where: str) -> str:
    """The question's text.

    Raises:
        EnvError: no such column, or nothing in it.
    """
    value = column(row, config.question_key, where, "question_key")
    if not isinstance(value, str) or not value.strip():
        raise EnvError(f"{where}: the question ({config.question_key}) is empty or no text: {value!r}")
    return value.strip()
