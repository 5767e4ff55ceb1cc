"""Where a run came from: code, command, packages, machine, seeds."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from freshper.config.identity import identity
from freshper.config.run import RunConfig
from freshper.records.status import now

PACKAGES = (
    "freshper", "torch", "transformers", "tokenizers", "safetensors", "numpy", "gymnasium", "hydra-core", "omegaconf",
    "pydantic", "matplotlib", "wandb", "tensorboard", "vllm",
)  # fmt: skip

_REPOSITORY = Path(__file__).resolve().parents[2]


def collect(config: RunConfig, argv: Sequence[str], accelerator: str | None = None) -> dict[str, Any]:
    """Everything that is worth knowing about this attempt, as plain containers.

    Args:
        config: the run.
        argv: command line: script, then the overrides of this very run.
        accelerator: name of the GPU if one is used (this package does not ask torch).
    """
    commit, dirty = git_state(_REPOSITORY)
    return {
        "identity": identity(config),
        "time": now(),
        "commit": commit,
        "dirty": dirty,
        "argv": list(argv),
        "overrides": list(argv[1:]),
        "cwd": os.getcwd(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": package_versions(),
        "hardware": {**hardware(), "accelerator": accelerator},
        "environment": {
            name: os.environ[name] for name in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS") if name in os.environ
        },
        "seeds": {"run": config.seed, "train_env": config.env.train_seed, "eval_env": config.env.eval_seed},
    }


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether tracked or new files differ from it); (None, None) outside a repository or before a commit."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20)
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # An installed copy inside somebody else's repository must not be given that repository's commit.
    top = git("rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != folder:
        return None, None
    commit = git("rev-parse", "HEAD")
    changes = git("status", "--porcelain")
    return commit, None if commit is None or changes is None else bool(changes)


def package_versions() -> dict[str, str]:
    """Versions of the packages that matter and are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def hardware() -> dict[str, Any]:
    """Host, CPU model, cores this process may use, and memory in GiB (None where the system does not tell)."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    memory = None
    if "SC_PHYS_PAGES" in os.sysconf_names:
        memory = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    return {
        "host": socket.gethostname(),
        "cpu": _cpu_model(),
        "cores": cores,
        "memory_gib": memory,
        "platform": platform.platform(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
