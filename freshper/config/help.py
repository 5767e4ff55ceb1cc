"""The parts of `python run.py --help` that come from conf/ and from the schema's own docs."""

from __future__ import annotations

import shutil
import textwrap

from omegaconf import OmegaConf

from freshper.config.run import RunConfig
from freshper.config.schema import CONF_DIR, group_options, resolved, schema_fields

MAIN_KEYS = (
    "seed",
    "iterations",
    "dry_run",
    "resume",
    "output.root",
    "model.path",
    "model.device",
    "trainer.threads",
    "rollout.episodes",
    "rollout.group_size",
    "algorithm.learning_rate",
    "algorithm.epochs",
    "algorithm.ratio_anchor",
    "algorithm.group.zero_variance",
    "algorithm.gae_over",
    "algorithm.critic.kind",
    "replay.batches_per_iteration",
    "replay.capacity",
    "replay.unit",
    "replay.age_unit",
    "replay.priority.base",
    "replay.priority.alpha",
    "replay.priority.epsilon",
    "replay.priority.initial",
    "replay.decay.law",
    "replay.decay.tau",
    "replay.decay.placement",
    "replay.is_correction.enabled",
    "replay.is_correction.beta",
    "replay.is_correction.beta_final",
    "replay.is_correction.normalise",
    "replay.eviction",
    "evaluation.every",
    "evaluation.episodes",
)


def register_help() -> None:
    """Make `${freshper_groups:}` and `${freshper_keys:}` of conf/hydra/help/freshper.yaml resolve.

    Hydra resolves its own section many times while it composes, so this must be cheap: values are the schema's.
    """
    OmegaConf.register_new_resolver("freshper_groups", groups_text, replace=True, use_cache=True)
    OmegaConf.register_new_resolver("freshper_keys", lambda: keys_text(RunConfig()), replace=True, use_cache=True)


def help_text() -> str:
    """The whole help. Hydra would print the same, half a second later: it lists its own groups first."""
    from freshper.config.compose import compose_config

    config = compose_config()
    register_help()
    OmegaConf.register_new_resolver("freshper_keys", lambda: keys_text(config), replace=True)
    loaded = OmegaConf.load(CONF_DIR / "hydra" / "help" / "freshper.yaml")
    return str(OmegaConf.create({"hydra": {"help": loaded}}).hydra.help.template)


def groups_text() -> str:
    """One line per group: its options, the default one marked."""
    loaded = OmegaConf.to_container(OmegaConf.load(CONF_DIR / "config.yaml"), resolve=False)
    assert isinstance(loaded, dict)
    chosen = {key: entry[key] for entry in loaded["defaults"] if isinstance(entry, dict) for key in entry}
    lines = []
    for group, options in group_options().items():
        shown = [f"{option}*" if chosen.get(group) == option else option for option in options]
        name = group if group in chosen else f"+{group}"
        lines += _entry(f"{name:<11} ", ", ".join(shown))
    return "\n".join(lines)


def keys_text(config: RunConfig) -> str:
    """The main keys with their values in `config` and the docs of their fields."""
    lines = []
    defaults = resolved(config)
    for key in MAIN_KEYS:
        value: object = defaults
        for part in key.split("."):
            assert isinstance(value, dict)
            value = value[part]
        default = "null" if value is None else str(value).lower() if isinstance(value, bool) else value
        doc = " ".join((schema_fields()[key].description or "").split())
        lines += _entry(f"{key:<33}", f"{doc} [{default}]")
    return "\n".join(lines)


def _entry(head: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((120, 24)).columns, 120)
    indent = " " * (len(head) + 2)
    return textwrap.wrap(text.replace("$", ""), width, initial_indent=f"  {head}", subsequent_indent=indent)
