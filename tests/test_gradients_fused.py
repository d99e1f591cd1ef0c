"""All gradients in one pass: heads, matrices, factors, Hessians, outputs, against the reference and differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_helpers import LOSSES, dec_gradient, inputs_of, problem_of, rng, with_queries

import fastmm as mm
from fastmm import _core, reference


def near(got, want, rtol, atol=0.0):
    """Equal up to rtol of the largest entry."""
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    assert got.shape == want.shape
    assert np.all(np.abs(got - want) <= rtol * np.abs(want).max(initial=0) + atol), (got, want)


def split(seed, d_q, d, m):
    r = rng(seed, d_q, d, m)
    return r.normal(size=(d_q, m)), r.normal(size=(d, m))


def by_reference(problem, Q, K, loss, v=None):
    """The reference, input by input, because lengths differ."""
    X, _, _, Y, own_v = inputs_of(problem)
    v = own_v if v is None else v
    Z = np.broadcast_to(np.asarray(problem.Z, float), (problem.n, problem.Z.shape[-1]))
    parts = [
        reference.matrix_gradients(X[i][None], Y[i : i + 1], v, Z[i : i + 1], Q, K, loss) for i in range(problem.n)
    ]
    return [sum(part[k] for part in parts) / problem.n for k in range(5)]


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 20)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(LOSSES),
    st.integers(0, 2**16),
)
def test_tied_and_untied_values_agree(shape, ragged, narrow, loss, seed):
    """Values that are the keys are read once; the gradients are those of a copy of them."""
    problem = problem_of(seed, *shape, ragged=ragged, dtype=np.float32 if narrow else np.float64)
    copy = mm.Problem(problem.X, problem.Y, problem.v, K=np.array(problem.X), lengths=problem.lengths)
    r = rng(seed)
    p, v = r.normal(size=shape[2]), r.normal(size=shape[2])
    tied = mm.loss_and_grad(problem, p, v, loss=loss, wrt=("p", "v"))
    untied = mm.loss_and_grad(copy, p, v, loss=loss, wrt=("p", "v"))
    rtol = 1e-6 if narrow else 1e-13
    near(tied.loss, untied.loss, rtol)
    near(tied.grad["p"], untied.grad["p"], rtol, 1e-16)
    near(tied.grad["v"], untied.grad["v"], rtol, 1e-16)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 9, 8), (4, 3, 17), (5, 20, 64)])
def test_a_head_given_is_the_head_of_a_problem(shape, ragged, dtype):
    """Scores made in the pass have the bits of a Problem's own: loss and gradient in p are the same to the bit."""
    problem = problem_of(1, *shape, ragged=ragged, dtype=dtype)
    v = rng(2).normal(size=shape[2]).astype(dtype)
    other = mm.Problem(problem.X, problem.Y, v, lengths=problem.lengths)
    p = rng(3).normal(size=shape[2])
    for names in ("p", ("p", "v")):
        got = mm.loss_and_grad(problem, p, v, wrt=names)
        want = mm.loss_and_grad(other, p, wrt="p")
        assert got.loss == want.loss
        assert np.array_equal(got.grad["p"], want.grad["p"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alignment_does_not_change_a_bit(dtype):
    """Wherever in a cache line the rows begin, the answer is the same."""
    n, T, d = 5, 9, 72
    problem = problem_of(4, n, T, d, dtype=dtype)
    p, found = rng(5).normal(size=d), []
    for offset in range(20):
        memory = np.full(n * T * d + 64, np.nan, dtype=dtype)
        start = (-memory.ctypes.data // memory.itemsize) % (64 // memory.itemsize) + offset
        X = memory[start : start + n * T * d].reshape(n, T, d)
        X[...] = problem.X
        moved = mm.Problem(X, problem.Y, problem.v)
        assert moved.X.ctypes.data == X.ctypes.data
        out = mm.loss_and_grad(moved, p, wrt=("p", "v"))
        found.append((out.loss.tobytes(), out.grad["p"].tobytes(), out.grad["v"].tobytes(), moved.scores.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_factors_agree_with_the_reference(loss, shared, ragged):
    """Gradients in W, Q, K and v at the same point agree with the NumPy definition."""
    problem = with_queries(6, 4, 5, 6, shared=shared, ragged=ragged)
    Q, K = split(7, 3, 6, 2)
    v = rng(8).normal(size=6)
    for head in (None, v):
        risk, grad_W, grad_Q, grad_K, grad_v = by_reference(problem, Q, K, loss, head)
        out = mm.loss_and_grad(problem, v=head, W=(Q, K), loss=loss, wrt=("K", "v", "Q"))
        whole = mm.loss_and_grad(problem, v=head, W=Q @ K.T, loss=loss, wrt=("W", "v"))
        near(out.loss, risk, 1e-12)
        # the definition subtracts nearly equal numbers: how much it loses varies with the order in which BLAS adds
        near(out.grad["Q"], grad_Q, 1e-10)
        near(out.grad["K"], grad_K, 1e-10)
        near(out.grad["v"], grad_v, 1e-11)
        near(whole.grad["W"], grad_W, 1e-10)
        near(whole.grad["v"], grad_v, 1e-11)


@pytest.mark.parametrize("loss", LOSSES)
def test_factors_are_the_slopes_of_the_risk(loss):
    """Central differences of the risk reproduce the gradients in Q and K entry by entry."""
    problem = with_queries(9, 3, 4, 3)
    at = dict(zip("QK", split(10, 3, 3, 2), strict=True))
    grad = mm.loss_and_grad(problem, W=(at["Q"], at["K"]), loss=loss, wrt=("Q", "K")).grad
    for name in "QK":
        for place in np.ndindex(at[name].shape):
            h = np.zeros_like(at[name])
            h[place] = 1e-5
            moved = [{**at, name: at[name] + s * h} for s in (1, -1)]
            up, down = (mm.loss_and_grad(problem, W=(m["Q"], m["K"]), loss=loss, wrt="Q").loss for m in moved)
            assert (up - down) / 2e-5 == pytest.approx(grad[name][place], rel=1e-7, abs=1e-9)


def test_factors_broadcast():
    """A batch of factors on a batch of heads: every element as alone, to the bit."""
    r = rng(11)
    X, Y, Z = r.normal(size=(2, 3, 4)), np.ones(2), r.normal(size=(2, 5))
    v, Q, K = r.normal(size=(3, 4)), r.normal(size=(2, 1, 5, 2)), r.normal(size=(4, 2))
    out = mm.loss_and_grad(mm.Problem(X, Y, v, Z=Z), W=(Q, K), wrt=("Q", "K"))
    for a, b in np.ndindex(2, 3):
        alone = mm.loss_and_grad(mm.Problem(X, Y, v[b], Z=Z), W=(Q[a, 0], K), wrt=("Q", "K"))
        assert np.array_equal(out.grad["Q"][a, b], alone.grad["Q"])
        assert np.array_equal(out.grad["K"][a, b], alone.grad["K"])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [False, True])
def test_small_matrix_gradients_keep_their_digits(loss, shared):
    """Where W is so large that the gradient is about 1e-300, its entries are right to the last digits."""
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0], [-1.0, 0.0]]])
    v, Y = np.array([1.0, 0.25]), np.array([1.0, -1.0])
    Z = np.array([[1.0, 2.0]]) if shared else np.array([[1.0, 2.0], [2.0, 1.0]])
    problem = mm.Problem(X, Y, v, Z=Z)
    W = np.array([[230.0, 2.0], [230.0, 1.0]])
    want = np.zeros((2, 2))
    for i in range(2):
        z = Z[0 if shared else i]
        own = dec_gradient(X[i : i + 1], problem.scores[i : i + 1], W.T @ z, loss)[3]
        want += np.outer(z, [float(x) for x in own]) / 2
    assert 0 < np.abs(want).max() < 1e-290
    got = mm.loss_and_grad(problem, W=W, loss=loss, wrt="W").grad["W"]
    assert np.all(np.abs(got - want) <= 1e-12 * np.abs(want))
    identity = mm.loss_and_grad(problem, W=(W, np.eye(2)), loss=loss, wrt=("Q", "K")).grad
    assert np.all(np.abs(identity["Q"] - want) <= 1e-12 * np.abs(want))
    assert np.all(np.abs(identity["K"] - want.T @ W) <= 1e-11 * np.abs(want.T @ W))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(1, 1, 1, False), (3, 4, 3, False), (4, 9, 8, True), (5, 17, 33, True)], ids=str)
