"""Rows with pictures: the forms that a picture takes, broken ones, sides that share none."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image as Pillow

from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.errors import EnvError
from freshper.envs.geo.env import GeoQA
from freshper.envs.geo.items import StoredItems, load_items
from freshper.envs.geo.pictures import Encoded, read_picture, to_square

FIRST_EVAL = GeoQAConfig().eval_seed


def png(number: int, size: tuple[int, int] = (30, 20), kind: str = "PNG") -> bytes:
    """A picture in one colour that tells its number."""
    buffer = io.BytesIO()
    Pillow.new("RGB", size, (number % 256, number // 256, 99)).save(buffer, kind)
    return buffer.getvalue()


def write_parquet(file: Path, rows: list[dict[str, Any]]) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)


def row(number: int, image: Any) -> dict[str, Any]:
    return {"image": image, "problem": f"What is angle {number}?", "solution": f"<answer> {number}° </answer>"}


def folder_config(folder: Path, **settings: Any) -> GeoQAConfig:
    defaults: dict[str, Any] = {"source": "folder", "folder": str(folder), "train_files": "*", "eval_files": None}
    return GeoQAConfig(**{**defaults, **settings})


def stored(config: GeoQAConfig) -> StoredItems:
    items = load_items(config)
    assert isinstance(items, StoredItems)
    return items


def everything(config: GeoQAConfig, count: int = 300) -> list[Any]:
    items = load_items(config)
    return list({items.at(seed) for first in (0, FIRST_EVAL) for seed in range(first, first + count)})


@pytest.mark.parametrize("form", ["bytes", "struct", "struct_path", "path"])
def test_parquet_forms(tmp_path: Path, form: str) -> None:
    (tmp_path / "pictures").mkdir()
    rows = []
    for number in range(40):
        name = f"pictures/{number}.png"
        (tmp_path / name).write_bytes(png(number))
        image: Any = {
            "bytes": png(number),
            "struct": {"bytes": png(number), "path": None},
            "struct_path": {"bytes": None, "path": name},
            "path": name,
        }[form]
        rows.append(row(number, image))
    write_parquet(tmp_path / "geo.parquet", rows)
    found = everything(folder_config(tmp_path, train_files="*.parquet"))
    assert sorted(int(item.answer.rstrip("°")) for item in found) == list(range(40))
    for item in found:
        image = item.picture.pixels(64, "stretch")
        assert (image == [int(item.answer.rstrip("°")), 0, 99]).all()


@pytest.mark.parametrize("form", ["path", "uri", "struct"])
def test_json_forms(tmp_path: Path, form: str) -> None:
    lines = []
    for number in range(12):
        (tmp_path / f"{number}.jpg").write_bytes(png(number, kind="JPEG"))
        text = base64.b64encode(png(number)).decode()
        image: Any = {
            "path": f"{number}.jpg",
            "uri": f"data:image/png;base64,{text}",
            "struct": {"bytes": text, "path": None},
        }[form]
        lines.append(json.dumps(row(number, image)))
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    found = everything(folder_config(tmp_path, train_files="*.jsonl"))
    assert len(found) == 12
    for item in found:
        colour = item.picture.pixels(16, "pad")[8, 8].astype(int)
        assert np.abs(colour - [int(item.answer.rstrip("°")), 0, 99]).max() <= 3


def test_the_gold_answer_is_in_the_tag_the_box_or_all_of_it(tmp_path: Path) -> None:
    solutions = ["so <answer> 5√3 cm </answer>", "thus \\boxed{60^\\circ}", " B ", "12"]
    rows = [{**row(number, png(number)), "solution": text} for number, text in enumerate(solutions)]
    write_parquet(tmp_path / "t.parquet", rows)
    golds = {item.answer for item in everything(folder_config(tmp_path, evaluate_on="train"))}
    assert golds == {"5√3 cm", "60^\\circ", "B", "12"}


def test_a_hub_data_set_keeps_its_pictures_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    images = [{"bytes": png(number), "path": None} for number in range(20)]
    table = datasets.Dataset.from_dict(
        {"image": images, "problem": ["What is x?"] * 20, "solution": [f"<answer>{n}</answer>" for n in range(20)]},
        features=datasets.Features(
            {"image": datasets.Image(), "problem": datasets.Value("string"), "solution": datasets.Value("string")}
        ),
    )
    (tmp_path / "set").mkdir()
    table.to_parquet(tmp_path / "set" / "train.parquet")
    # A folder is a data set to load_dataset: the same call as for a name on the hub, without the network.
    config = GeoQAConfig(source="hub", hub=str(tmp_path / "set"), eval_split=None)
    found = everything(config)
    # One question about twenty pictures is twenty items.
    assert {int(item.answer) for item in found} == set(range(20))
    assert all(isinstance(item.picture.source, bytes) for item in found)
    assert all((item.picture.pixels(64, "stretch")[0, 0] == [int(item.answer), 0, 99]).all() for item in found)


def test_sides_share_no_picture(tmp_path: Path) -> None:
    rows = [
        {"image": png(number // 3), "problem": f"Question {number}?", "solution": str(number)} for number in range(300)
    ]
    write_parquet(tmp_path / "all.parquet", rows)
    items = stored(folder_config(tmp_path))
    sides = [
        {item.picture.digest() for item in side if isinstance(item.picture, Encoded)}
        for side in (items._split.train, items._split.evaluation)
    ]
    assert len(sides[0]) + len(sides[1]) == 100 and not sides[0] & sides[1] and 20 < len(sides[1]) < 47


def test_training_leaves_out_pictures_of_the_evaluation_file(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a_train.parquet", [row(number, png(number)) for number in range(10)])
    write_parquet(tmp_path / "a_test.parquet", [{**row(number, png(number)), "problem": "Other?"} for number in (3, 4)])
    items = stored(folder_config(tmp_path, train_files="*train*", eval_files="*test*"))
    assert {item.answer for item in items._split.train} == {f"{n}°" for n in range(10) if n not in (3, 4)}
    assert [item.answer for item in items._split.evaluation] == ["3°", "4°"]


def test_broken_pictures_are_named_all_at_once(tmp_path: Path) -> None:
    images = [png(0), b"no picture", png(2)[:-30], png(3), b""]
    write_parquet(tmp_path / "t.parquet", [row(number, image) for number, image in enumerate(images)])
    env = GeoQA(folder_config(tmp_path, evaluate_on="train"))
    with pytest.raises(EnvError) as caught:
        env.check()
    message = str(caught.value)
    assert message.startswith("3 pictures (env.image_key) cannot be decoded:")
    assert all(f"t.parquet, row {number}: " in message for number in (2, 3, 5))
    assert "row 1:" not in message and "row 4:" not in message
    with pytest.raises(EnvError, match="t.parquet, row 2: not a picture"):
        env.reset(seed=1)


def test_many_broken_pictures_make_a_short_message(tmp_path: Path) -> None:
    write_parquet(tmp_path / "t.parquet", [row(number, b"x%d" % number) for number in range(50)])
    with pytest.raises(EnvError, match="and 45 more"):
        load_items(folder_config(tmp_path, evaluate_on="train")).check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": None}, "expected a picture"),
        ({"image": "missing.png"}, "no such picture"),
        ({"image": 7}, "expected a picture"),
        ({"image": "data:image/png;base64,!!"}, "not base64"),
        ({"solution": " "}, "no gold answer in solution"),
        ({"problem": ""}, "the question (problem) is empty"),
    ],
)
def test_bad_rows_say_file_row_and_column(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "0.png").write_bytes(png(0))
    (tmp_path / "t.jsonl").write_text(json.dumps(row(1, "0.png")) + "\n" + json.dumps({**row(2, "0.png"), **change}))
    with pytest.raises(EnvError) as caught:
        load_items(folder_config(tmp_path, train_files="*.jsonl"))
    assert f"{tmp_path / 't.jsonl'}, row 2: " in str(caught.value) and message in str(caught.value)


@pytest.mark.parametrize("name", ["image", "problem", "solution"])
def test_a_missing_column_is_named_with_its_key(tmp_path: Path, name: str) -> None:
    content = row(1, png(1))
    content["other"] = content.pop(name)
    write_parquet(tmp_path / "t.parquet", [content])
    key = {"image": "image_key", "problem": "question_key", "solution": "answer_key"}[name]
    with pytest.raises(EnvError, match=f"row 1: no column '{name}' \\(env.{key}\\); it has .*other"):
        load_items(folder_config(tmp_path))


def test_pad_keeps_proportions_and_stretch_does_not() -> None:
    image = Pillow.new("RGB", (200, 100), (0, 0, 0))
    padded, stretched = to_square(image, 64, "pad"), to_square(image, 64, "stretch")
    assert (padded[:16] == 255).all() and (padded[48:] == 255).all() and (padded[17:47] == 0).all()
    assert (stretched == 0).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "1", "CMYK", "I;16"])
def test_modes(mode: str) -> None:
    image = Pillow.new(mode, (10, 10))
    assert to_square(image, 16, "pad").shape == (16, 16, 3)
    if mode in ("RGBA", "LA"):
        assert (to_square(image, 16, "pad") == 255).all()  # transparent: white paper, not black


def test_paths_start_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(5))
    assert read_picture("a.png", str(tmp_path), "here").source == tmp_path / "a.png"
    assert read_picture(str(tmp_path / "a.png"), None, "here").digest() == read_picture(png(5), None, "x").digest()
