"""Where problems come from, and that evaluation never asks a training problem."""

import json
import os
from pathlib import Path

import pytest

from freshper.config.envs.math import MathConfig
from freshper.envs.errors import EnvError
from freshper.envs.math.problems import load_problems
from freshper.envs.math.quantities import to_number
from freshper.envs.rows import same_text

FIRST_EVAL = MathConfig().eval_seed
DATA = Path(os.environ.get("FRESHPER_REAL_DATA", "/nonexistent"))


def write(folder: Path, name: str, rows: list[object]) -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def from_folder(folder: Path, **changes: object) -> MathConfig:
    return MathConfig(source="folder", folder=str(folder), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "task", ["chain_sum", "products", "gcd", "lcm", "count_primes", "simple_equations", "gsm_symbolic"]
)
def test_generated_problems_are_seeded_disjoint_and_numbers(task: str) -> None:
    config = MathConfig(tasks=(task,), max_digits=2)  # type: ignore[arg-type]
    problems, again = load_problems(config), load_problems(config.model_copy(update={"name": "other"}))
    count = 60 if task == "simple_equations" else 300
    train = [problems.at(seed) for seed in range(count)]
    evaluation = [problems.at(FIRST_EVAL + k) for k in range(count)]
    assert train == [again.at(seed) for seed in range(count)]
    assert not {same_text(p.question) for p in train} & {same_text(p.question) for p in evaluation}
    assert all(to_number(p.answer) is not None for p in train + evaluation)
    assert len({p.question for p in train}) > count / 4


def test_the_sides_of_a_small_family_are_disjoint_and_together_everything() -> None:
    config = MathConfig(tasks=("chain_sum",), max_terms=2)
    problems = load_problems(config)
    train = {problems.at(seed).question for seed in range(4000)}
    evaluation = {problems.at(FIRST_EVAL + k).question for k in range(1000)}
    assert not train & evaluation
    assert 0.05 < len(evaluation) / (len(train) + len(evaluation)) < 0.25


def test_chain_sums_add_up() -> None:
    problems = load_problems(MathConfig(max_terms=4, max_digits=3))
    for seed in range(200):
        problem = problems.at(seed)
        terms = problem.question.split(":")[-1].rstrip("= ").split() if ":" in problem.question else []
        if terms and all(term in "+-" or term.isdigit() for term in terms):
            assert eval(" ".join(terms)) == int(problem.answer)  # noqa: S307  # digits, + and - only


def test_too_few_problems_to_keep_evaluation_apart_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = load_problems(MathConfig(tasks=("gcd",)))
    monkeypatch.setattr("freshper.envs.math.problems.held_out", lambda text, share: False)
    with pytest.raises(EnvError, match="max_digits"):
        problems.at(FIRST_EVAL)


def test_rows_of_a_folder_gsm8k_style(tmp_path: Path) -> None:
    write(tmp_path, "a_train.jsonl", [{"question": f"q{k}", "answer": f"so\n#### {k},000"} for k in range(5)])
    write(
        tmp_path, "a_test.jsonl", [{"question": "q9", "answer": "#### 9"}, {"question": " Q1", "answer": "#### 1,000"}]
    )
    problems = load_problems(from_folder(tmp_path))
    assert [problems.at(FIRST_EVAL + k).question for k in range(3)] == ["q9", "Q1", "q9"]
    asked = {problems.at(seed).question for seed in range(100)}
    assert asked == {"q0", "q2", "q3", "q4"}  # q1 is in the test file, in other case and spacing
    assert problems.at(FIRST_EVAL + 1).answer == "1,000"


def test_holdout_max_train_and_evaluation_on_training(tmp_path: Path) -> None:
    rows = [
        {"problem": f"problem {k % 90}", "answer": str(k % 90), "solution": rf"so \boxed{{{k % 90}}}"}
        for k in range(120)
    ]
    write(tmp_path, "all_train.jsonl", rows)
    changes = {"question_key": "problem", "eval_files": None}
    held = load_problems(from_folder(tmp_path, **changes))
    train = {held.at(seed).question for seed in range(2000)}
    evaluation = {held.at(FIRST_EVAL + k).question for k in range(90)}
    assert not train & evaluation and len(train | evaluation) == 90
    assert 15 < len(evaluation) < 45
    few = load_problems(from_folder(tmp_path, max_train=7, answer_key="solution", **changes))
    assert len({few.at(seed).question for seed in range(500)}) == 7
    assert few.at(0).answer == few.at(0).question.split()[1]
    public = load_problems(from_folder(tmp_path, evaluate_on="train", **changes))
    assert {public.at(FIRST_EVAL + k).question for k in range(90)} == {f"problem {k}" for k in range(90)}


