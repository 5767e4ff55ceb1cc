"""Train one run, or sweep with -m. Composes conf/ (Hydra), checks everything, then hands over to the trainer.

Run `python run.py` for FreshPER on text FrozenLake with the small model, `python run.py --help` for groups and keys,
`python run.py variant=on_policy seed=1 dry_run=true` to check and print and write nothing.
"""

import sys

from freshper.threads import before_torch

before_torch()  # spinning OpenMP barriers slow torch 10 to 100 times on shared cores


import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from freshper.config.cli import EXIT_CONFIG, dry_run, is_sweep, prepare
from freshper.config.errors import ConfigError
from freshper.config.load import load_config


def main() -> int:
    """Exit status: 0, 2 for a config that cannot be used, else the worst of the trainer's, or the sweep's."""
    statuses = [0]

    @hydra.main(version_base=None, config_path="conf", config_name="config")
    def job(composed: DictConfig) -> None:
        config = load_config(composed)
        if config.dry_run:
            print(dry_run(config))
            return
        from freshper.trainers import train

        statuses.append(train(config, [sys.argv[0], *HydraConfig.get().overrides.task]))

    try:
        text = prepare(sys.argv[1:])
        if is_sweep(sys.argv[1:]):
            from sweeps.hydra_sweeper import register

            register(sys.argv[1:])
        print(text) if text else job()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
