"""Question-answering settings that cannot work are errors before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from freshper.config.compose import compose_config
from freshper.config.env_checks import check_env
from freshper.config.envs.geoqa import GeoQAConfig
from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig


def found(env: MathConfig | SearchConfig | GeoQAConfig) -> dict[str, str]:
    return {issue.key: issue.expected for issue in check_env(env)}


@pytest.mark.parametrize("row", ["gsm8k", "aime", "nq_search", "geoqa"])
@pytest.mark.parametrize(("scale", "source"), [("cpu", "embedded"), ("paper", "hub")])
def test_every_row_resolves_at_both_scales(row: str, scale: str, source: str) -> None:
    config = compose_config([f"env={row}", f"scale={scale}", "model=hf", "model.path=org/name"])
    assert config.env.name == row and config.env.source == source  # type: ignore[union-attr]
    assert compose_config([f"env={row}", "model=hf", "model.path=org/name", "env.source=hub"]).env.source == "hub"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("env", "key", "expected"),
    [
        (MathConfig(min_terms=4), "env.min_terms", "at most env.max_terms = 3"),
        (MathConfig(min_digits=2), "env.min_digits", "at most env.max_digits = 1"),
        (MathConfig(tasks=("gcd", "gcd")), "env.tasks", "gcd twice"),
        (MathConfig(evaluate_on="train"), "env.evaluate_on", "have no end"),
        (MathConfig(source="hub"), "env.hub", "org/name"),
        (MathConfig(source="folder"), "env.folder", "a folder of data files"),
        (MathConfig(source="folder", folder="/nowhere"), "env.folder", "no such folder"),
        (GeoQAConfig(tasks=("area", "area")), "env.tasks", "area twice"),
        (GeoQAConfig(evaluate_on="train"), "env.evaluate_on", "have no end"),
        (GeoQAConfig(tasks=("triangle",)), "env.image_size", "at least 128"),
        (GeoQAConfig(source="hub", hub="a/b", data="easy_vqa"), "env.data", "env.source = embedded, not hub"),
        (GeoQAConfig(source="hub"), "env.hub", "org/name"),
        (GeoQAConfig(source="folder", folder="/nowhere"), "env.folder", "no such folder"),
        (SearchConfig(hops=(1, 4)), "env.hops", "any of 1, 2, 3"),
        (SearchConfig(corpus="/nowhere.jsonl"), "env.corpus", "no such file"),
        (SearchConfig(source="hub", hub="a/b", retriever="bm25"), "env.corpus", "env.retriever = bm25 expects"),
        (SearchConfig(retriever="http", corpus="/x.jsonl"), "env.corpus", "env.retriever=bm25 only"),
        (SearchConfig(retriever="http", url="localhost:8000"), "env.url", "http://127.0.0.1:8000/retrieve"),
    ],
)
def test_conflicts_are_named(env: Any, key: str, expected: str) -> None:
    assert expected in found(env)[key]


def test_pictures_without_conflicts() -> None:
    assert not found(GeoQAConfig()) and not found(GeoQAConfig(data="easy_vqa", evaluate_on="train"))
    assert not found(GeoQAConfig(tasks=("triangle",), image_size=128))


def test_files_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    env = MathConfig(source="folder", folder=str(tmp_path))
    issues = found(env)
    assert "notes.txt" in issues["env.train_files"] and "env.eval_files" in issues
    (tmp_path / "my_train.jsonl").write_text("{}")
    assert set(found(env)) == {"env.eval_files"}
    assert not found(env.model_copy(update={"eval_files": None}))
    assert "expected a .jsonl file" in found(SearchConfig(corpus=str(tmp_path / "notes.txt")))["env.corpus"]
    (tmp_path / "c.jsonl").write_text("")
    assert "is empty" in found(SearchConfig(corpus=str(tmp_path / "c.jsonl")))["env.corpus"]


def test_missing_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "freshper[math]" in found(MathConfig())["env.source"]
    assert "freshper[data]" in found(GeoQAConfig(data="easy_vqa"))["env.data"]
    assert "freshper[search]" in found(SearchConfig())["env.retriever"]
    assert "freshper[data]" in found(MathConfig(source="hub", hub="a/b"))["env.source"]
