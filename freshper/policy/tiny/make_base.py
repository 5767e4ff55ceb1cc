"""Pretrain, save and measure the small base model of a family, as `python -m freshper.policy.pretrain` does."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from pathlib import Path

import numpy
import tokenizers
import torch
import transformers
from transformers.utils import logging

from freshper.config.model import ModelConfig
from freshper.policy.load import load_policy
from freshper.policy.tiny.makers import maker_of

_REPORT_EVERY = 20


def make_base(
    family: str, out: Path, seed: int, threads: int = 1, steps: int | None = None, episodes: int | None = None
) -> None:
    """Write a folder with the weights, what belongs to them, and recipe.json; prints progress and measurements.

    Args:
        family: one of `freshper.policy.pretrain.FAMILIES`.
        out: new or empty folder.
        seed: fixes weights, demonstrations and measurement.
        threads: of torch; results are exact per thread count.
        steps: optimiser steps; the recipe's by default.
        episodes: of the measurement; the family's number by default.
    """
    logging.disable_progress_bar()
    torch.set_num_threads(threads)
    maker = maker_of(family, seed, steps)
    recipe, episodes = maker.recipe, episodes or maker.episodes
    started, cpu_started = time.perf_counter(), time.process_time()

    def report(step: int, line: str) -> None:
        if step % _REPORT_EVERY == 0 or step == recipe.steps:
            print(f"step {step}/{recipe.steps} {line} ({time.perf_counter() - started:.0f} s)", flush=True)

    trained = maker.train(report)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    for part in trained.parts:
        part.save_pretrained(out)
    last = trained.losses[-_REPORT_EVERY:]
    print(
        f"{out}: {trained.parameters} parameters, {recipe.steps} steps in {seconds:.0f} s, "
        f"loss {sum(last) / len(last):.4f} nats a token (mean of the last {len(last)} steps)\n"
        f"measuring on {episodes} evaluation episodes ...",
        flush=True,
    )
    model = ModelConfig(kind="hf", path=str(out), device="cpu")
    record = {
        "command": f"python -m freshper.policy.pretrain --family {family} --out <folder> --seed {seed}",
        "recipe": asdict(recipe),
        **maker.tasks,
        "threads": threads,
        "parameters": trained.parameters,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "numpy": numpy.__version__,
        },
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "final_loss": sum(last) / len(last),
        **maker.measure(load_policy(model), model, seed, episodes),
    }
    (out / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")
