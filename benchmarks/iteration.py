"""Seconds per training iteration, split by part, beside transformers' generate and TRL's GRPO trainer; and what the
other algorithms cost beside REINFORCE++.

    python benchmarks/iteration.py                          # one thread, 64 FrozenLake episodes of up to 8 turns
    python benchmarks/iteration.py --threads 1 2 --no-trl   # what a second thread brings
    pip install trl && python benchmarks/iteration.py       # with TRL

`generate` plays the same episodes the plain way: one `model.generate` call per turn on the whole conversation,
left-padded. TRL plays one turn: each of its sequences gets a prompt as long as all the prompt text of one of our
episodes and samples as many tokens as our episodes do on average, so the trained and the processed tokens are the
same. The algorithms take turns in one process, with a learning rate of almost zero, so that all of them play the same
policy. All run on the same number of threads. Ratio > 1 means that freshper is faster. Beside the equal batch, TRL is
measured at 8 sequences a step, where overhead per step weighs more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from freshper.threads import before_torch  # noqa: E402

PARTS = ("rollout", "update", "replay_update", "replay_bookkeeping", "rest")
ALGORITHMS: dict[str, dict[str, object]] = {
    "reinforce_pp": {},
    "grpo": {"name": "grpo", "whiten": False},
    "ppo, shared trunk": {"name": "ppo"},
    "ppo, separate critic": {"name": "ppo", "critic": {"kind": "separate"}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="torch threads, one measurement each")
    parser.add_argument("--episodes", type=int, default=64, help="episodes per iteration")
    parser.add_argument("--turns", type=int, default=8, help="most turns per episode")
    parser.add_argument("--iterations", type=int, default=12, help="iterations measured (after 3 for warm-up)")
    parser.add_argument("--no-trl", action="store_true", help="leave the peer out")
    parser.add_argument("--worker", choices=("freshper", "algorithms", "generate", "trl"), help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker == "freshper":
        return _freshper(options)
    if options.worker == "algorithms":
        return _algorithms(options)
    if options.worker == "generate":
        return _generate(options)
    if options.worker == "trl":
        return _trl(options)
    for threads in options.threads:
        print(f"threads {threads}, {options.episodes} episodes of up to {options.turns} turns, model tiny", flush=True)
        ours = _worker("freshper", threads, options)
        _worker("algorithms", threads, options)
        plain = _worker("generate", threads, options)
        print(f"  ratio generate / freshper, rollout: {plain[0] / ours[3]:.1f}", flush=True)
        if options.no_trl:
            continue
        for sequences in (options.episodes, 8):
            step = _worker("trl", threads, options, ours, sequences)
            print(f"  ratio TRL / freshper per trained token: {step[0] / ours[0]:.1f}", flush=True)
    return None


def _worker(
    name: str, threads: int, options: argparse.Namespace, ours: list[float] | None = None, sequences: int | None = None
) -> list[float]:
    """Run one side in a process of its own (their thread settings do not mix); returns its last line's numbers."""
    command = [
        sys.executable,
        __file__,
        "--worker",
        name,
        "--threads",
        str(threads),
        "--episodes",
        str(sequences or options.episodes),
    ]
    command += ["--turns", str(options.turns), "--iterations", str(options.iterations)]
    if ours:
        command += ["--tokens", str(round(ours[1])), str(round(ours[2]))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    *lines, last = done.stdout.strip().splitlines()
    print("\n".join(lines))
    return [float(value) for value in last.split()]


def _freshper(options: argparse.Namespace) -> None:
    before_torch()
    import torch

    torch.set_num_threads(options.threads[0])
    from freshper.config.run import RunConfig
    from freshper.learner.learner import Learner
    from freshper.policy.load import load_policy

    config = RunConfig.model_validate(
        {
            "iterations": 1000,
            "env": {"family": "frozen_lake", "max_turns": options.turns},
            "rollout": {"episodes": options.episodes},
        }
    )
    learner = Learner(config, load_policy(config.model), None)
    rows = [learner.iterate().metrics for _ in range(3 + options.iterations)][3:]
    whole = statistics.median(row["time/iteration"] for row in rows)
    for part in PARTS:
        seconds = statistics.median(row[f"time/{part}"] for row in rows)
        count = config.replay.batches_per_iteration if part == "replay_update" else 1
        note = f"  ({count} updates of {seconds / count:.3f} s)" if count > 1 else ""
        print(f"  {part:<20} {seconds:8.4f} s  {100 * seconds / whole:5.1f} %{note}")
    print(f"  {'iteration':<20} {whole:8.4f} s   median of {len(rows)}; {learner.policy.parameters:,} parameters")
    # One fresh batch through rollout and update is what TRL's step does.
    sampled = statistics.mean(
        row["counts/tokens"] - before["counts/tokens"] for before, row in zip(rows, rows[1:], strict=False)
    )
    total = statistics.mean(row["fresh/tokens"] for row in rows)
    step = statistics.median(row["time/rollout"] + row["time/update"] for row in rows)
    per_episode = sampled / options.episodes
    print(
        f"  tokens per episode   {total:.0f}, of which {per_episode:.1f} sampled; on-policy step {step:.3f} s, "
        f"{1e6 * step / sampled:.0f} us per trained token"
    )
    rollout = statistics.median(row["time/rollout"] for row in rows)
    print(step / sampled, total - per_episode, per_episode, rollout)


def _algorithms(options: argparse.Namespace) -> None:
    """Whole iterations (K = 2) of every algorithm in turn."""
    before_torch()
    import torch

    torch.set_num_threads(options.threads[0])
    from freshper.config.run import RunConfig
    from freshper.learner.learner import Learner
    from freshper.policy.critic import load_critic
    from freshper.policy.load import load_policy

    learners = {}
    for label, algorithm in ALGORITHMS.items():
        config = RunConfig.model_validate(
            {
                "iterations": 1000,
                "env": {"family": "frozen_lake", "max_turns": options.turns},
                "rollout": {"episodes": options.episodes, "group_size": 8 if "grpo" in label else 1},
                "algorithm": {**algorithm, "learning_rate": 1e-12},
            }
        )
        policy = load_policy(config.model)
        critic = load_critic(config.algorithm.critic, config.model, policy) if "ppo" in label else None
        learners[label] = Learner(config, policy, None, critic)
    rows = [
        {label: learner.iterate().metrics for label, learner in learners.items()} for _ in range(options.iterations)
    ]
    seconds = {label: [row[label]["time/iteration"] for row in rows[2:]] for label in learners}
    for label, times in seconds.items():
        ratios = [mine / base for mine, base in zip(times, seconds["reinforce_pp"], strict=True)]
        print(
            f"  {label:<20} {statistics.median(times):8.4f} s  ratio to reinforce_pp {statistics.median(ratios):.2f}  "
            f"(median of {len(times)} pairs)"
        )
    print(statistics.median(seconds["reinforce_pp"]))


def _generate(options: argparse.Namespace) -> None:
    """The same episodes with one `model.generate` per turn: what a loop without a lasting cache costs."""
    before_torch()
    import torch

    torch.set_num_threads(options.threads[0])
    from freshper.config.envs.frozen_lake import FrozenLakeConfig
    from freshper.config.model import ModelConfig
    from freshper.envs.make import make_env
    from freshper.envs.seeds import train_seed
    from freshper.policy.chat import encode
    from freshper.policy.load import load_policy

    config = FrozenLakeConfig(max_turns=options.turns)
    policy = load_policy(ModelConfig())
    envs = [make_env(config) for _ in range(options.episodes)]
    torch.manual_seed(0)
    times = []
    for repeat in range(1 + max(3, options.iterations // 2)):
        started = time.perf_counter()
        texts = []
        for k, env in enumerate(envs):
            observation, info = env.reset(seed=train_seed(config, 0, repeat * options.episodes + k))
            texts.append(policy.chat.first_prompt(info["system"], observation))
        conversations, active = encode(policy.tokenizer, texts), list(range(options.episodes))
        while active:
            longest = max(len(conversations[k]) for k in active)
            pads = [longest - len(conversations[k]) for k in active]
            ids = torch.tensor([[0] * pad + conversations[k] for pad, k in zip(pads, active, strict=True)])
            mask = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in pads])
            output = policy.model.generate(
                ids, attention_mask=mask, max_new_tokens=8, do_sample=True, top_k=0, pad_token_id=0
            )
            still, later = [], []
            for k, reply in zip(active, output[:, longest:].tolist(), strict=True):
                end = next((place for place, token in enumerate(reply) if token in policy.end_ids), len(reply))
                observation, _, terminated, truncated, _ = envs[k].step(policy.tokenizer.decode(reply[:end]))
                conversations[k] = conversations[k] + reply[:end]
                if not (terminated or truncated):
                    still.append(k)
                    later.append(policy.chat.next_prompt(observation))
            for k, new in zip(still, encode(policy.tokenizer, later), strict=True):
                conversations[k] = conversations[k] + new
            active = still
        times.append(time.perf_counter() - started)
    seconds = statistics.median(times[1:])
    print(
        f"  generate, per turn   {seconds:8.4f} s   rollout of the same number of episodes, median of {len(times) - 1}"
    )
    print(seconds)


def _trl(options: argparse.Namespace) -> None:
    before_torch()
    import torch

    torch.set_num_threads(options.threads[0])
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from freshper.policy.load import TINY_FOLDER, load_tokenizer

    prompt_tokens, sampled = options.tokens
    tokenizer = load_tokenizer(str(TINY_FOLDER))
    model = AutoModelForCausalLM.from_pretrained(TINY_FOLDER, dtype=torch.float32)
    model.generation_config.eos_token_id = None  # every completion has the same length, as intended
    prompt = tokenizer.decode([tokenizer.convert_tokens_to_ids("_")] * prompt_tokens)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *args, **kwargs):
            self.started = time.perf_counter()

        def on_step_end(self, *args, **kwargs):
            times.append(time.perf_counter() - self.started)

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=options.episodes,
            num_generations=min(8, options.episodes),
            max_completion_length=sampled,
            max_steps=3 + options.iterations,
            beta=0.0,
            learning_rate=5e-4,
            gradient_checkpointing=False,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1000,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [float(len(set(text)) % 7) for text in completions],
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [prompt] * 512}),
            processing_class=tokenizer,
            callbacks=[Clock()],
        )
        stdout = sys.stdout
        sys.stdout = sys.stderr
        trainer.train()
        sys.stdout = stdout
    step = statistics.median(times[3:])
    trained = options.episodes * sampled
    print(
        f"  TRL GRPO             {step:8.4f} s   median of {len(times) - 3} steps of {options.episodes} x "
        f"({prompt_tokens} prompt + {sampled} sampled) tokens, {1e6 * step / trained:.0f} us per trained token"
    )
    print(step / trained)


if __name__ == "__main__":
    main()
