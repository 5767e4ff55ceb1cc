"""Write docs/paper_settings.md: for each task of the paper, the text's value, the public runs' value and ours.

    python docs/paper_settings.py             write the page
    python docs/paper_settings.py --check     exit status 1 if the page is not what would be written

The first two come from docs/paper_settings.csv, ours from the configs that `env=<task> scale=paper` resolves to.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from freshper.config.compose import compose_config
from freshper.config.schema import group_options, resolved

FOLDER = Path(__file__).parent
PAGE = FOLDER / "paper_settings.md"
ROWS = FOLDER / "paper_settings.csv"
TITLES = {
    "nq_search": "NQ Search", "aime": "AIME", "sokoban_simple": "Sokoban Simple", "sokoban_hard": "Sokoban Hard",
    "frozenlake": "FrozenLake, text", "frozenlake_vlm": "FrozenLake, images", "geoqa": "GeoQA",
    "cliffwalking": "CliffWalking (control)", "gsm8k": "GSM8K (control)",
}  # fmt: skip
"""Task (option of `env`) -> heading, in the paper's order."""
HEAD = """# The paper's settings

What `scale=paper` sets, beside what the paper's text (arXiv 2604.16918) and its public run configs state. "-": not
stated. Made by `python docs/paper_settings.py` from `docs/paper_settings.csv` and the resolved configs; edit those.

```
python run.py env=gsm8k scale=paper dry_run=true                  # the whole resolved config of a task; writes nothing
python run.py -m env=gsm8k,aime scale=paper dry_run=true          # several
python run.py -m +experiment=main_table scale=paper dry_run=true  # the main table, with the controls that it lacks
```

**Rule.** The text's value is set, unless only that of the public runs can have given the reported results, or the text
states none. So GSM8K has the 7B model (94 % before training), 512 episodes where values are multiples of 1/512,
Sokoban Hard twenty turns (a floor of -2.0), and the image tasks 400 iterations (curves past 200). The tasks' own values
are in `conf/scale/for_env/paper/<env>.yaml`, with the overrides that give the public runs'; what all tasks share is
in `conf/scale/paper.yaml`. Anything chosen by hand wins: `model=...`, `variant=...`, every key.

**Not reproduced.** vLLM, several GPUs per run, rollouts that are one iteration old; weights are float32 with bfloat16
products instead of bf16. Replay here follows the text. What the public code does instead (uniform replay without the
decay switch, rewards normalised within the replayed batch, a schedule that returns to its peak) is not in these tables.
"""


def page() -> str:
    """The whole page.

    Raises:
        KeyError: a row of the table names a key that its task's config does not have.
    """
    with ROWS.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    here = [task for task in TITLES if task in group_options()["env"]]
    shared = [_table([line for line in lines if line["row"] == "all"], task) for task in here]
    if len(set(shared)) != 1:
        raise ValueError("docs/paper_settings.csv: a setting of the row `all` differs between tasks")
    parts = [HEAD, f"## All tasks\n\n{shared[0]}"]
    for task in here:
        table = _table([line for line in lines if line["row"] == task], task)
        parts.append(f"## {TITLES[task]}\n\n`python run.py env={task} scale=paper`\n\n{table}")
    return "\n".join(parts)


def _table(lines: list[dict[str, str]], task: str) -> str:
    """A Markdown table; ours from the task's FreshPER arm, or from the arm that is named behind `@`."""
    shown = ["| setting | text | public runs | here | key |", "| --- | --- | --- | --- | --- |"]
    configs: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        key, _, arm = line["key"].partition(" @ ")
        arm = arm or "freshper"
        if arm not in configs:
            configs[arm] = resolved(compose_config([f"env={task}", "scale=paper", f"variant={arm}"]))
        ours, name = _value(configs[arm], key), f"`{key}`" + (f" ({arm})" if arm != "freshper" else "")
        shown.append(f"| {line['setting']} | {line['text']} | {line['public runs']} | {ours} | {name} |")
    return "\n".join(shown) + "\n"


def _value(config: Mapping[str, Any], key: str) -> str:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def main() -> int:
    """Command line; see the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    text = page()
    if parser.parse_args().check:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
