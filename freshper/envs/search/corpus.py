"""Read a corpus of passages from JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from freshper.envs.errors import EnvError
from freshper.envs.rows import read_rows
from freshper.envs.search.items import Document


def load_corpus(path: str | Path, key: str = "env.corpus") -> list[Document]:
    """All passages of a .jsonl file, or of the .jsonl files of a folder.

    A line has `contents`, with the title on its first line as in Search-R1's corpora, or `text` and maybe `title`.

    Args:
        path: file or folder.
        key: how the message calls the path.

    Raises:
        EnvError: nothing there, another format, a line without text, no passage at all.
    """
    root = Path(path).expanduser()
    files = sorted(root.glob("*.jsonl")) if root.is_dir() else [root]
    if not files or not files[0].is_file():
        what = "no .jsonl file in this folder" if root.is_dir() else "no such file or folder"
        raise EnvError(f"{key}={path}: {what}")
    if files[0].suffix != ".jsonl":
        raise EnvError(
            f"{key}={path}: expected a .jsonl file (one JSON object a line), found {files[0].suffix or 'none'}"
        )
    documents: list[Document] = []
    for file in files:
        for row, where in read_rows(file):
            documents.append(document(row, str(len(documents)), where))
    if not documents:
        raise EnvError(f"{key}={path}: the corpus is empty")
    return documents


def document(row: dict[str, Any], number: str, where: str) -> Document:
    """A passage from a row of a corpus, or from a server's answer; `number` is its id if it has none.

    Raises:
        EnvError: it has no text.
    """
    title: Any
    text: Any
    contents = row.get("contents")
    if isinstance(contents, str):
        title, _, text = contents.partition("\n")
        if not text.strip():
            title, text = "", contents
    else:
        title, text = row.get("title") or "", row.get("text")
    if not isinstance(text, str) or not text.strip() or not isinstance(title, str):
        raise EnvError(
            f"{where}: expected `contents`, or `text` and `title`; found {', '.join(map(str, row)) or 'nothing'}"
        )
    return Document(str(row.get("id", number)), title.strip().strip('"').strip(), text.strip())
