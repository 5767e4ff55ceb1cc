"""Make the small model for questions about pictures again (about four minutes on one thread):

    python -m freshper.policy.pretrain_questions --out outputs/base_geoqa

Writes a Hugging Face folder (weights, tokenizer, chat template, image processor) with recipe.json beside it: settings,
seed, versions, final loss, the measured success, and what is left of it with other pictures. The folder that ships
with freshper is freshper/policy/tiny/base_geoqa; env=geoqa and env=easy_vqa start from it.
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
        description="Pretrain a small vision-language model on questions about diagrams and shapes.",
        epilog="Example: python -m freshper.policy.pretrain_questions --out outputs/base_geoqa --seed 1",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for weights, tokenizer and recipe.json (new or empty)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes weights, demonstrations and measurement (default 0)")
    parser.add_argument("--steps", type=int, help="optimiser steps (default: the recipe's)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    parser.add_argument("--episodes", type=int, default=512, help="evaluation episodes measured (default 512)")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out {args.out} is not empty")

    # After parsing, so that --help does not wait for torch.
    import numpy
    import tokenizers
    import torch
    import transformers
    from transformers.utils import logging

    from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
    from freshper.policy.tiny.vision_pretrain import pretrain_vision
    from freshper.policy.tiny.vision_questions import RECIPE, TASKS, VOCABULARY, QuestionPictures, question_texts

    logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    recipe = replace(RECIPE, seed=args.seed, **({} if args.steps is None else {"steps": args.steps}))
    policy = new_vision_policy(build_vision_tokenizer(question_texts(), VOCABULARY), recipe.seed)
    assert policy.vision is not None
    started, cpu_started = time.perf_counter(), time.process_time()

    def report(step: int, phase: str, loss: float, labels: float) -> None:
        if step % 20 == 0 or step == recipe.steps:
            seconds = time.perf_counter() - started
            print(
                f"step {step}/{recipe.steps} [{phase}] loss {loss:.4f}, labels {labels:.4f} ({seconds:.0f} s)",
                flush=True,
            )

    losses = pretrain_vision(recipe, QuestionPictures(TASKS, policy, recipe.seed), policy, report)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    policy.model.save_pretrained(args.out)
    policy.tokenizer.save_pretrained(args.out)
    policy.vision.processor.save_pretrained(args.out)
    print(f"measuring on {args.episodes} evaluation episodes ...", flush=True)
    last = losses[-20:]
    record = {
        "command": f"python -m freshper.policy.pretrain_questions --out <folder> --seed {args.seed}",
        "recipe": asdict(recipe),
        "envs": [config.model_dump() for config in TASKS],
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
        "cpu_seconds": round(cpu_seconds, 1),
        "final_loss": sum(last) / len(last),
        "measured": _measure(args.out, args.seed, args.episodes),
    }
    (args.out / "recipe.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"{args.out}: {policy.parameters} parameters, {recipe.steps} steps in {seconds:.0f} s, n={args.episodes}")


def _measure(folder: Path, seed: int, episodes: int) -> dict[str, dict[str, dict[str, float]]]:
    """Task -> sampled or greedy, with its own pictures or those of other items -> metrics of evaluation episodes."""
    import functools

    from freshper.config.model import ModelConfig
    from freshper.config.rollout import RolloutConfig
    from freshper.config.run import EvaluationConfig, RunConfig
    from freshper.envs.geo.env import GeoQA
    from freshper.learner.evaluation import episode_metrics, play
    from freshper.policy.load import load_policy
    from freshper.policy.tiny.vision_questions import TASKS, OtherPictures
    from freshper.rollout.collect import EnvPool

    measured: dict[str, dict[str, dict[str, float]]] = {}
    for env in TASKS:
        config = RunConfig(
            seed=seed,
            env=env,
            model=ModelConfig(kind="hf", path=str(folder), device="cpu"),
            rollout=RolloutConfig(max_new_tokens=8),
            evaluation=EvaluationConfig(episodes=episodes),
        )
        policy = load_policy(config.model)
        kinds = {
            "sampled": (False, GeoQA),
            "greedy": (True, GeoQA),
            "other_pictures": (False, OtherPictures),
            "other_pictures_greedy": (True, OtherPictures),
        }
        measured[env.name] = {
            name: episode_metrics(play(policy, config, 0, greedy, EnvPool(functools.partial(make, env))))
            for name, (greedy, make) in kinds.items()
        }
        for name, metrics in measured[env.name].items():
            print(f"{env.name}, {name}: success {metrics['success']:.3f}, valid {metrics['valid_rate']:.3f}")
    return measured


if __name__ == "__main__":
    main()
