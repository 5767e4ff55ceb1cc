"""One table in four formats. Equal tables give equal bytes."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping
from pathlib import Path

from analysis.tables.table import Cell, Table
from freshper.records.atomic import write_text

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$",
    "∞": r"$\infty$", "·": r"$\cdot$", "→": r"$\to$", "–": "--",
}  # fmt: skip


def markdown(table: Table) -> str:
    """GitHub's table syntax, title above, caption and notes below."""

    def row(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    lines = [f"### {table.title}", "", row(list(table.header)), row(["---"] * len(table.header))]
    lines += [row([cell.shown() for cell in cells]) for cells in table.rows]
    lines += ["", table.caption]
    lines += [f"- {note}" for note in table.notes]
    # A list needs a blank line before it.
    if table.notes:
        lines.insert(len(lines) - len(table.notes), "")
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A booktabs table; needs `\\usepackage{booktabs}`."""
    columns = "".join("r" if _numeric(table, index) else "l" for index in range(len(table.header)))
    notes = " ".join(table.notes)
    caption = escape_latex(f"{table.title}. {table.caption}" + (f" {notes}" if notes else ""))
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{caption}}}",
        f"  \\label{{tab:{table.name}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        "    " + " & ".join(escape_latex(name) for name in table.header) + r" \\",
        r"    \midrule",
    ]
    lines += ["    " + " & ".join(_latex_cell(cell) for cell in cells) + r" \\" for cells in table.rows]
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = cell.shown()
    if cell.value is None:
        return escape_latex(text)
    # A hyphen before a digit is a minus sign, not a dash.
    parts = [f"${part}$" if part[:1] == "-" and part[1:2].isdigit() else escape_latex(part) for part in text.split(" ")]
    return " ".join(parts)


def escape_latex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def _numeric(table: Table, column: int) -> bool:
    return any(row[column].value is not None for row in table.rows)


def csv_text(table: Table) -> str:
    """Full precision; a column with intervals or n is followed by columns `... low`, `... high`, `... n`, `... note`.

    The first line is the header. Empty fields are values that there are not; a reason (`no runs`) stands as text.
    """
    wide = [any(row[i].low is not None or row[i].n is not None for row in table.rows) for i in range(len(table.header))]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    header: list[str] = []
    for name, expand in zip(table.header, wide, strict=True):
        header += [name, *(f"{name} {part}" for part in ("low", "high", "n", "note"))] if expand else [name]
    writer.writerow(header)
    for cells in table.rows:
        row: list[str] = []
        for cell, expand in zip(cells, wide, strict=True):
            row.append(cell.text if cell.value is None else repr(float(cell.value)))
            if expand:
                row += ["" if bound is None else repr(float(bound)) for bound in (cell.low, cell.high)]
                row += ["" if cell.n is None else str(cell.n), cell.suffix.strip(" ;,")]
        writer.writerow(row)
    return buffer.getvalue()


def html_fragment(table: Table) -> str:
    """A <figure> with table, caption and notes; no style of its own."""
    out = [f'<figure class="table" id="table-{html.escape(table.name)}">', f"<h3>{html.escape(table.title)}</h3>"]
    out += ['<div class="scroll"><table>', "<thead><tr>"]
    out += [f'<th scope="col">{html.escape(name)}</th>' for name in table.header]
    out += ["</tr></thead>", "<tbody>"]
    for cells in table.rows:
        row = []
        for cell in cells:
            kind = ' class="number"' if cell.value is not None else ""
            row.append(f"<td{kind}>{html.escape(cell.shown())}</td>")
        out.append(f"<tr>{''.join(row)}</tr>")
    out += ["</tbody></table></div>", f"<figcaption>{html.escape(table.caption)}"]
    if table.notes:
        out.append("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in table.notes) + "</ul>")
    out.append("</figcaption></figure>")
    return "\n".join(out) + "\n"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.45 system-ui, sans-serif; margin: 1rem; color: #202124; }}
figure {{ margin: 0; }} .scroll {{ overflow-x: auto; }} table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #dadce0; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
figcaption {{ max-width: 45rem; color: #3c4043; }}
</style></head><body>
{body}</body></html>
"""


def html_page(table: Table) -> str:
    """A page of its own."""
    return PAGE.format(title=html.escape(table.title), body=html_fragment(table))


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "md": markdown, "tex": latex, "csv": csv_text, "html": html_page,
}  # fmt: skip


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write a table in every format as `<folder>/<name>.<ending>`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, render in FORMATS.items():
        path = folder / f"{table.name}.{ending}"
        write_text(path, render(table))
        paths.append(path)
    return paths
