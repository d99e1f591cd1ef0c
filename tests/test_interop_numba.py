"""The C++ kernels called from users' own Numba functions."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

numba = pytest.importorskip("numba", reason="fastmm.interop.numba needs Numba")

import fastmm as mm  # noqa: E402
import fastmm.interop.numba as kernels  # noqa: E402


@numba.njit
def of_p(K, scores, p, loss, lengths):
    gradient, direction = np.empty_like(p), np.empty_like(p)
    risk, log_norm = kernels.gradient_p(K, scores, p, gradient, direction, loss, lengths)
    return risk, log_norm, gradient, direction


@numba.njit
def of_pv(K, X, Y, p, v, loss, lengths):
    gp, dp, gv, dv = np.empty_like(p), np.empty_like(p), np.empty_like(v), np.empty_like(v)
    risk, log_p, log_v = kernels.gradient_pv(K, X, Y, p, v, gp, dp, gv, dv, loss, lengths)
    return risk, log_p, log_v, gp, dp, gv, dv


def data(n=5, T=7, d=9, d_v=4, seed=0):
    random = np.random.default_rng(seed)
    K, X = random.standard_normal((n, T, d)), random.standard_normal((n, T, d_v))
    return K, X, random.choice([-1.0, 1.0], n), random.standard_normal(d), random.standard_normal(d_v)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "correlation"])
@pytest.mark.parametrize("size", [1.0, 300.0])
@pytest.mark.parametrize("ragged", [False, True])
def test_same_bits_as_from_python(loss, size, ragged):
    K, X, Y, p, v = data()
    p = size * p
    lengths = np.array([7, 1, 3, 7, 2]) if ragged else None
    if ragged:
        for i, length in enumerate(lengths):
            K[i, length:] = X[i, length:] = np.nan
    problem = mm.Problem(X, Y, v, K=K, lengths=lengths)
    code = {"logistic": kernels.LOGISTIC, "exponential": kernels.EXPONENTIAL, "correlation": kernels.CORRELATION}[loss]
    want = mm.loss_and_grad(problem, p, loss=loss)
    risk, log_norm, gradient, direction = of_p(K, problem.scores, p, code, lengths)
    assert risk == want.loss
    np.testing.assert_array_equal(gradient, want.grad["p"])
    expected = mm.descent_direction(problem, p, loss)
    np.testing.assert_array_equal(direction, expected.direction)
    assert log_norm == expected.log_norm

    want = mm.loss_and_grad(problem, p, v, loss=loss, wrt=("p", "v"))
    risk, log_p, log_v, gp, dp, gv, dv = of_pv(K, X, Y, p, v, code, lengths)
    assert risk == want.loss
    np.testing.assert_array_equal(gp, want.grad["p"])
    np.testing.assert_array_equal(gv, want.grad["v"])
    for log, unit, natural in ((log_p, dp, gp), (log_v, dv, gv)):
        np.testing.assert_allclose(-np.exp(log) * unit, natural, rtol=1e-13, atol=0)


def test_read_only_arrays_and_shapes_that_change():
    for n, T, d in ((1, 1, 1), (3, 2, 5), (200, 9, 16), (3, 2, 5)):
        K, X, Y, p, v = data(n, T, d, d)
        problem = mm.Problem(X, Y, v, K=K)
        for array in (K, p):
            array.setflags(write=False)
        risk, _, gradient, _ = of_p(K, problem.scores, p, 0, None)
        want = mm.loss_and_grad(problem, p)
        assert risk == want.loss
        np.testing.assert_array_equal(gradient, want.grad["p"])


def test_parallel_loop_over_problems():
    @numba.njit(parallel=True)
    def runs(K, scores, steps, lr):
        batch, _, _, d = K.shape
        out = np.zeros((batch, d))
        for b in numba.prange(batch):
            gradient, direction = np.empty(d), np.empty(d)
            for _ in range(steps):
                kernels.gradient_p(K[b], scores[b], out[b], gradient, direction)
                out[b] += lr * direction
        return out

    random = np.random.default_rng(5)
    problem = mm.Problem(random.standard_normal((40, 4, 5, 6)), np.ones((40, 4)), random.standard_normal((40, 6)))
    want = mm.descend(problem, steps=50, lr=0.1)
    np.testing.assert_allclose(runs(problem.K, problem.scores, 50, 0.1), want.p, rtol=1e-10, atol=1e-12)


def test_overflow_is_nan_and_zero_gradient_has_no_direction():
    K, X, Y, p, v = data()
    scores = mm.Problem(X, Y, v, K=K).scores
    risk, log_norm, _, _ = of_p(K * 1e300, scores, p * 1e10, 0, None)
    np.testing.assert_array_equal([risk, log_norm], np.nan)
    risk, log_norm, gradient, direction = of_p(K, np.ones_like(scores), p, 0, None)
    assert log_norm == -np.inf
    np.testing.assert_array_equal([gradient, direction], 0.0)
    np.testing.assert_allclose(risk, np.log1p(np.exp(-1.0)), rtol=1e-15)


def test_wrong_arrays_are_refused_before_anything_runs():
    K, X, Y, p, v = data()
    scores = mm.Problem(X, Y, v, K=K).scores
    refused = numba.core.errors.TypingError
    with pytest.raises(refused, match=r"K: got array.float32, 3d, C.*C-contiguous array of float64 with 3 axes"):
        of_p(K.astype(np.float32), scores, p, 0, None)
    with pytest.raises(refused, match="K: got"):
        of_p(np.asfortranarray(K), scores, p, 0, None)
    with pytest.raises(refused, match="lengths: got"):
        of_p(K, scores, p, 0, np.ones(5, np.int32))
    with pytest.raises(ValueError, match="scores: its shape is not"):
        of_p(K, scores[:, :6].copy(), p, 0, None)
    with pytest.raises(ValueError, match="their length is not d"):
        of_p(K, scores, p[:5].copy(), 0, None)
    with pytest.raises(ValueError, match="from 1 to the number of tokens"):
        of_p(K, scores, p, 0, np.array([1, 2, 3, 8, 1]))
    with pytest.raises(ValueError, match="want one an input"):
        of_p(K, scores, p, 0, np.array([1, 2]))
    with pytest.raises(ValueError, match="LOGISTIC, EXPONENTIAL, CORRELATION"):
        of_p(K, scores, p, 3, None)
    with pytest.raises(ValueError, match="at least one of each"):
        of_p(K[:0], scores[:0], p, 0, None)
    with pytest.raises(ValueError, match="X: its inputs or tokens"):
        of_pv(K, X[:, :3].copy(), Y, p, v, 0, None)
    with pytest.raises(ValueError, match="Y: want one label"):
        of_pv(K, X, Y[:2].copy(), p, v, 0, None)
    with pytest.raises(ValueError, match="their length is not d_v"):
        of_pv(K, X, Y, p, v[:2].copy(), 0, None)


def test_from_python_it_says_what_to_call():
    K, X, Y, p, v = data()
    with pytest.raises(TypeError, match=r"call fastmm\.loss_and_grad"):
        kernels.gradient_p(K, X, p, p, p)
    with pytest.raises(TypeError, match=r"call fastmm\.loss_and_grad"):
        kernels.gradient_pv(K, X, Y, p, v, p, p, v, v)


def test_users_cached_function_works_in_the_next_process(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        textwrap.dedent(
            """
            import numba, numpy as np
            import fastmm.interop.numba as kernels

            @numba.njit(cache=True)
            def risk(K, scores, p):
                gradient, direction = np.empty_like(p), np.empty_like(p)
                return kernels.gradient_p(K, scores, p, gradient, direction)[0]

            K = np.arange(12.0).reshape(2, 3, 2)
            print(repr(risk(K, K[:, :, 0].copy(), np.ones(2))), sum(risk.stats.cache_hits.values()))
            """
        )
    )
    command = [sys.executable, script]
    answers = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert answers[0][0] == answers[1][0]
    assert [hits for _, hits in answers] == ["0", "1"]
