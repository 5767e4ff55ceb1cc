"""Settings of environments that an OpenEnv server plays."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Float, Int


class OpenEnvConfig(EnvSection):
    """An environment behind an OpenEnv server, a session for each episode side by side (not from the paper)."""

    family: Literal["openenv"] = "openenv"
    """Which environment class this section configures."""
    name: str = "openenv"
    """Task name used for run folders, tables and figures."""
    url: str = "http://127.0.0.1:8000"
    """Address of the server, without `/ws`."""
    action_key: str | None = None
    """Field of the server's action that takes the text; null: the only one that it requires."""
    action_from: Literal["reply", "answer"] = "reply"
    """`reply`: the whole reply is the text; `answer`: what stands in its first `<answer>...</answer>`, without which
    the turn is invalid and the server is not asked."""
    observation_key: str | None = None
    """Field of the server's observation that is the user message (as JSON if it is no text); null: the only field, or
    the only one of text."""
    reset: dict[str, Any] | None = None
    """Further arguments of the server's reset, the same for every episode; `seed` is always sent."""
    unseeded: Literal["refuse", "accept"] = "refuse"
    """What to do if two resets with one seed begin differently. To `accept` means that the environment draws instances
    by itself: evaluation repeats none and keeps none apart, and the members of a group do not share one."""
    max_turns: Int = Field(50, ge=1)
    """Turns (assistant messages) before the episode is cut, besides any limit of the environment's own."""
    format_penalty: Float = Field(0.0, le=0)
    """Added to the *training* reward of a turn whose action is missing or not accepted."""
    system: str = ""
    """System message of every episode."""
    success_above: Float = 0.0
    """Where the server's metadata has no `success`, an episode that is done with a return above this is one."""
    timeout: Float = Field(30.0, gt=0)
    """Seconds that the server may take to connect, and for each answer."""
    retries: Int = Field(5, ge=0)
    """Further attempts to begin an episode, half a second, a second, ... apart."""
