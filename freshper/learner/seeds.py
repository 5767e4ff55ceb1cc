"""Every random source of a run, derived from its seed, the source's name and the iteration.

Nothing has to be carried from one iteration to the next, so a resumed run draws what an uninterrupted one would.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch


def stream(seed: int, name: str, index: int = 0) -> np.random.SeedSequence:
    """Seed sequence of the source `name` in iteration `index` of the run with `seed`."""
    return np.random.SeedSequence([seed, zlib.crc32(name.encode()), index])


def numpy_rng(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """numpy generator of a source."""
    return np.random.default_rng(stream(seed, name, index))


def torch_rng(seed: int, name: str, index: int, device: torch.device) -> torch.Generator:
    """torch generator of a source, on a device."""
    return torch.Generator(device=device).manual_seed(
        int(stream(seed, name, index).generate_state(1, np.uint64)[0] >> 1)
    )
