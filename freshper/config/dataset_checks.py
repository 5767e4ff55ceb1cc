"""Checks of question-answering environments: what is installed, and whether the named files are there and readable."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from freshper.config.envs.dataset import DatasetSection
from freshper.config.envs.geoqa import GeoQAConfig
from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig
from freshper.config.errors import Issue

READABLE = 128
"""Fewest pixels of a picture in which written numbers can be read."""


def check_math(env: MathConfig) -> Iterator[Issue]:
    """Problems of a maths environment beyond single values."""
    yield from check_package("math_verify", "math", "env.family", env.family)
    if env.source == "embedded":
        yield from check_package("reasoning_gym", "math", "env.source", env.source)
        for low, high in (("min_terms", "max_terms"), ("min_digits", "max_digits")):
            smallest, largest = getattr(env, low), getattr(env, high)
            if smallest > largest:
                yield Issue(f"env.{low}", f"expected at most env.{high} = {largest}", smallest, (f"env.{high}",))
        yield from _tasks(env.tasks)
        yield from _endless(env)
    yield from _rows(env)


def check_geoqa(env: GeoQAConfig) -> Iterator[Issue]:
    """Problems of questions about pictures beyond single values."""
    if env.data == "easy_vqa":
        yield from check_package("easy_vqa", "data", "env.data", env.data)
        if env.source != "embedded":
            yield Issue("env.data", f"is read with env.source = embedded, not {env.source}", env.data, ("env.source",))
    elif env.source == "embedded":
        yield from _tasks(env.tasks)
        yield from _endless(env)
        if "triangle" in env.tasks and env.image_size < READABLE:
            yield Issue(
                "env.image_size",
                f"expected at least {READABLE}: the angles of env.tasks = triangle are written into the picture",
                env.image_size,
                ("env.tasks",),
            )
    yield from _rows(env)


def check_search(env: SearchConfig) -> Iterator[Issue]:
    """Problems of a search environment beyond single values."""
    if env.source == "embedded" and not set(env.hops) <= {1, 2, 3}:
        yield Issue("env.hops", "expected any of 1, 2, 3", list(env.hops))
    backend = env.retriever
    if backend == "auto":
        backend = "bm25" if env.corpus is not None or env.source == "embedded" else "http"
    if backend == "bm25":
        yield from check_package("bm25s", "search", "env.retriever", env.retriever)
        if env.corpus is None and env.source != "embedded":
            yield Issue(
                "env.corpus",
                f"env.retriever = bm25 expects a .jsonl file of passages, since env.source = {env.source} has none",
                env.corpus,
                ("env.retriever", "env.source"),
            )
        elif env.corpus is not None:
            yield from _corpus(env.corpus)
    else:
        if env.corpus is not None:
            yield Issue(
                "env.corpus",
                "is searched by env.retriever=bm25 only; start the server on it, or choose bm25",
                env.corpus,
                ("env.retriever",),
            )
        address = urlsplit(env.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            yield Issue("env.url", "expected an address such as http://127.0.0.1:8000/retrieve", env.url)
    yield from _rows(env)


def _tasks(tasks: Sequence[str]) -> Iterator[Issue]:
    repeated = sorted({task for task in tasks if tasks.count(task) > 1})
    if repeated:
        yield Issue("env.tasks", f"names {', '.join(repeated)} twice; expected each task once", list(tasks))


def _endless(env: DatasetSection) -> Iterator[Issue]:
    """Generated instances are drawn anew for every seed."""
    if env.evaluate_on == "train":
        yield Issue(
            "env.evaluate_on",
            "generated problems have no end, hence no training set to evaluate on; expected held_out, or another "
            "env.source",
            env.evaluate_on,
            ("env.source",),
        )


def check_package(module: str, extra: str, key: str, value: str) -> Iterator[Issue]:
    """A package of the extra `extra` that the setting `key` needs and that is not installed."""
    if importlib.util.find_spec(module) is None:
        name = module.replace("_", "-")
        yield Issue(key, f"needs the {name} package: pip install 'freshper[{extra}]'", value)


def _corpus(corpus: str) -> Iterator[Issue]:
    path = Path(corpus).expanduser()
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not path.exists():
        yield Issue("env.corpus", "no such file or folder; expected a .jsonl file or a folder of them", corpus)
    elif not files:
        yield Issue("env.corpus", "has no .jsonl file", corpus)
    elif files[0].suffix != ".jsonl":
        yield Issue("env.corpus", "expected a .jsonl file: one JSON object a line", corpus)
    elif not any(file.stat().st_size for file in files):
        yield Issue("env.corpus", "is empty", corpus)


def _rows(env: DatasetSection) -> Iterator[Issue]:
    """Where the questions are. The rows themselves are read when training starts (`freshper.rollout.preflight`)."""
    if env.source == "hub":
        yield from check_package("datasets", "data", "env.source", env.source)
        if env.hub is None:
            yield Issue("env.hub", "env.source = hub expects a data set, org/name", env.hub, ("env.source",))
    if env.source != "folder":
        return
    if env.folder is None:
        yield Issue("env.folder", "env.source = folder expects a folder of data files", env.folder, ("env.source",))
        return
    folder = Path(env.folder).expanduser()
    if not folder.is_dir():
        yield Issue("env.folder", "no such folder", env.folder)
        return
    patterns = {"env.train_files": env.train_files}
    if env.eval_files is not None and env.evaluate_on == "held_out":
        patterns["env.eval_files"] = env.eval_files
    for key, pattern in patterns.items():
        files = [path for path in folder.rglob(pattern) if path.suffix in (".jsonl", ".json", ".parquet")]
        if not files:
            others = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())[:8]
            has = ", ".join(others) or "no files"
            yield Issue(key, f"no such .jsonl, .json or .parquet file in env.folder = {folder}; it has {has}", pattern)
        if any(path.suffix == ".parquet" for path in files):
            yield from check_package("pyarrow", "data", key, pattern)
