"""Thread settings that must be made before torch is imported.

With OpenMP's default spinning barriers, one other busy process on a small machine slows torch 10 to 100 times, so every
entry point calls :func:`before_torch` first.
"""

from __future__ import annotations

import os
import sys


def before_torch() -> None:
    """Make idle OpenMP threads sleep and silence the tokenizers' fork warning; values set by the user win.

    Raises:
        RuntimeError: torch is already imported, so the setting would come too late to have an effect.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        if "torch" in sys.modules:
            raise RuntimeError("call freshper.threads.before_torch() before torch is imported")
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def choose_threads(requested: int, parameters: int, cores: int) -> int:
    """Number of torch threads: `requested` if positive, else two for small models and all cores otherwise.

    For a model of a few hundred thousand parameters a second thread brings up to a quarter on an idle machine and
    nothing on a busy one (`benchmarks/iteration.py --threads 1 2` prints both). Runs side by side want one each.

    Args:
        requested: `trainer.threads`; 0 asks for the default.
        parameters: number of weights of the policy.
        cores: cores that this process may use.
    """
    if requested:
        return requested
    return min(cores, 2) if parameters < 5_000_000 else cores


def available_cores() -> int:
    """Cores that this process may run on (respects affinity masks of containers and SLURM)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
