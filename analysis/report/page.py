"""The page: findings, tables, figures, provenance, all in one file. Equal runs give equal bytes."""

from __future__ import annotations

import base64
import html
from collections import Counter
from collections.abc import Iterable, Sequence

from analysis.figures.pictures import Picture
from analysis.findings import ORDER, Finding
from analysis.load.study import Study
from analysis.tables.render import html_fragment
from analysis.tables.table import Table

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #202124; background: #fff;
  max-width: 64rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem;
  padding-top: .6rem; border-top: 2px solid #dadce0; } h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; list-style: none; } a { color: #174ea6; }
nav a { display: inline-block; padding: .3rem 0; }
figure { margin: 0 0 1.6rem; } .scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #dadce0;
  vertical-align: top; }
th { background: #f1f3f4; white-space: normal; vertical-align: bottom; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
/* the first column stays in sight and never fills a phone */
td:first-child, th:first-child { position: sticky; left: 0; background: #fff; min-width: 7rem; max-width: 14rem;
  white-space: normal; overflow-wrap: anywhere; }
th:first-child { background: #f1f3f4; }
img { display: block; width: 100%; height: auto; } img.single { max-width: 34rem; } img.double { min-width: 36rem; }
figcaption { max-width: 46rem; color: #3c4043; font-size: .9rem; margin-top: .4rem; }
figcaption ul { margin: .3rem 0; padding-left: 1.2rem; }
.finding { border-left: 4px solid #9aa0a6; padding: .2rem 0 .2rem .8rem; margin: .7rem 0; }
.error { border-color: #b3261e; } .warning { border-color: #f29900; }
pre { overflow-x: auto; background: #f1f3f4; padding: .5rem .7rem; margin: .3rem 0; font-size: .85rem; }
summary { cursor: pointer; padding: .3rem 0; }
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; } nav { display: none; } a { color: inherit; }
  .scroll { overflow: visible; } table { font-size: 7pt; } td:first-child, th:first-child { position: static; }
  th, td { white-space: normal; padding: .1rem .3rem; overflow-wrap: break-word; } td.number { white-space: nowrap; }
  figcaption { font-size: 8pt; }
  pre { white-space: pre-wrap; } img.single { max-width: 12cm; } img.double { min-width: 0; max-width: 17cm; }
  figure, .finding, tr { break-inside: avoid; } figure.table { break-inside: auto; }
  thead { display: table-header-group; }
  h2, h3 { break-after: avoid; }
  /* what is folded on the screen cannot be opened on paper */
  details::details-content { content-visibility: visible; height: auto; } summary { list-style: none; }
}
"""


def page(
    study: Study,
    findings: Sequence[Finding],
    tables: Sequence[Table],
    pictures: Iterable[Picture],
    provenance: Sequence[Table],
    left_out: Sequence[str],
) -> str:
    """The page.

    Args:
        study: the runs.
        findings: the doctor's, worst first.
        tables, pictures: in the order of the page; pictures may be made one at a time.
        provenance: tables of their own section.
        left_out: why tables and figures are not there; read after the pictures were made.
    """
    figures = "".join(map(figure_fragment, pictures))
    body = [
        f"<h1>{html.escape(_title(study))}</h1>",
        f"<p>{html.escape(_summary(study))}</p>",
        '<nav><ul><li><a href="#findings">Findings</a></li><li><a href="#tables">Tables</a></li>'
        '<li><a href="#figures">Figures</a></li><li><a href="#provenance-of-runs">Provenance</a></li></ul></nav>',
        '<section id="findings"><h2>What the doctor found</h2>',
        _findings(findings),
        '</section>\n<section id="tables"><h2>Tables</h2>',
        *map(html_fragment, tables),
        '</section>\n<section id="figures"><h2>Figures</h2>',
        figures or "<p>The runs allow no figure.</p>",
        _left_out(left_out),
        '</section>\n<section id="provenance-of-runs"><h2>Provenance</h2>',
        *map(html_fragment, provenance),
        "</section>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(_title(study))}</title>\n<style>{STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _title(study: Study) -> str:
    return f"Report on {len(study.records)} run{'' if len(study.records) == 1 else 's'}"


def _summary(study: Study) -> str:
    facts = [record.facts for record in study.records]
    tasks = sorted({one.task for one in facts})
    arms = sorted({one.arm for one in facts})
    states = Counter(record.state for record in study.records)
    told = ", ".join(f"{states[state]} {state}" for state in sorted(states))
    return f"Tasks: {', '.join(tasks)}. Arms: {', '.join(arms)}. States: {told}."


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<p>Nothing to report.</p>"
    parts = []
    for severity in ORDER:
        members = [finding for finding in findings if finding.severity == severity]
        shown = "\n".join(map(_finding, members))
        name = f"{len(members)} {severity}{'' if len(members) == 1 else 's'}"
        if members and severity == "note":  # good to know, and often many
            parts.append(f"<details><summary>{name}</summary>\n{shown}</details>")
        elif members:
            parts.append(f"<h3>{name}</h3>\n{shown}")
    return "\n".join(parts)


def _finding(finding: Finding) -> str:
    commands = "\n".join(map(html.escape, finding.commands))
    block = f"<pre>{commands}</pre>" if commands else ""
    return (
        f'<div class="finding {finding.severity}"><strong>{html.escape(finding.kind)}</strong> '
        f"{html.escape(finding.text)}{block}</div>"
    )


def figure_fragment(picture: Picture) -> str:
    """A <figure> with the picture inside."""
    data = base64.b64encode(picture.png).decode("ascii")
    size = "double" if picture.wide else "single"
    name, title, caption = (html.escape(text) for text in (picture.name, picture.title, picture.caption))
    return (
        f'<figure id="figure-{name}"><h3>{title}</h3>\n<div class="scroll">'
        f'<img class="{size}" alt="{title}" src="data:image/png;base64,{data}"></div>\n'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _left_out(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    told = f"{len(reasons)} tables and figures that these runs do not allow"
    return f"<details><summary>{told}</summary><ul>{items}</ul></details>"
