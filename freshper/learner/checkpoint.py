"""Checkpoints: complete or absent, verified before use, loadable as a model folder.

Layout of `checkpoints/<iteration>/`: `policy/` (weights, tokenizer and image processor in Hugging Face format, so
`model=hf model.path=.../policy` uses it), `training.pt` (optimiser, counters), `buffer.npz` + `buffer.json` (replay
buffer with its RNG), `manifest.json` (SHA-256 of every other file, written last).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from freshper.policy.load import Policy

_MANIFEST = "manifest.json"
_PARTIAL = ".partial-"


class CheckpointError(RuntimeError):
    """A checkpoint that is damaged or incomplete."""


@dataclass(frozen=True)
class Saved:
    """Contents of a checkpoint, except the weights."""

    folder: Path
    """Its folder."""
    training: dict[str, Any]
    """Optimiser state and counters."""
    buffer: dict[str, Any] | None
    """State of the replay buffer, if the run has one."""

    @property
    def policy(self) -> str:
        """Folder of the weights."""
        return str(self.folder / "policy")


def save(root: Path, iteration: int, policy: Policy, training: dict[str, Any], buffer: dict[str, Any] | None) -> Path:
    """Write the checkpoint of `iteration` under `root` and make it appear in one step.

    Args:
        root: the run's `checkpoints` folder.
        iteration: iterations complete.
        policy: weights and tokenizer.
        training: tensors, numbers and containers of them.
        buffer: numpy arrays and JSON-like values.
    """
    final = root / f"{iteration:06d}"
    partial = root / f"{_PARTIAL}{iteration:06d}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    policy.model.save_pretrained(partial / "policy")
    policy.tokenizer.save_pretrained(partial / "policy")
    if policy.vision is not None:
        policy.vision.processor.save_pretrained(partial / "policy")
    torch.save(training, partial / "training.pt")
    if buffer is not None:
        arrays = {name: value for name, value in buffer.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in buffer.items() if not isinstance(value, np.ndarray)}
        np.savez(partial / "buffer.npz", allow_pickle=False, **arrays)
        (partial / "buffer.json").write_text(json.dumps(plain), encoding="utf-8")
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    manifest = {str(path.relative_to(partial)): _digest(path) for path in files}
    for path in files:
        _flush(path)
    (partial / _MANIFEST).write_text(
        json.dumps({"iteration": iteration, "sha256": manifest}, indent=1), encoding="utf-8"
    )
    _flush(partial / _MANIFEST)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    return final


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints, and what an interrupted save left."""
    for leftover in root.glob(f"{_PARTIAL}*"):
        shutil.rmtree(leftover)
    for old in _complete(root)[:-keep]:
        shutil.rmtree(old)


def latest(root: Path) -> Path | None:
    """Folder of the newest complete checkpoint, None if there is none."""
    complete = _complete(root)
    return complete[-1] if complete else None


def load(folder: Path) -> Saved:
    """Read a checkpoint after checking every file against the manifest.

    Raises:
        CheckpointError: naming the damaged or missing file. An older checkpoint is never used silently instead.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / _MANIFEST} is not a checkpoint manifest. {_advice(folder)}") from error
    for name, digest in manifest.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing. {_advice(folder)}")
        if _digest(path) != digest:
            raise CheckpointError(f"{path} is corrupt: its SHA-256 is not the one in {_MANIFEST}. {_advice(folder)}")
    training = torch.load(folder / "training.pt", map_location="cpu", weights_only=True)
    buffer = None
    if "buffer.npz" in manifest:
        with np.load(folder / "buffer.npz", allow_pickle=False) as arrays:
            buffer = {name: arrays[name] for name in arrays.files}
        buffer |= json.loads((folder / "buffer.json").read_text(encoding="utf-8"))
    return Saved(folder, training, buffer)


def _advice(folder: Path) -> str:
    return (
        f"Remove {folder} to go on from the checkpoint before it (or from the start), or set output.name for a new run"
    )


def _complete(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("[0-9]*") if path.is_dir()) if root.is_dir() else []


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
