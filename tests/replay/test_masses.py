"""Running sums and the width of buckets."""

from __future__ import annotations

import numpy as np
import pytest

from freshper.replay.index import bucket_width
from freshper.replay.masses import running_sums, sums_by_line


def test_width_is_a_power_of_two_that_grows_with_the_root_of_the_capacity():
    widths = {capacity: bucket_width(capacity) for capacity in (1, 1000, 10**4, 10**5, 10**6, 10**7, 10**9)}
    assert widths == {1: 8, 1000: 8, 10**4: 16, 10**5: 32, 10**6: 128, 10**7: 256, 10**9: 256}


@pytest.mark.parametrize("size", [0, 16, 1008, 1024, 4096, 16_000])
def test_running_sums_never_fall_and_rise_only_where_something_is_added(size):
    """Few values and many, far apart and with zeros among them; as one array and line by line."""
    rng = np.random.default_rng(size)
    for _ in range(20):
        values = 10.0 ** rng.uniform(-20, 20, size) * (rng.random(size) < rng.random())
        sums = np.zeros(size)
        running_sums(values, sums)
        assert np.all(np.diff(sums, prepend=0)[values == 0] == 0) and np.all(np.diff(sums) >= 0)
        np.testing.assert_allclose(sums, np.cumsum(values), rtol=1e-12)
        for width, zero in ((8, 0), (8, 1), (16, 0), (32, 0)):
            lines = values[: size // width * width].reshape(-1, width)
            sums = sums_by_line(lines, zero)
            steps = np.diff(sums[:, zero:], axis=1, prepend=0)
            assert np.all(steps[lines == 0] == 0) and np.all(steps >= 0) and not sums[:, :zero].any()
            np.testing.assert_allclose(sums[:, zero:], np.cumsum(lines, axis=1), rtol=1e-12)
