"""`python -m analysis report <runs>`."""

from __future__ import annotations

import argparse
import sys

from analysis.commands.common import cache_folder, load_runs
from analysis.doctor.diagnose import diagnose
from analysis.figures.options import FigureOptions
from analysis.figures.pictures import make_pictures
from analysis.findings import ORDER, AnalysisError
from analysis.report.page import page
from analysis.report.provenance import provenance_tables
from analysis.tables.build import TableOptions, build_tables
from analysis.tables.scores import check_arms
from freshper.records.atomic import write_text


def run(options: argparse.Namespace) -> int:
    """Write one HTML page with everything that the runs allow, and say where it is."""
    if options.out.is_dir():
        raise AnalysisError(f"--out {options.out}: is a folder; expected a file, such as {options.out / 'report.html'}")
    study = load_runs(options, ages=True)
    arms = tuple(options.arms)
    for name in check_arms(study, arms):
        print(f"warning: no run of the arm {name}", file=sys.stderr)
    findings = diagnose(study)
    tables, left_out = build_tables(study, ["all"], TableOptions(None, options.metric, options.interval, arms=arms))
    how = FigureOptions(options.metric, None, options.interval, arms)
    pictures = make_pictures(study, ["all"], how, left_out, pdf=False, cache=cache_folder(options))
    text = page(study, findings, tables, pictures, provenance_tables(study), left_out)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.out, text)
    counts = [f"{sum(f.severity == severity for f in findings)} {severity}s" for severity in ORDER]
    print(f"{len(study.records)} runs; the doctor found {', '.join(counts)}")
    print(f"report: {options.out}")
    return 0
