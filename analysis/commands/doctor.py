"""`python -m analysis doctor <runs>`."""

from __future__ import annotations

import argparse

from analysis.commands.common import load_runs, say_where
from analysis.doctor.diagnose import diagnose, markdown, report
from analysis.findings import EXIT_FINDINGS
from freshper.records.atomic import write_text


def run(options: argparse.Namespace) -> int:
    """Print findings with the commands that mend them; exit status 1 if there is an error among them."""
    study = load_runs(options, allow_duplicates=True, ages=True)
    findings = diagnose(study)
    print(report(findings, len(study.records)))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        page = options.out / "doctor.md"
        write_text(page, markdown(findings, len(study.records)))
        say_where([page], options.out)
    return EXIT_FINDINGS if any(finding.severity == "error" for finding in findings) else 0
