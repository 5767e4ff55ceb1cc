"""The process that runs math-verify: one JSON request a line in, one JSON answer a line out (see `verifier.py`).

A process of its own, because a comparison can hang in one uninterruptible big-number operation: it can be ended from
outside. Imports nothing of freshper, so that it can be started as a plain file.
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder, whose file names are none of other packages' business

import json  # noqa: E402
import logging  # noqa: E402

_MEMORY = 4 * 2**30


def compare(answer: str, gold: str) -> bool:
    """math-verify's verdict. Both texts are boxed, so that the whole of each counts, not a number in it."""
    from math_verify import LatexExtractionConfig, parse, verify

    def read(text: str) -> list[object]:
        boxed = f"$\\boxed{{{text}}}$"
        return list(parse(boxed, [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None))

    wanted, given = read(gold), read(answer)
    return bool(wanted and given and verify(wanted, given, timeout_seconds=None))


def main() -> None:
    """Serve requests `[answer, gold]` until standard input closes."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, ValueError, OSError):  # not on this system: the time limit has to do
        pass
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    sys.stdout = sys.stderr
    import math_verify  # noqa: F401  # before the first request, whose time is measured

    print("ready", file=out, flush=True)
    for line in sys.stdin:
        answer, gold = json.loads(line)
        try:
            verdict = compare(answer, gold)
        except Exception:  # whatever a parser makes of a model's text, the answer is not right
            verdict = False
        print(json.dumps(verdict), file=out, flush=True)


if __name__ == "__main__":
    main()
