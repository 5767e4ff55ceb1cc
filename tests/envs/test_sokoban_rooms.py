"""Sokoban rooms: distances against a plain forward search, generation, and the cache on disk."""

import hashlib
import multiprocessing
import warnings
from pathlib import Path

import numpy as np
import pytest

from freshper.config.envs.sokoban import SokobanConfig
from freshper.envs import sokoban_cache
from freshper.envs.sokoban import SokobanText
from freshper.envs.sokoban_layouts import STARTS, Starts, draw_starts
from freshper.envs.sokoban_search import MOVES, UNSOLVABLE, Layout, solve_all

SIMPLE = SokobanConfig()
HARD = SokobanConfig(size=8, boxes=2, min_moves=4, max_moves=16, max_turns=20)
State = tuple[tuple[int, int], frozenset[tuple[int, int]]]


def successors(walls: tuple[str, ...], state: State) -> list[State]:
    player, boxes = state
    out = []
    for down, right in MOVES:
        ahead, behind = (player[0] + down, player[1] + right), (player[0] + 2 * down, player[1] + 2 * right)
        if walls[ahead[0]][ahead[1]] == "#":
            continue
        if ahead not in boxes:
            out.append((ahead, boxes))
        elif walls[behind[0]][behind[1]] != "#" and behind not in boxes:
            out.append((ahead, boxes - {ahead} | {behind}))
    return out


def shortest(layout: Layout, state: State) -> int:
    """Moves to the solution, by breadth-first search forwards."""
    seen, frontier, depth, goal = {state}, [state], 0, set(layout.targets)
    while frontier:
        if any(boxes == goal for _, boxes in frontier):
            return depth
        depth += 1
        frontier = [new for old in frontier for new in successors(layout.walls, old)]
        frontier = [state for state in dict.fromkeys(frontier) if state not in seen]
        seen.update(frontier)
    return UNSOLVABLE


def cells(row: np.ndarray) -> State:
    (player, *boxes) = [(int(r), int(c)) for r, c in row]
    return player, frozenset(boxes)


def same(one: Starts, other: Starts) -> bool:
    arrays = zip((one.positions, one.moves), (other.positions, other.moves), strict=True)
    return one.layout == other.layout and all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in arrays)


def test_distances_of_every_state_of_small_rooms_are_those_of_a_forward_search() -> None:
    for index in range(3):
        layout = draw_starts(SIMPLE, False, index).layout
        distances = solve_all(layout)
        for player in distances.cells:
            for box in distances.cells:
                if player != box:
                    assert distances.of(player, [box]) == shortest(layout, (player, frozenset([box])))


@pytest.mark.parametrize("config", [SIMPLE, HARD, SokobanConfig(size=6, boxes=3, max_moves=10)], ids=["1", "2", "3"])
def test_starts_have_the_promised_shortest_solution(config: SokobanConfig) -> None:
    rng = np.random.default_rng(0)
    for index in range(4):
        starts = draw_starts(config, index % 2 == 1, index)
        assert 0 < len(starts.moves) == len(starts.positions) <= STARTS
        assert len(np.unique(starts.positions.reshape(len(starts.moves), -1), axis=0)) == len(starts.moves)
        assert (np.diff(starts.moves.astype(int)) >= 0).all()
        for row in rng.permutation(len(starts.moves))[:5]:
            assert shortest(starts.layout, cells(starts.positions[row])) == starts.moves[row]
            assert config.min_moves <= starts.moves[row] <= config.max_moves


def test_layouts_are_closed_rooms() -> None:
    for index in range(30):
        layout = draw_starts(HARD, False, index).layout
        assert len(layout.walls) == 8 and all(len(row) == 8 for row in layout.walls)
        border = layout.walls[0] + layout.walls[-1] + "".join(row[0] + row[-1] for row in layout.walls)
        assert set(border) == {"#"}
        assert len(set(layout.targets)) == 2 and all(layout.walls[r][c] == "_" for r, c in layout.targets)


def test_solutions_are_spread_over_the_lengths() -> None:
    moves = np.concatenate([draw_starts(HARD, False, index).moves for index in range(20)])
    counts = np.bincount(moves, minlength=17)[4:17]
    assert counts.min() > 0.2 * counts.max()  # states at distance 16 are many times as common as those at 4


