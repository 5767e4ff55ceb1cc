"""A corridor served by OpenEnv: the player stands at 3, the goal is a place from 0 to 6 that the seed draws.

    <python with openenv> tests/envs/openenv/corridor.py <sessions>     # prints its port

The environment has nothing of freshper in it: the other tests play it as they would any server.
"""

import random
import socket
import sys
from typing import Literal
from uuid import uuid4

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Move(Action):
    """A step."""

    direction: Literal["Left", "Right", "Jump"]


class Place(Observation):
    """What the player is told."""

    message: str = ""
    steps: int = 0


class Corridor(Environment):
    """Reward 1 at the goal, which ends the episode; a jump breaks the environment."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(episode_id=str(uuid4()), step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, length: int = 7, **kwargs: object) -> Place:
        self.place, self.goal = 3, random.Random(seed).choice([k for k in range(length) if k != 3])
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return self._tell(0.0, False)

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: object) -> Place:
        self.place += {"Left": -1, "Right": 1}[action.direction]
        self._state.step_count += 1
        return self._tell(float(self.place == self.goal), self.place == self.goal)

    @property
    def state(self) -> State:
        return self._state

    def _tell(self, reward: float, done: bool) -> Place:
        text = f"You are at {self.place}, the goal is at {self.goal}. <answer>Left</answer> or <answer>Right</answer>?"
        return Place(message=text, steps=self._state.step_count, reward=reward, done=done)


if __name__ == "__main__":
    app = create_fastapi_app(Corridor, Move, Place, max_concurrent_envs=int(sys.argv[1]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free.listen()
        print(free.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[free])
