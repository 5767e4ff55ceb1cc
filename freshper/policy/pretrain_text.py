"""Make a small text model again (minutes on one thread):

    python -m freshper.policy.pretrain_text --family search --out outputs/base_search

Writes a Hugging Face folder (weights, tokenizer, chat template) with recipe.json beside it: settings, seed, versions,
final loss and the measured success. The folders that ship with freshper are freshper/policy/tiny/base_math and
base_search.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path


def main() -> None:
    """Parse the command line, pretrain, measure, save."""
    parser = argparse.ArgumentParser(
        description="Pretrain a small base model on sums or on the generated search world.",
        epilog="Example: python -m freshper.policy.pretrain_text --family math --out outputs/base_math --seed 1",
    )
    parser.add_argument("--family", choices=("math", "search"), required=True, help="task that is demonstrated")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, tokenizer and recipe.json (new or empty)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes weights, demonstrations and measurement (default 0)")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: the recipe's)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    parser.add_argument("--episodes", type=int, default=384, help="evaluation episodes measured (default 384)")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out {args.out} is not empty")

    # After parsing, so that --help does not wait for torch.
    import tokenizers
    import torch
    import transformers
    from transformers.utils import logging

    from freshper.config.model import ModelConfig
    from freshper.config.rollout import RolloutConfig
    from freshper.config.run import EvaluationConfig, RunConfig
    from freshper.envs.make import make_env
    from freshper.learner.evaluation import episode_metrics, play
    from freshper.policy.load import load_policy
    from freshper.policy.tiny.text_pretrain import RECIPES, pretrain_text
    from freshper.policy.tiny.text_tokenizer import build_text_tokenizer
    from freshper.rollout.collect import EnvPool

    logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    recipe, envs = RECIPES[args.family]
    recipe = replace(recipe, seed=args.seed, **({} if args.steps is None else {"steps": args.steps}))
    tokenizer = build_text_tokenizer()
    started = time.perf_counter()

    def report(step: int, loss: float) -> None:
        if step % 20 == 0 or step == recipe.steps:
            print(f"step {step}/{recipe.steps} loss {loss:.4f} ({time.perf_counter() - started:.0f} s)", flush=True)

    model, losses = pretrain_text(recipe, envs, tokenizer, report)
    seconds = time.perf_counter() - started
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    print(f"measuring on {args.episodes} evaluation episodes ...", flush=True)
    measured = {}
    for env in envs:
        config = RunConfig(
            seed=args.seed,
            env=env,
            model=ModelConfig(kind="hf", path=str(args.out), device="cpu"),
            rollout=RolloutConfig(max_new_tokens=8),
            evaluation=EvaluationConfig(episodes=args.episodes),
        )
        policy, pool = load_policy(config.model), EnvPool(functools.partial(make_env, env))
        sampled, greedy = (episode_metrics(play(policy, config, 0, greedy, pool)) for greedy in (False, True))
        measured[env.name] = {"sampled": sampled, "greedy": greedy}
        print(
            f"{env.name}: success {sampled['success']:.3f} (greedy {greedy['success']:.3f}), "
            f"valid {sampled['valid_rate']:.3f}"
        )
    record = {
        "recipe": asdict(recipe),
        "envs": [env.model_dump() for env in envs],
        "threads": args.threads,
        "parameters": model.num_parameters(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "seconds": round(seconds, 1),
        "final_loss": sum(losses[-20:]) / len(losses[-20:]),
        "measured": measured,
    }
    (args.out / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"{args.out}: {model.num_parameters()} parameters, {recipe.steps} steps in {seconds:.0f} s")


if __name__ == "__main__":
    main()
