"""Make a small base model again (minutes on one thread): python -m freshper.policy.pretrain --out outputs/base

`--family sokoban` or `--family cliff_walking` make those of the other games.

Writes a Hugging Face folder (weights, tokenizer, chat template) with recipe.json beside it: settings, seed, versions,
final loss and the measured success. The folders that ship with freshper are
freshper/policy/tiny/base (FrozenLake), base_sokoban and base_cliff_walking.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path


def main() -> None:
    """Parse the command line, pretrain, measure, save."""
    parser = argparse.ArgumentParser(
        description="Pretrain a small base model on noisy play of a grid game.",
        epilog="Example: python -m freshper.policy.pretrain --out outputs/base --seed 1",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, tokenizer and recipe.json (new or empty)"
    )
    parser.add_argument(
        "--family",
        choices=("frozen_lake", "sokoban", "sokoban_hard", "cliff_walking"),
        default="frozen_lake",
        help="game that is demonstrated (default frozen_lake)",
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes weights, demonstrations and measurement (default 0)")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: the recipe's)")
    parser.add_argument(
        "--threads", type=int, default=1, help="torch threads; results are exact per thread count (default 1)"
    )
    parser.add_argument(
        "--episodes", type=int, default=512, help="evaluation seeds of the final measurement (default 512)"
    )
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out {args.out} is not empty")

    # After parsing, so that --help does not wait for torch.
    import numpy
    import tokenizers
    import torch
    import transformers

    from freshper.config.model import ModelConfig
    from freshper.policy.load import load_policy
    from freshper.policy.tiny.pretrain import RECIPES, pretrain
    from freshper.policy.tiny.tokenizer import build_tokenizer
    from freshper.rollout.measure import measure

    torch.set_num_threads(args.threads)
    recipe, config = RECIPES[args.family]
    recipe = replace(recipe, seed=args.seed)
    if args.steps is not None:
        recipe = replace(recipe, steps=args.steps)
    tokenizer = build_tokenizer()
    started, cpu_started = time.perf_counter(), time.process_time()

    def report(step: int, phase: str, loss: float) -> None:
        if step % 20 == 0 or step == recipe.steps:
            elapsed = time.process_time() - cpu_started
            print(f"step {step}/{recipe.steps} [{phase}] loss {loss:.4f} ({elapsed:.0f} s of CPU time)", flush=True)

    model, losses = pretrain(recipe, config, tokenizer, report)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    print(f"measuring on {args.episodes} evaluation seeds ...", flush=True)
    policy = load_policy(ModelConfig(kind="hf", path=str(args.out), device="cpu"))
    sampled = measure(policy, config, args.episodes, args.seed)
    greedy = measure(policy, config, args.episodes, args.seed, greedy=True)

    last = losses[-20:]
    record = {
        "recipe": asdict(recipe),
        "env": config.model_dump(),
        "threads": args.threads,
        "parameters": model.num_parameters(),
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
        "sampled": asdict(sampled),
        "greedy": asdict(greedy),
    }
    (args.out / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")
    print(
        f"{args.out}: {model.num_parameters()} parameters, {recipe.steps} steps in {seconds:.0f} s "
        f"({cpu_seconds:.0f} s of CPU time), "
        f"loss {record['final_loss']:.4f} nats a token (mean of the last {len(last)} steps)\n"
        f"n={args.episodes}: sampled success {sampled.success:.3f}, greedy {greedy.success:.3f}, "
        f"return {sampled.mean_return:.2f} (greedy {greedy.mean_return:.2f}), "
        f"valid turns {sampled.valid:.3f} (greedy {greedy.valid:.3f})"
    )


if __name__ == "__main__":
    main()
