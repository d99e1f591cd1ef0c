"""The command line: what it prints, its exit status, and errors without tracebacks."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fastmm as mm
from fastmm.cli import app
from fastmm.info import info

KEYS = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def archive(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


def test_paper_writes_a_report_and_exits_with_0(invoke, tmp_path):
    done = invoke("paper", "figure1b", "--out", tmp_path / "report", "--quick")
    assert done.exit_code == 0
    assert "All 5 claims hold." in done.stdout
    assert (tmp_path / "report" / "index.html").exists()


def test_paper_exits_with_1_when_a_claim_fails(invoke, tmp_path, monkeypatch):
    true = mm.paper.figure1b()
    first, *rest = true.claims
    false = replace(true, claims=(replace(first, expected=[1, 1, 1, 1, 0, 0]), *rest))
    monkeypatch.setitem(mm.paper.FIGURES, "figure1b", lambda: false)
    done = invoke("paper", "figure1b", "--out", tmp_path, "--quick")
    assert done.exit_code == 1
    assert "FAILS" in done.stdout
    assert "4 of 5 claims hold." in done.stdout


def test_paper_names_the_allowed_figures(invoke, tmp_path):
    done = invoke("paper", "figure7", "--out", tmp_path)
    assert done.exit_code == 2
    for name in mm.paper.FIGURES:
        assert name in done.output


def test_paper_help_names_every_figure(invoke):
    done = invoke("paper", "--help")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in mm.paper.FIGURES)


def test_paper_refuses_a_folder_that_is_a_file(invoke, tmp_path):
    (tmp_path / "taken").write_text("here")
    done = invoke("paper", "figure1b", "--quick", "--out", tmp_path / "taken")
    assert done.exit_code == 2
    assert "error: --out" in done.output


def test_info_prints_versions_and_build(invoke):
    done = invoke("info")
    assert done.exit_code == 0
    for name, value in info().items():
        assert name in done.stdout
        assert value in done.stdout


def test_version(invoke):
    assert invoke("--version").stdout == f"fastmm {mm.__version__}\n"


def test_solve_prints_the_certificate_of_selected_tokens(invoke, archive):
    done = invoke("solve", archive(K=KEYS, selected=[0]))
    assert done.exit_code == 0
    assert "optimal" in done.stdout
    assert "-0.0990099" in done.stdout
    assert "0.995037" in done.stdout
    assert "1 at the margin" in done.stdout


def test_solve_selects_the_best_tokens_of_a_problem(invoke, archive):
    arrays = {"X": KEYS, "Y": [1.0], "v": [0.0, 1.0]}
    assert "-0.0990099" in invoke("solve", archive(**arrays)).stdout
    assert "[1. 0.]" in invoke("solve", archive(**arrays, selected=[1])).stdout


def test_solve_takes_rows(invoke, archive):
    done = invoke("solve", archive(A=[[2.0, 1.0], [1.0, 2.0]], b=[1.0, 1.0]))
    assert done.exit_code == 0
    assert "0.3333333" in done.stdout


def test_solve_counts_the_problems_of_a_batch(invoke, archive):
    done = invoke("solve", archive(K=KEYS, selected=[[0], [1], [2]]))
    assert done.exit_code == 0
    assert "3: 3 optimal" in done.stdout


def test_solve_exits_with_1_for_an_infeasible_program(invoke, archive):
    done = invoke("solve", archive(K=[[[0.0, 0.0], [0.0, 0.0]]], selected=[0]))
    assert done.exit_code == 1
    assert "infeasible" in done.stdout


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"K": KEYS}, "lacks selected"),
        ({"K": KEYS, "selected": [0], "colour": [1]}, "has unknown colour"),
        ({"K": KEYS, "selected": [5]}, "allowed: 0..2"),
        ({"X": KEYS, "Y": [0.0], "v": [0.0, 1.0]}, "Y"),
        ({"K": KEYS * 1j, "selected": [0]}, "complex"),
    ],
)
def test_solve_tells_what_is_wrong_with_the_arrays(invoke, archive, arrays, told):
    done = invoke("solve", archive(**arrays))
    assert done.exit_code == 2
    assert "error: " in done.output
    assert told in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("content", [None, b"", b"not an archive"])
def test_solve_tells_what_is_wrong_with_the_file(invoke, tmp_path, content):
    path = tmp_path / "data.npz"
    if content is not None:
        path.write_bytes(content)
    done = invoke("solve", path)
    assert done.exit_code == 2
    assert f"error: {path}" in done.output


def test_solve_refuses_a_single_array(invoke, tmp_path):
    np.save(tmp_path / "one.npy", KEYS)
    assert invoke("solve", tmp_path / "one.npy").exit_code == 2


def test_the_command_runs_in_a_process_of_its_own(tmp_path):
    command = [sys.executable, "-m", "fastmm.cli", "paper", "nothing", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "figure1a" in done.stderr
    assert "Traceback" not in done.stderr