def test_training_and_evaluation_share_no_layout() -> None:
    env = SokobanText(SokobanConfig(layouts=64))

    def layouts(first: int) -> set[Layout]:
        found = set()
        for seed in range(first, first + 300):
            env.reset(seed=seed)
            found.add(env.layout)
        return found

    train, evaluation = layouts(0), layouts(SIMPLE.eval_seed)
    assert len(train) > 30 and len(evaluation) > 30 and not train & evaluation


def test_hopeless_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="env.max_moves"):
        draw_starts(SokobanConfig(size=5, min_moves=60, max_moves=60, max_turns=60), False, 0)


def test_known_rooms_stay_fixed() -> None:
    # Records of earlier runs and caches name these rooms; raise sokoban_layouts.VERSION when they have to change.
    digests = []
    for config in (SIMPLE, HARD):
        starts = draw_starts(config, False, 7)
        content = repr(starts.layout).encode() + starts.positions.tobytes() + starts.moves.tobytes()
        digests.append(hashlib.sha256(content).hexdigest()[:12])
    assert digests == KNOWN


KNOWN = ["9edbf6572c7f", "ced408c9e246"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRESHPER_CACHE", str(tmp_path))
    return tmp_path / "sokoban" / "v1-size6-boxes1-moves2to8" / "train-0000"


def forget() -> None:
    sokoban_cache._chunk.cache_clear()


def test_cached_rooms_are_the_generated_ones(folder: Path) -> None:
    expected = [draw_starts(SIMPLE, False, index) for index in range(40)]
    for _ in range(3):  # made, from memory, from disk
        assert all(same(sokoban_cache.load_layout(SIMPLE, False, index), expected[index]) for index in (39, 0, 31, 32))
        if len(list(folder.parent.iterdir())) == 2:
            forget()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["train-0000", "train-0001"]
    assert same(sokoban_cache.read(folder)[5], expected[5])


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "folder"])
def test_a_damaged_file_is_rebuilt_and_says_so(folder: Path, damage: str) -> None:
    expected = sokoban_cache.load_layout(SIMPLE, False, 3)
    content = folder.read_bytes()
    folder.unlink()
    if damage == "folder":
        folder.mkdir()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        folder.write_bytes({"empty": b"", "cut": content[:-9], "flipped": flipped, "text": b"rooms\n"}[damage])
    forget()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert same(sokoban_cache.load_layout(SIMPLE, False, 3), expected)
    said = [str(warning.message) for warning in caught]
    assert "train-0000" in said[0] and "made again" in said[0]
    assert len(said) == (2 if damage == "folder" else 1)  # a folder stays in the way when the rooms are stored
    if damage != "folder":
        forget()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert same(sokoban_cache.load_layout(SIMPLE, False, 3), expected)


def test_a_folder_that_cannot_be_written_costs_time_and_a_warning_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FRESHPER_CACHE", str(tmp_path / "file"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert same(sokoban_cache.load_layout(SIMPLE, False, 3), draw_starts(SIMPLE, False, 3))
    assert any("FRESHPER_CACHE" in str(warning.message) for warning in caught)


def test_the_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESHPER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sokoban_cache.cache_folder() == tmp_path / "freshper"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert sokoban_cache.cache_folder() == Path.home() / ".cache" / "freshper"
    monkeypatch.setenv("FRESHPER_CACHE", "~/rooms")
    assert sokoban_cache.cache_folder() == Path.home() / "rooms"


def _read_all(queue: multiprocessing.Queue) -> None:
    found = [sokoban_cache.load_layout(SIMPLE, False, index).layout for index in (0, 31)]
    queue.put(hashlib.sha256(repr(found).encode()).hexdigest())


def test_processes_that_start_together_agree_and_leave_one_file(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_read_all, args=(queue,)) for _ in range(4)]
    for process in processes:
        process.start()
    digests = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    assert len(digests) == 1
    assert [path.name for path in folder.parent.iterdir()] == ["train-0000"]
    assert len(sokoban_cache.read(folder)) == sokoban_cache.CHUNK
