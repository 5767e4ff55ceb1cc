"""Commands that run something again, made from what a run recorded of its own command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from analysis.load.planned import in_folder
from analysis.load.record import RunRecord

UNCERTAIN = "# no provenance.json: compare the other settings with config.yaml"


def command(record: RunRecord, changes: Mapping[str, str] | None = None) -> str:
    """`python run.py <overrides>` of a run, with some of them changed; a sweep (-m) if a change lists several values.

    Another seed or arm needs a folder of its own: an `output.name` that names the old seed is renamed, any other is
    left out, so that freshper makes a name.
    """
    changes = dict(changes or {})
    sweep = any("," in value for value in changes.values())
    provenance = record.provenance
    if provenance is None or "overrides" not in provenance:
        facts = record.facts
        known = {
            "env": facts.task,
            "algorithm": facts.algorithm,
            "variant": facts.variant,
            "seed": facts.seed,
            **changes,
        }
        overrides = [f"{key}={value}" for key, value in known.items() if value is not None]
        return f"{_line(overrides, sweep)}  {UNCERTAIN}"
    overrides = list(map(str, provenance["overrides"]))
    if changes and "output.name" not in changes:
        overrides = _rename(overrides, record, changes)
    kept = [text for text in overrides if _key(text) not in changes]
    line = _line([*kept, *(f"{key}={value}" for key, value in changes.items())], sweep)
    folder = provenance.get("cwd")
    return line if folder is None else in_folder(line, str(folder))


def _key(override: str) -> str:
    return override.lstrip("+").partition("=")[0]


def _line(overrides: list[str], sweep: bool) -> str:
    return shlex.join(["python", "run.py", *(["-m"] if sweep else []), *overrides])


def _rename(overrides: list[str], record: RunRecord, changes: Mapping[str, str]) -> list[str]:
    old, new = f"seed{record.facts.seed}", changes.get("seed")
    renamed = []
    for text in overrides:
        if _key(text) == "output.name":
            if new is None or "," in new or set(changes) != {"seed"} or old not in text:
                continue
            text = text.replace(old, f"seed{new}")
        renamed.append(text)
    return renamed
