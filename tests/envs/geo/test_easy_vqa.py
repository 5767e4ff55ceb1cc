"""The pictures of the package easy-vqa, read from its files."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.errors import EnvError
from freshper.envs.expert import right_reply
from freshper.envs.geo.easy_vqa import easy_vqa_folder, easy_vqa_rows
from freshper.envs.geo.env import GeoQA
from freshper.envs.geo.items import StoredItems, load_items

CONFIG = GeoQAConfig(data="easy_vqa")
COLOURS = {
    "red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "black": (0, 0, 0), "gray": (128, 128, 128),
    "teal": (0, 128, 128), "brown": (165, 42, 42), "yellow": (255, 255, 0),
}  # fmt: skip


def test_its_own_parts_with_their_published_numbers() -> None:
    train, test = easy_vqa_rows("train"), easy_vqa_rows("test")
    assert (len(train), len(test)) == (38_575, 9_673)
    assert len({answer for _, answer, _ in (*train, *test)}) == 13
    assert sum(answer in ("yes", "no") for _, answer, _ in train) == 28_407
    pictures = [{path for _, _, path in part} for part in (train, test)]
    assert [len(part) for part in pictures] == [4000, 1000]
    assert all(path.is_file() for part in pictures for path in part)
    contents = [{path.read_bytes() for path in part} for part in pictures]
    assert not contents[0] & contents[1]


def test_the_package_is_not_imported() -> None:
    load_items(CONFIG)
    assert "easy_vqa" not in sys.modules


def test_pictures_show_what_the_answers_say() -> None:
    """Half of a picture's pixels or so are its background; the shape's colour is the answer's."""
    items = load_items(CONFIG)
    checked = 0
    for seed in range(600):
        item = items.at(seed)
        if item.answer in COLOURS:
            image = item.picture.pixels(64, "pad").astype(int)
            background = Counter(map(tuple, image.reshape(-1, 3).tolist())).most_common(1)[0][0]
            shape = image[np.abs(image - background).sum(axis=2) > 60]
            if len(shape) >= 20:
                colour = np.median(shape, axis=0)
                nearest = min(COLOURS, key=lambda name: float(np.abs(colour - COLOURS[name]).sum()))
                assert nearest == item.answer
                checked += 1
    assert checked > 40


def test_play() -> None:
    env = GeoQA(CONFIG)
    env.check()
    for seed in (0, 1, CONFIG.eval_seed):
        observation, _ = env.reset(seed=seed)
        assert observation["image"].shape == (64, 64, 3)
        assert env.step(right_reply(env))[1] == 1.0
    items = load_items(CONFIG.model_copy(update={"max_train": 10, "evaluate_on": "train"}))
    assert isinstance(items, StoredItems) and len(items._split.train) == len(items._split.evaluation) == 10


def test_a_missing_or_strange_package_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert easy_vqa_folder().is_dir()
    monkeypatch.setattr("freshper.envs.geo.easy_vqa.easy_vqa_folder", lambda: tmp_path)
    with pytest.raises(EnvError, match="expected the questions of easy-vqa 1.0"):
        easy_vqa_rows("train")
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "questions.json").write_text(json.dumps([["question", "answer"]]))
    with pytest.raises(EnvError, match="expected the questions of easy-vqa 1.0"):
        easy_vqa_rows("train")
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvError, match="pip install"):
        easy_vqa_folder()
