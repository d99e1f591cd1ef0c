"""Small max-margin programs with answers known in rational numbers, judged from the data."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from margin_verify import att_rows, one, verify

import fastmm as mm

FOLDER = Path(__file__).parent / "cases"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def of_kind(*kinds):
    return [name for name, case in CASES.items() if case["kind"] in kinds]


def floats(value):
    return np.array(value, dtype=object).astype(float) if np.ndim(value) else float(value)


def judge(result, expect, A, b, rows=one):
    """A result against what a case expects."""
    status = result.status.name
    assert status in (expect.get("allow_status") or [expect["status"]])
    assert result.optimal == (status == "optimal")
    if status not in ("optimal", "infeasible"):
        assert np.isnan(result.w).all()
        return
    verify(A, b, result, rows=rows, opinion=False)
    if status == "infeasible":
        return
    w = result.w
    if isinstance(expect.get("p"), list):
        want = floats(expect["p"])
        assert np.abs(w - want).max() <= expect["rtol"] * np.abs(want).max()
        if "componentwise_rtol" in expect:
            np.testing.assert_allclose(w, want, rtol=expect["componentwise_rtol"])
    if isinstance(expect.get("direction"), list):
        np.testing.assert_allclose(result.direction, expect["direction"], atol=expect["rtol"])
    if expect.get("margin") is not None:
        margin = float(expect["margin"])
        assert result.margin == margin or math.isclose(result.margin, margin, rel_tol=1e-8)
    active = np.flatnonzero(rows(result.neighbors))
    if isinstance(expect.get("active_rows"), list):
        assert active.tolist() == sorted(expect["active_rows"])
    assert len(active) == expect.get("n_active", len(active))


@pytest.mark.parametrize("name", of_kind("qp_rows"))
@pytest.mark.parametrize("solver", ["active-set", "osqp"])
def test_rows(name, solver):
    """Any solver gives the known answer, or an allowed honest refusal."""
    case = CASES[name]
    A, b = floats(case["input"]["rows"]), floats(case["input"]["rhs"])
    judge(mm.min_norm(A, b, throw=False, solver=solver), case["expect"], A, b)


def test_ten_thousand_active_copies():
    """Two distinct rows, five thousand times each: all are neighbors, the dual mass of each kind is 1/9."""
    A = np.repeat([[2.0, 1.0], [1.0, 2.0]], 5000, axis=0)
    result = mm.min_norm(A, 1.0)
    judge(result, CASES["qp_10000_active_copies"]["expect"], A, np.ones(10000))
    np.testing.assert_allclose([result.dual[:5000].sum(), result.dual[5000:].sum()], [1 / 9, 1 / 9], rtol=1e-14)


def test_two_rows_in_a_thousand_dimensions():
    """p is 1/500 at even places and exactly 0 at odd ones."""
    A = np.vstack([np.ones(1000), np.where(np.arange(1000) % 2 == 0, 1.0, -1.0)])
    result = mm.min_norm(A, 1.0)
    judge(result, CASES["qp_d1000_two_rows"]["expect"], A, np.ones(2))
    np.testing.assert_allclose(result.w[::2], 0.002, rtol=1e-12)
    assert not result.w[1::2].any()


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_a_reused_workspace_remembers_nothing(start):
    """Five programs one after the other, also as one batch in which a worker keeps its workspace."""
    case = CASES["qp_update_then_resolve"]
    previous = None
    problems = case["input"]["problems"]
    for problem, status, p in zip(problems, case["expect"]["status"], case["expect"]["p"], strict=True):
        A, b = floats(problem["rows"]), floats(problem["rhs"])
        previous = mm.min_norm(A, b, throw=False, start=previous if start == "warm" else None)
        judge(previous, {"status": status, "p": p, "rtol": case["expect"]["rtol"]}, A, b)
    batch = mm.min_norm([q["rows"] for q in problems], [q["rhs"] for q in problems], throw=False, threads=1)
    assert [mm.Status(code).name for code in batch.status] == case["expect"]["status"]


@pytest.mark.parametrize("name", of_kind("att_svm"))
def test_att(name):
    """Keys of any dtype, padding and relaxed inputs."""
    case = CASES[name]
    given = case["input"]
    lengths = given.get("lengths") or [len(tokens) for tokens in given["K"]]
    T, d = max(map(len, given["K"])), len(given["K"][0][0])
    K = np.full((len(lengths), T, d), np.nan)
    for i, tokens in enumerate(given["K"]):
        K[i, : len(tokens)] = floats(tokens)
    K = K.astype(given.get("K_dtype", "float64"))
    relaxed = np.isin(np.arange(len(K)), given.get("relaxed_sequences", []))
    result = mm.att_svm(K, given["alpha"], relaxed=relaxed, lengths=lengths, throw=False)
    A, b, rows = att_rows(K, given["alpha"], relaxed, lengths)
    judge(result, case["expect"], A, b, rows)


@pytest.mark.parametrize("name", of_kind("label_svm_no_bias"))
def test_label(name):
    """Contradictions, one class, a point at the origin, features of very different scale."""
    case = CASES[name]
    X, y = floats(case["input"]["X"]), floats(case["input"]["y"])
    judge(mm.label_svm(X, y, throw=False), case["expect"], y[:, None] * X, np.ones(len(y)))


def test_certificate_refuses_a_feasible_point_that_is_not_optimal():
    """Feasible and stationary is not enough: the gap shows it."""
    case = CASES["kkt_feasible_but_not_optimal"]
    given, expect = case["input"], case["expect"]
    found = mm.certify(given["rows"], given["rhs"], given["candidate_p"], given["candidate_dual"])
    assert not found.ok
    assert found.primal == expect["primal_violation"]
    assert found.stationarity == expect["stationarity_residual"]
    # the gap of primal and dual objective is (w·w - b·y), here relative to the sum of both
    w, y = np.array(given["candidate_p"]), np.array(given["candidate_dual"])
    assert math.isclose(found.gap, expect["gap"] / (w @ w + y.sum()), rel_tol=1e-14)


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"time_limit": 1e-9}])
def test_limits_show_in_the_status(limit):
    """A limit is never called a solution, and the best point stays at hand."""
    given = CASES["qp_more_rows_than_variables"]["input"]
    result = mm.min_norm(given["rows"], given["rhs"], throw=False, **limit)
    assert result.status.name in limit
    assert not result.optimal
    assert np.isnan(result.w).all()
    assert np.isnan(result.certificate.primal)
    if "max_iter" in limit:
        assert np.isfinite(result.best).all()
