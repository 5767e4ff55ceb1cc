"""Images of the buffer: stored once, freed with the last row that shows them, back exactly after a checkpoint."""

import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from freshper.replay.buffer import ReplayBuffer
from freshper.replay.images import Album, ImageStore, image_bound, image_key, images_of_state, pack_image
from freshper.replay.packing import image_keys, pack, pack_row, unpack, unpack_row
from tests.replay.helpers import assert_same, make_config, make_trajectory

PICTURES = [pack_image(np.full((8, 8, 3), shade, np.uint8)) for shade in range(12)]


def seeing(mark, *pictures, **changes):
    return dataclasses.replace(make_trajectory(mark, **changes), images=tuple(PICTURES[p] for p in pictures))


def make_buffer(capacity=4, group_size=1, **changes):
    return ReplayBuffer(make_config(capacity=capacity, **changes), np.random.default_rng(0), group_size)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))))
def test_pixels_come_back_exactly(pixels):
    image = pack_image(pixels)
    np.testing.assert_array_equal(image.pixels(), pixels)
    assert image == pack_image(pixels.copy()) and image_key(pixels) == image.key


def test_other_pixels_or_another_shape_are_another_image():
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    other = pixels.copy()
    other[3, 5, 2] ^= 1
    assert len({image_key(p) for p in (pixels, other, pixels.reshape(6, 4, 3), pixels.reshape(2, 12, 3))}) == 4
    # A view that is not contiguous is what it shows.
    assert image_key(pixels[::-1]) == image_key(pixels[::-1].copy()) != image_key(pixels)


def test_a_drawn_picture_is_stored_in_a_few_per_cent():
    blocks = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    pixels = blocks.repeat(16, 0).repeat(16, 1)
    assert len(pack_image(pixels).data) < 0.05 * pixels.nbytes


def test_an_album_packs_equal_pictures_once():
    album, pixels = Album(), np.zeros((8, 8, 3), np.uint8)
    assert album.pack(pixels) is album.pack(pixels.copy())
    assert album.pack(pixels) is not album.pack(pixels + 1)


def test_a_record_names_its_images_and_needs_them_back():
    trajectory = seeing(3, 1, 2, 1)
    record = pack(trajectory)
    assert PICTURES[1].data not in record
    known = {p.key: p for p in PICTURES}
    assert_same(trajectory, unpack(record, known))
    assert image_keys(pack_row([trajectory, seeing(4, 5)])) == [PICTURES[p].key for p in (1, 2, 1, 5)]
    with pytest.raises(ValueError, match=f"image {PICTURES[1].key.hex()}, which is not stored"):
        unpack(record)


@pytest.mark.parametrize("length", [62, 70, 100])
def test_a_record_cut_short_in_its_keys_is_refused(length):
    with pytest.raises(ValueError, match="image keys"):
        unpack(pack(seeing(0, 1, 2, 3))[:length], {p.key: p for p in PICTURES})


def test_records_of_text_are_as_long_as_before():
    assert len(pack(make_trajectory())) + 4 + 2 * 16 == len(pack(seeing(0, 1, 2)))


def test_identical_images_are_stored_once_over_rows_and_calls():
    buffer = make_buffer(capacity=8)
    buffer.add([seeing(0, 1, 1, 2), seeing(1, 2)], None, 0)
    # Equal pixels in another object, as a later batch makes them.
    again = dataclasses.replace(make_trajectory(2), images=(pack_image(PICTURES[1].pixels()),))
    before = buffer.images.nbytes
    buffer.add([again], None, 1)
    assert len(buffer.images) == 2 and buffer.images.nbytes == before
    assert [buffer.images.uses(PICTURES[p].key) for p in (1, 2, 3)] == [3, 2, 0]
    assert buffer.images[PICTURES[1].key] is PICTURES[1]


@pytest.mark.parametrize("eviction", ["fifo", "lowest_priority"])
def test_eviction_frees_what_no_other_row_shows(eviction):
    buffer = make_buffer(capacity=3, eviction=eviction)
    buffer.add([seeing(0, 0, 1, episode_return=0.1), seeing(1, 1, 2), seeing(2, 3)], None, 0)
    empty = make_buffer().images.nbytes
    buffer.add([seeing(3, 0)], None, 1)  # row 0 goes; its image 0 comes back with the new row in the same call
    assert [buffer.images.uses(PICTURES[p].key) for p in range(4)] == [1, 1, 1, 1]
    buffer.add([seeing(4), seeing(5), seeing(6)], None, 2)
    if eviction == "fifo":
        assert len(buffer.images) == 0 and buffer.images.nbytes == empty
    for _, trajectory in zip(range(20), buffer.draw(3, 2, 0.0).trajectories, strict=False):
        assert trajectory.images == tuple(buffer.images[i.key] for i in trajectory.images)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=1, max_size=3), min_size=1, max_size=8),
    st.sampled_from(["fifo", "lowest_priority"]),
    st.integers(0, 2**32 - 1),
)
def test_the_store_holds_exactly_what_live_rows_show(batches, eviction, seed):
    rng = np.random.default_rng(seed)
    buffer = make_buffer(capacity=4, eviction=eviction)
    for clock, batch in enumerate(batches):
        rows = [seeing(10 * clock + k, *shown, episode_return=float(rng.random())) for k, shown in enumerate(batch)]
        buffer.add(rows, None, clock)
        live = [r for r in buffer.records if r is not None]
        shown = [key for row in live for key in image_keys(row)]
        assert {p.key: buffer.images.uses(p.key) for p in PICTURES} == {p.key: shown.count(p.key) for p in PICTURES}
        assert len(buffer.images) == len(set(shown))
        rebuilt = ImageStore()
        rebuilt.hold(buffer.images[key] for key in shown)
        assert rebuilt.nbytes == buffer.images.nbytes
        assert buffer.nbytes >= sum(len(buffer.images[key].data) for key in set(shown))


