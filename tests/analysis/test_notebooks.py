"""Notebooks: stored without output, executed on small real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SMALL = ["iterations=4", "rollout.episodes=8", "env.max_turns=3", "evaluation.episodes=4", "evaluation.every=2"]
CELLS = [["variant=on_policy"], *(["variant=freshper", f"replay.decay.tau={tau}"] for tau in (2, 8))]


def test_there_are_three_without_output():
    assert [path.name[:3] for path in NOTEBOOKS] == ["01_", "02_", "03_"]
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs") and cell.get("execution_count") is None, path


@pytest.fixture(scope="module")
def real_runs(tmp_path_factory):
    """Six runs of `run.py`, four iterations each."""
    from freshper.config.compose import compose_config
    from freshper.trainers import train

    root = tmp_path_factory.mktemp("runs")
    for own in CELLS:
        for seed in (0, 1):
            overrides = [*SMALL, *own, f"seed={seed}", f"output.root={root}", "trainer.progress=off"]
            assert train(compose_config(overrides), ["run.py", *overrides]) == 0
    return root


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_execute(path, real_runs, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("FRESHPER_RUNS", str(real_runs))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    pictures = [
        o
        for cell in notebook.cells
        if cell.cell_type == "code"
        for o in cell.outputs
        if "image/png" in o.get("data", {})
    ]
    assert len(pictures) >= 3
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))
