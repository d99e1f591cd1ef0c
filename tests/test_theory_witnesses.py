"""Every witness holds, has its table and draws its picture."""

import json

import pytest
from rich.console import Console

import fastmm as mm
from fastmm.paper import THEOREMS


@pytest.mark.parametrize("name", THEOREMS)
def test_witness(name):
    """All expected numbers are reached; a row a claim; the picture has axes."""
    found = mm.theory.witness(name)
    failed = [row for row in found.table if not row["ok"]]
    assert not failed
    assert found.ok
    assert found.name == name
    assert len(found.table) == len(found.claims) >= 3
    json.dumps(found.table)
    assert found.figure().axes


def test_unknown_names():
    """Theorem 8 is not there and says why."""
    with pytest.raises(ValueError, match=r"name: got 'theorem8'.*nonlinear heads"):
        mm.theory.witness("theorem8")
    with pytest.raises(ValueError, match=r"name: got 'theorem9'; allowed: lemma1, lemma2"):
        mm.theory.witness("theorem9")


def test_report_of_a_theorem(tmp_path):
    """`fastmm paper` writes witnesses as it does figures."""
    report = mm.paper.main(["lemma1"], out=tmp_path, quick=True, console=Console(quiet=True))
    assert report.ok
    assert (tmp_path / "index.html").exists()
