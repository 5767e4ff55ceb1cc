"""Play the small model on evaluation maps: a plain loop for the pretraining report, not the rollout engine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from freshper.config.env import FrozenLakeConfig
from freshper.envs.answer import parse_action
from freshper.envs.expert import optimal_actions
from freshper.envs.frozen_lake import FrozenLakeText
from freshper.envs.lake_map import ACTIONS
from freshper.envs.seeds import eval_seed

_MAX_NEW_TOKENS = 8


@dataclass(frozen=True)
class Score:
    """What a policy reached on the first `episodes` evaluation seeds."""

    episodes: int
    """Number of evaluation episodes, one per seed."""
    success: float
    """Share of episodes that end on the goal."""
    valid: float
    """Share of turns whose action could be read."""
    optimal_by_turn: list[float]
    """Share of the replies of turn 1, 2, ... that are a shortest-path move (invalid replies count against it)."""
    chance_by_turn: list[float]
    """The same share for a uniformly random legal action in the same states."""


@torch.no_grad()
def reply_ids(
    model: Qwen2ForCausalLM, prompts: list[Tensor], greedy: bool, generator: torch.Generator
) -> list[list[int]]:
    """Continue each prompt up to the end marker at temperature 1 (or greedily), recomputing the prefix each time."""
    end = model.config.eos_token_id
    replies: list[list[int]] = [[] for _ in prompts]
    for _ in range(_MAX_NEW_TOKENS):
        # Longest first in slices of 64: right padding behind the last token cannot influence it under causal attention.
        open_ones = [i for i, reply in enumerate(replies) if not reply or reply[-1] != end]
        open_ones.sort(key=lambda i: len(prompts[i]), reverse=True)
        for begin in range(0, len(open_ones), 64):
            rows = open_ones[begin : begin + 64]
            texts = [torch.cat([prompts[i], torch.tensor(replies[i], dtype=torch.long)]) for i in rows]
            last = torch.tensor([len(text) - 1 for text in texts])
            hidden = model.model(pad_sequence(texts, batch_first=True), use_cache=False).last_hidden_state
            logits = model.lm_head(hidden[torch.arange(len(rows)), last])
            picked = (
                logits.argmax(-1) if greedy else torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
            )
            for i, token in zip(rows, picked.tolist(), strict=True):
                replies[i].append(token)
    return replies


def measure(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    config: FrozenLakeConfig,
    episodes: int,
    seed: int,
    greedy: bool = False,
) -> Score:
    """Play the first `episodes` evaluation seeds in lockstep, whole history as context; `seed` fixes the sampling."""
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    envs = [FrozenLakeText(config) for _ in range(episodes)]
    conversations, best = [], []
    for index, env in enumerate(envs):
        observation, info = env.reset(seed=eval_seed(config, index))
        conversations.append([{"role": "system", "content": info["system"]}, {"role": "user", "content": observation}])
        best.append(optimal_actions(env.desc))
    active = list(range(episodes))
    successes, valid_by_turn, optimal_by_turn, chance_by_turn = 0, [], [], []
    turns = 0
    while active:
        prompts = [
            torch.tensor(
                tokenizer.apply_chat_template(
                    conversations[i], add_generation_prompt=True, tokenize=True, return_dict=False
                )
            )
            for i in active
        ]
        still_active, valid, optimal, chance = [], 0, 0, 0.0
        for i, ids in zip(active, reply_ids(model, prompts, greedy, generator), strict=True):
            reply = str(tokenizer.decode(ids, skip_special_tokens=True))
            name = parse_action(reply, ACTIONS)
            good = best[i][envs[i].state]
            optimal += name is not None and ACTIONS.index(name) in good
            chance += len(good) / len(ACTIONS)
            observation, _, terminated, truncated, info = envs[i].step(reply)
            valid += info["valid"]
            successes += info["success"]
            if not (terminated or truncated):
                still_active.append(i)
                conversations[i] += [
                    {"role": "assistant", "content": reply},
                    {"role": "user", "content": observation},
                ]
        turns += len(active)
        valid_by_turn.append(valid)
        optimal_by_turn.append(optimal / len(active))
        chance_by_turn.append(chance / len(active))
        active = still_active
    return Score(episodes, successes / episodes, sum(valid_by_turn) / turns, optimal_by_turn, chance_by_turn)
