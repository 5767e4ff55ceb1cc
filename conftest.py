"""Test set-up: threads before torch is imported, and `--slow` for the tests marked slow."""

from __future__ import annotations

import os
import signal

from freshper.threads import before_torch

before_torch()
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

# A shell starts background jobs with SIGINT ignored, and programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow`."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests unless `--slow` (or SLOW=1) asks for them."""
    if config.getoption("--slow") or os.environ.get("SLOW", "") not in {"", "0"}:
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)
