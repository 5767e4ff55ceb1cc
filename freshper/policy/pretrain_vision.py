"""Make the small vision model again (about four minutes on one thread):

    python -m freshper.policy.pretrain_vision --out outputs/base_frozen_lake_image

Writes a Hugging Face folder (weights, tokenizer, chat template, image processor) with recipe.json beside it: settings,
seed, versions, final loss, the measured success, and what is left of it with a blank or another map's picture. The
folder that ships with freshper is freshper/policy/tiny/base_frozen_lake_image.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any


def main() -> None:
    """Parse the command line, pretrain, measure, save."""
    parser = argparse.ArgumentParser(
        description="Pretrain a small vision-language model on noisy play of FrozenLake in pictures.",
        epilog="Example: python -m freshper.policy.pretrain_vision --out outputs/base_frozen_lake_image --seed 1",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, tokenizer and recipe.json (new or empty)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes weights, demonstrations and measurement (default 0)")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: the recipe's)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    parser.add_argument("--episodes", type=int, default=256, help="evaluation seeds measured (default 256)")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out {args.out} is not empty")

    # After parsing, so that --help does not wait for torch.
    import numpy
    import tokenizers
    import torch
    import transformers
    from transformers.utils import logging

    from freshper.config.model import ModelConfig
    from freshper.envs.frozen_lake_image import FrozenLakeImage
    from freshper.policy.load import load_policy
    from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
    from freshper.policy.tiny.vision_demonstrations import LakePictures, lake_texts
    from freshper.policy.tiny.vision_pretrain import RECIPES, pretrain_vision
    from freshper.rollout.measure import measure

    logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    recipe, config = RECIPES["frozen_lake_image"]
    recipe = replace(recipe, seed=args.seed, **({} if args.steps is None else {"steps": args.steps}))
    policy = new_vision_policy(build_vision_tokenizer(lake_texts()), recipe.seed)
    assert policy.vision is not None
    started = time.perf_counter()

    def report(step: int, phase: str, loss: float, words: float) -> None:
        if step % 20 == 0 or step == recipe.steps:
            elapsed = time.perf_counter() - started
            print(
                f"step {step}/{recipe.steps} [{phase}] loss {loss:.4f}, labels {words:.4f} ({elapsed:.0f} s)",
                flush=True,
            )

    losses = pretrain_vision(recipe, LakePictures(config, policy, recipe.seed), policy, report)
    seconds = time.perf_counter() - started
    policy.model.save_pretrained(args.out)
    policy.tokenizer.save_pretrained(args.out)
    policy.vision.processor.save_pretrained(args.out)
    print(f"measuring on {args.episodes} evaluation seeds ...", flush=True)
    policy = load_policy(ModelConfig(kind="hf", path=str(args.out), device="cpu"))
    other, seeds = FrozenLakeImage(config), numpy.random.default_rng(args.seed)

    def blank(observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, "image": numpy.full_like(observation["image"], 128)}

    def shuffled(observation: dict[str, Any]) -> dict[str, Any]:
        return {**observation, "image": other.reset(seed=int(seeds.integers(2**31)))[0]["image"]}

    measured = {
        "sampled": measure(policy, config, args.episodes, args.seed),
        "greedy": measure(policy, config, args.episodes, args.seed, greedy=True),
        "blank_image": measure(policy, config, args.episodes, args.seed, show=blank),
        "other_maps_image": measure(policy, config, args.episodes, args.seed, show=shuffled),
    }
    last = losses[-20:]
    record = {
        "command": f"python -m freshper.policy.pretrain_vision --out <folder> --seed {args.seed}",
        "recipe": asdict(recipe),
        "env": config.model_dump(),
        "threads": args.threads,
        "parameters": policy.parameters,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "numpy": numpy.__version__,
        },
        "seconds": round(seconds, 1),
        "final_loss": sum(last) / len(last),
        **{name: asdict(score) for name, score in measured.items()},
    }
    (args.out / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"{args.out}: {policy.parameters} parameters, {recipe.steps} steps in {seconds:.0f} s, n={args.episodes}")
    for name, score in measured.items():
        print(
            f"{name}: success {score.success:.3f}, valid turns {score.valid:.3f}, good moves by turn "
            f"{' '.join(f'{share:.2f}' for share in score.optimal_by_turn)}"
        )


if __name__ == "__main__":
    main()