def test_groups_are_rows_with_images():
    buffer = make_buffer(capacity=4, group_size=2, unit="group")
    pair = [dataclasses.replace(seeing(k, k, 5), group_id=7) for k in (0, 1)]
    buffer.add(pair, None, 0)
    for before, after in zip(pair, buffer.draw(2, 0, 0.0).trajectories, strict=True):
        assert_same(before, after)
    assert buffer.images.uses(PICTURES[5].key) == 2
    for clock in (1, 2):
        buffer.add([dataclasses.replace(seeing(k), group_id=clock) for k in (2, 3)], None, clock)
    assert len(buffer.images) == 0


def saved(buffer):
    """The state as it is after a checkpoint: written with numpy and read again."""
    state, file = buffer.state_dict(), io.BytesIO()
    np.savez(file, **{k: v for k, v in state.items() if isinstance(v, np.ndarray)})
    file.seek(0)
    return {k: v for k, v in state.items() if not isinstance(v, np.ndarray)} | dict(np.load(file))


def test_a_checkpoint_restores_images_and_counts():
    buffer, other = make_buffer(capacity=3), make_buffer(capacity=3)
    buffer.add([seeing(0, 0, 1), seeing(1, 1, 2), seeing(2, 3)], None, 0)
    buffer.add([seeing(3, 4, 4)], None, 1)
    other.load_state_dict(saved(buffer))
    assert other.images.nbytes == buffer.images.nbytes and other.nbytes - other.images.nbytes > 0
    for picture in PICTURES:
        assert other.images.uses(picture.key) == buffer.images.uses(picture.key)
    for one, two in zip(buffer.draw(3, 1, 0.0).trajectories, other.draw(3, 1, 0.0).trajectories, strict=True):
        assert_same(one, two)
        for image, again in zip(one.images, two.images, strict=True):
            np.testing.assert_array_equal(image.pixels(), again.pixels())
    for b in (buffer, other):
        b.add([seeing(4, 1), seeing(5), seeing(6)], None, 2)
    assert len(other.images) == len(buffer.images) == 1
    without = make_buffer()
    without.add([make_trajectory()], None, 0)
    make_buffer().load_state_dict(saved(without))


def test_damage_in_a_saved_image_is_found():
    buffer = make_buffer()
    buffer.add([seeing(0, 0, 1)], None, 0)
    state = saved(buffer)

    def broken(name, change):
        array = state[name].copy()
        return {**state, name: change(array)}

    def flip(array):
        array[len(array) // 2] ^= 0xFF
        return array

    for bad, message in (
        (broken("image_data", flip), "image"),
        (broken("image_keys", flip), "other pixels than its key says"),
        (broken("image_sizes", lambda a: a[:2]), "2 images, 1 sizes"),
        (broken("image_sizes", lambda a: a + 1), "bytes, not"),
        (broken("image_offsets", lambda a: a[:-1]), "do not divide"),
        ({k: v for k, v in state.items() if k != "image_data"}, "lacks image_data"),
    ):
        with pytest.raises(ValueError, match=message):
            make_buffer().load_state_dict(bad)
    # An image too few, and one too many.
    half = images_of_state(state)
    store = ImageStore()
    store.hold([half[PICTURES[0].key]])
    with pytest.raises(ValueError, match="not stored"):
        make_buffer().load_state_dict({**state, **store.state()})
    store.hold([PICTURES[1], PICTURES[2]])
    with pytest.raises(ValueError, match="3 images, its records show 2"):
        make_buffer().load_state_dict({**state, **store.state()})


def test_the_bound_holds_for_pictures_of_noise():
    rng = np.random.default_rng(0)
    rows = []
    for mark in range(20):
        images = tuple(pack_image(rng.integers(0, 256, (32, 48, 3), dtype=np.uint8)) for _ in range(3))
        rows.append(dataclasses.replace(make_trajectory(mark), images=images))
        assert all(len(image.data) >= 0.99 * 32 * 48 * 3 for image in images)
    buffer = make_buffer(capacity=20)
    buffer.add(rows, None, 0)
    bound = ReplayBuffer.memory_bound(20, 6, turns=3, image_pixels=32 * 48)
    assert 0.7 * bound < buffer.nbytes <= bound + 56
    assert buffer.metrics(0)["images"] == 60 and buffer.metrics(0)["image_bytes"] <= 60 * image_bound(32 * 48)


def test_unpacked_rows_share_the_stored_image():
    buffer = make_buffer()
    buffer.add([seeing(0, 1)], None, 0)
    record = next(r for r in buffer.records if r is not None)
    assert unpack_row(record, buffer.images)[0].images[0] is PICTURES[1]