def test_hessian_vector_agrees_with_the_reference(shape, loss):
    """H u agrees with the NumPy definition and with central differences of the gradient, and H is symmetric."""
    n, T, d, ragged = shape
    problem = problem_of(12, n, T, d, ragged=ragged)
    r = rng(13)
    p, u, w = r.normal(size=(3, d))
    got = mm.hessian_vector(problem, p, u, loss)
    _, K, S, _, _ = inputs_of(problem)
    parts = [reference.hessian_vector(k[None], s[None], p, u, loss) for k, s in zip(K, S, strict=True)]
    near(got, sum(parts) / n, 1e-11, 1e-15)
    up, down = (mm.loss_and_grad(problem, p + s * 1e-5 * u, loss=loss).grad["p"] for s in (1, -1))
    near(got, (up - down) / 2e-5, 1e-6, 1e-8)
    assert w @ got == pytest.approx(u @ mm.hessian_vector(problem, p, w, loss), rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
def test_hessian_vector_far_out(loss):
    """At a point where the Hessian is about 1e-300, H u is the derivative of the factored gradient."""
    problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    p, u = np.array([690.0, 0.0]), np.array([1.0, 3.0])
    # two tokens: minus the gradient is |ell'(z)| s (1 - s) k with 1 - s = e^-690, whose derivative along u is minus it
    gradient = mm.loss_and_grad(problem, p, loss=loss).grad["p"]
    assert 0 < np.abs(gradient).max() < 1e-299
    got = mm.hessian_vector(problem, p, u, loss)
    assert np.all(np.abs(got + gradient) <= 1e-12 * np.abs(gradient))


def test_hessian_vector_of_flat_scores_is_zero():
    """Equal scores: the risk does not depend on p, and the product is exactly zero."""
    problem = mm.Problem(np.ones((2, 3, 1)), np.ones(2), np.ones(1), K=rng(14).normal(size=(2, 3, 4)))
    assert not mm.hessian_vector(problem, rng(15).normal(size=4), np.ones(4)).any()


@pytest.mark.parametrize("loss", LOSSES)
def test_hessian_vector_merges_equal_keys(loss):
    """Tokens with the top token's key and other scores act as one of their mean score, as in the gradient."""
    K = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]])
    scores = np.array([[1.0, 0.5, 0.25, -0.25]])
    problem = mm.Problem(scores[..., None], [1.0], [1.0], K=K)
    p, u = np.array([2.0, 1.0]), np.array([0.5, -1.0])
    near(mm.hessian_vector(problem, p, u, loss), reference.hessian_vector(K, scores, p, u, loss), 1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_everything_has_the_same_bits_for_any_threads(dtype):
    """Gradients in v, W, Q, K and H u of a large problem do not depend on the number of threads."""
    problem = with_queries(16, 1001, 17, 33, dtype=dtype)
    Q, K = split(17, 3, 33, 2)
    v, p, u = rng(18).normal(size=(3, 33))

    def everything(threads):
        a = mm.loss_and_grad(problem, v=v, W=(Q, K), wrt=("Q", "K", "v"), threads=threads)
        b = mm.loss_and_grad(problem, W=Q @ K.T, wrt="W", threads=threads)
        h = mm.hessian_vector(problem, p, u, threads=threads)
        return [a.loss, *a.grad.values(), b.grad["W"], h]

    want = everything(1)
    for threads in (2, 3, 7):
        for x, y in zip(everything(threads), want, strict=True):
            assert x.tobytes() == y.tobytes()


def test_risk_margins_and_saturation():
    """Saturation is the least of the largest weights; the log of the excess loss agrees with its definition."""
    for loss in LOSSES:
        problem = problem_of(19, 6, 5, 4)
        p = rng(20).normal(size=4)
        weights = mm.attention(problem.K, p)
        out = extras(problem, p, loss)
        assert out["saturation"][0] == pytest.approx(weights.max(axis=-1).min(), rel=1e-13)
        margins = (weights * problem.scores).sum(axis=-1)
        assert out["log_excess"][0] == pytest.approx(reference.log_excess(problem.scores, margins, loss), abs=1e-11)


def extras(problem, p, loss):
    zero, six = np.zeros(1, dtype=np.int64), {"logistic": 0, "exponential": 1, "correlation": 2}
    return _core.gradient(
        problem.K[None], zero, None, None, scores=problem.scores[None], score_index=zero,
        p=np.asarray(p, float)[None], p_index=zero, loss=six[loss], extras=True, threads=1,
    )  # fmt: skip


@pytest.mark.parametrize("size", [1.0, 30.0, 700.0, 5000.0, 1e6])
def test_the_excess_loss_never_underflows(size):
    """Two tokens with scores 1 and 0 and logits L and 0: the deficit is 1 / (1 + e^L), far beyond the doubles too."""
    problem = mm.Problem([[[1.0], [0.0]]], [1.0], [1.0])
    log_deficit = -size - np.log1p(np.exp(-size))
    got = extras(problem, [size], "correlation")["log_excess"][0]
    assert got == pytest.approx(log_deficit, rel=1e-14)
    far = size > 30
    want = log_deficit - 1 if far else np.log(np.exp(-1) * np.expm1(np.exp(log_deficit)))
    assert extras(problem, [size], "exponential")["log_excess"][0] == pytest.approx(want, rel=1e-13)
    want = log_deficit - np.log1p(np.e) if far else np.log(np.log1p(np.expm1(np.exp(log_deficit)) / (1 + np.e)))
    assert extras(problem, [size], "logistic")["log_excess"][0] == pytest.approx(want, rel=1e-13)


def test_the_excess_loss_of_the_best_is_zero():
    """Equal scores, or one token, leave nothing: -inf exactly."""
    for problem in (problem_of(21, 3, 1, 2), mm.Problem(np.ones((2, 3, 1)), [1, -1], [2.0], K=np.ones((2, 3, 2)))):
        for loss in LOSSES:
            assert extras(problem, [0.3, 0.1], loss)["log_excess"][0] == -np.inf


# Outputs into given arrays


def test_out_is_filled_and_returned():
    """The arrays of `out` hold the gradients, to the bit, and are those in .grad."""
    problem = problem_of(22, 3, 4, 5, dtype=np.float32)
    p = rng(23).normal(size=5)
    want = mm.loss_and_grad(problem, p, wrt=("p", "v"))
    out = {name: np.empty(5, np.float32) for name in "pv"}
    got = mm.loss_and_grad(problem, p, wrt=("p", "v"), out=out)
    for name in "pv":
        assert got.grad[name] is out[name]
        assert np.array_equal(out[name], want.grad[name])


def locked(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({}, r"^out: got \[\]; allowed: a dict with an array for each of \['p'\]"),
        ([np.zeros(4)], r"^out: got list"),
        ({"p": np.zeros(4), "v": np.zeros(4)}, r"^out: got \['p', 'v'\]"),
        ({"p": np.zeros(5)}, r"^out\['p'\]: got float64 of shape \(5,\); allowed: .* float64 array of shape \(4,\)"),
        ({"p": np.zeros(4, np.float32)}, r"^out\['p'\]: got float32"),
        ({"p": np.zeros(8)[::2]}, r"^out\['p'\]: got"),
        ({"p": locked(np.zeros(4))}, r"^out\['p'\]: got"),
        ({"p": [0.0] * 4}, r"^out\['p'\]: got list"),
    ],
)
def test_out_that_does_not_fit_is_refused(out, message):
    """Anything but the right arrays is a ValueError that names the entry."""
    with pytest.raises(ValueError, match=message):
        mm.loss_and_grad(problem_of(24, 2, 3, 4), wrt="p", out=out)


