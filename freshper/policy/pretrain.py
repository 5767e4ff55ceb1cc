"""Make a small base model again (minutes on one thread), that of any family:

    python -m freshper.policy.pretrain --out outputs/base
    python -m freshper.policy.pretrain --family search --out outputs/base_search

Writes a Hugging Face folder (weights, tokenizer, chat template, image processor if it sees) with recipe.json beside it:
settings, seed, versions, final loss and the measured success, for models that see also what is left of it with other
pictures. The folders that ship with freshper are freshper/policy/tiny/base (FrozenLake) and base_<family>.
"""

from __future__ import annotations

import argparse
from pathlib import Path

FAMILIES = (
    "frozen_lake",
    "sokoban",
    "sokoban_hard",
    "cliff_walking",
    "math",
    "search",
    "frozen_lake_image",
    "sokoban_image",
    "geoqa",
    "easy_vqa",
)
"""Those that `freshper.policy.tiny.makers` makes; named here, so that --help does not wait for torch."""


def main() -> None:
    """Parse the command line, then pretrain, measure and save."""
    parser = argparse.ArgumentParser(
        description="Pretrain a small base model on demonstrations of a task.",
        epilog="Example: python -m freshper.policy.pretrain --family search --out outputs/base_search --seed 1",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, tokenizer and recipe.json (new or empty)"
    )
    parser.add_argument(
        "--family", choices=FAMILIES, default="frozen_lake", help="task that is demonstrated (default frozen_lake)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes weights, demonstrations and measurement (default 0)")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: the recipe's)")
    parser.add_argument(
        "--threads", type=int, default=1, help="torch threads; results are exact per thread count (default 1)"
    )
    parser.add_argument(
        "--episodes", type=int, help="evaluation episodes of the final measurement (default: 256 to 512, by family)"
    )
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out {args.out} is not empty")

    # After parsing: it imports torch.
    from freshper.policy.tiny.make_base import make_base

    make_base(args.family, args.out, args.seed, args.threads, args.steps, args.episodes)


if __name__ == "__main__":
    main()