def test_parquet_and_json_lists(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    (tmp_path / "main").mkdir()
    pyarrow.parquet.write_table(
        pa.table({"question": ["one?"], "answer": ["#### 1"]}), tmp_path / "main" / "train-0.parquet"
    )
    (tmp_path / "test.json").write_text(json.dumps([{"question": "two?", "answer": 2}]))
    problems = load_problems(from_folder(tmp_path))
    assert problems.at(0).answer == "1" and problems.at(FIRST_EVAL).answer == "2"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no file *train*"),
        ({"notes.txt": "x"}, "notes.txt"),
        ({"train.jsonl": "[1, 2"}, "train.jsonl, line 1: not JSON"),
        ({"train.jsonl": "[1, 2]"}, "expected an object with columns"),
        ({"train.jsonl": '{"q": 1}'}, "no column 'question' (env.question_key); it has q"),
        ({"train.jsonl": '{"question": "q"}'}, "no column 'answer'"),
        ({"train.jsonl": '{"question": " ", "answer": "1"}'}, "row 1: the question (question) is empty"),
        ({"train.jsonl": '{"question": "q", "answer": "#### "}'}, "row 1: no gold answer in answer"),
        ({"train.jsonl": '{"question": "q", "answer": null}'}, "no gold answer in answer: None"),
        ({"train.jsonl": "\xff\xfe\x00PAR1"}, "train.jsonl"),
        ({"train.json": '{"question": "q"}'}, "expected a list of objects, found dict"),
        ({"train.parquet": "PAR?"}, "not a parquet file"),
        ({"train.jsonl": "", "test.jsonl": '{"question": "q", "answer": 1}'}, "no question is left for train"),
        ({"train.jsonl": '{"question": "q", "answer": 1}'}, "no file *test*"),
        (
            {"train.jsonl": '{"question": "q", "answer": 1}', "test.jsonl": '{"question": "Q ", "answer": 1}'},
            "left for train",
        ),
    ],
)  # fmt: skip
def test_bad_folders_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(EnvError) as caught:
        load_problems(from_folder(tmp_path))
    assert message in str(caught.value)


def test_no_folder_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvError, match="no such folder"):
        load_problems(from_folder(tmp_path / "none"))
    with pytest.raises(EnvError, match="env.folder"):
        load_problems(MathConfig(source="folder"))
    with pytest.raises(EnvError, match="env.hub"):
        load_problems(MathConfig(source="hub"))


def test_a_hub_data_set_is_read_through_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "rows"
    folder.mkdir()
    write(folder, "train.jsonl", [{"question": f"q{k}", "answer": f"#### {k}"} for k in range(6)])
    write(folder, "test.jsonl", [{"question": "other", "answer": "#### 9"}])
    # A folder is a data set to load_dataset: the same call as for a name on the hub, without the network.
    config = MathConfig(source="hub", hub=str(folder))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    problems = load_problems(config)
    assert problems.at(FIRST_EVAL).answer == "9"
    assert {problems.at(seed).answer for seed in range(60)} == set("012345")
    with pytest.raises(EnvError, match="env.hub=.*split validation: cannot be loaded"):
        load_problems(config.model_copy(update={"eval_split": "validation"}))


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the real files")
@pytest.mark.parametrize(
    ("train", "test", "key", "counts"),
    [("gsm8k_train*", "gsm8k_test*", "question", (2000, 1319)), ("aime_2024*", "aime_2025*", "problem", (30, 30))],
)
def test_real_files(train: str, test: str, key: str, counts: tuple[int, int]) -> None:
    config = from_folder(DATA, train_files=train, eval_files=test, question_key=key)
    problems = load_problems(config)
    assert (len(problems.train), len(problems.evaluation)) == counts  # type: ignore[attr-defined]
    assert all(to_number(p.answer) is not None for p in [*problems.train, *problems.evaluation])  # type: ignore[attr-defined]
