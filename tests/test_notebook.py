"""The notebook that ships: it runs, its outputs are those of a run, and they name no machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra 'dev')")

NOTEBOOK = Path(__file__).parent.parent / "data" / "pages" / "order_back_office" / "walkthrough.ipynb"


def outputs(notebook) -> list[str]:
    """What each code cell printed."""
    return [
        "".join(out["text"] for out in cell.outputs if out.output_type == "stream") for cell in notebook.cells if cell.cell_type == "code"
    ]


def test_its_stored_outputs_are_complete_small_and_name_no_machine():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 30_000
    assert not re.search(r"file://|(?<![\w:/.<])/\w+/", text)  # no absolute path
    assert [bool(output) for output in outputs(notebook)] == [False, True, True, True, True, True, True, False]


@pytest.mark.browser
def test_it_runs_from_capture_to_changes(chromium):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra 'dev')")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra 'dev')")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    _, captured, regions, digest, changes, refused, found, _ = outputs(notebook)
    assert "RootWebArea 'Orders" in captured
    assert len(regions.splitlines()) >= 8
    assert "regions open | " in digest
    assert "value: 'DHL' -> 'GLS'" in changes
    assert "was not shown yet: read it first with view_region(" in refused
    assert "Low stock" in found