def small():
    return mm.Problem(np.ones((2, 3, 4)), np.ones(2), np.ones(4), Z=np.ones((2, 5)))


REFUSED = {
    "factors of a matrix": (lambda: mm.loss_and_grad(small(), W=np.ones((5, 4)), wrt="Q"), "^wrt: got 'Q' without"),
    "matrix of factors": (
        lambda: mm.loss_and_grad(small(), W=(np.ones((5, 2)), np.ones((4, 2))), wrt="W"),
        r"^wrt: got 'W' with factors",
    ),
    "three factors": (lambda: mm.loss_and_grad(small(), W=(1, 2, 3), wrt="Q"), "^W: got a tuple of 3"),
    "Q": (lambda: mm.loss_and_grad(small(), W=(np.ones((4, 2)), np.ones((4, 2))), wrt="Q"), "^Q: got shape"),
    "K": (lambda: mm.loss_and_grad(small(), W=(np.ones((5, 2)), np.ones((4, 3))), wrt="Q"), "^K: got shape"),
    "no columns": (lambda: mm.loss_and_grad(small(), W=(np.ones((5, 0)), np.ones((4, 0))), wrt="Q"), "^Q: got shape"),
    "u": (lambda: mm.hessian_vector(small(), np.ones(4), np.ones(5)), r"^u: got shape \(5,\)"),
    "u overflows": (
        lambda: mm.hessian_vector(mm.Problem([[[9.0], [0.0]]], [1], [1.0]), [1.0], [1e308]),
        "^p and u: the logits K p or K u leave",
    ),
    "W overflows": (
        lambda: mm.loss_and_grad(mm.Problem([[[9.0], [0.0]]], [1], [1.0], Z=[1.0]), W=[[1e308]], wrt="W"),
        "^W: the logits X W' z leave",
    ),
    "W overflows for one": (
        lambda: mm.loss_and_grad(
            mm.Problem(np.array([[[9.0], [0.0]]] * 2), [1, 1], [1.0], Z=[[1.0], [0.0]]), W=[[1e308]], wrt=("W", "v")
        ),
        "^W: the logits X W' z leave",
    ),
    "scores overflow": (lambda: mm.loss_and_grad(small(), v=np.full(4, 1e308)), r"^scores: entry \[0, 0\] is inf"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    """Names, shapes and numbers that do not fit are a ValueError that names the argument."""
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()
