"""Everything that can be said against some runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.doctor.commands import command
from analysis.doctor.compare import check_block
from analysis.doctor.planned import check_plans
from analysis.doctor.single import check_run
from analysis.findings import ORDER, Finding
from analysis.load.study import Study
from analysis.tables.scores import Block, blocks


def diagnose(study: Study) -> list[Finding]:
    """Findings about runs, comparisons and coverage, worst first; each once."""
    found: list[Finding] = list(study.findings)
    for record in study.records:
        found += check_run(record)
    compared = blocks(study)
    for block in compared:
        found += check_block(block)
    found += _missing_arms(compared)
    found += check_plans(study)
    return sorted(dict.fromkeys(found), key=lambda finding: ORDER.index(finding.severity))


def _missing_arms(compared: Sequence[Block]) -> Iterator[Finding]:
    """Arms that have runs on one task and none on another."""
    for block in compared:
        for other in compared:
            if other.algorithm != block.algorithm or other.task == block.task:
                continue
            for arm, runs in block.arms.items():
                if arm not in other.arms:
                    text = f"{other.label}: no run of {arm}, which {block.label} has"
                    commands = tuple(command(record, {"env": other.task}) for record in runs[:1])
                    yield Finding("note", "missing cell", (), text, commands)


def report(findings: Sequence[Finding], runs: int) -> str:
    """What a person reads."""
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in ORDER}
    if not findings:
        return f"{runs} runs, nothing to report"
    told = ", ".join(f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in counts.items() if count)
    return "\n".join([f"{runs} runs: {told}", *(f"\n{finding}" for finding in findings)])


def markdown(findings: Sequence[Finding], runs: int) -> str:
    """The same as a Markdown page."""
    lines = ["# Doctor", "", f"{runs} runs."]
    for severity in ORDER:
        members = [finding for finding in findings if finding.severity == severity]
        if members:
            lines += ["", f"## {severity.capitalize()}s", ""]
        for finding in members:
            lines.append(f"- **{finding.kind}** {finding.text}")
            if finding.commands:
                lines += ["", "  ```", *(f"  {line}" for line in finding.commands), "  ```", ""]
    if not findings:
        lines += ["", "Nothing to report."]
    return "\n".join(lines) + "\n"
