"""Loss, gradients and the descent direction against the reference, finite differences and decimal arithmetic."""

import numpy as np
import pytest
from kernel_helpers import DIGITS, LOSSES, dec_gradient, inputs_of, problem_of, reference_of, rng, ulps

import fastmm as mm
from fastmm import reference

# n, T, d, d_k (None: keys are the tokens), ragged; tails of vectors and tiles of every kind
SHAPES = [
    (1, 1, 1, None, False),
    (1, 2, 1, None, False),
    (2, 1, 3, None, False),
    (2, 3, 5, None, False),
    (3, 5, 2, 4, False),
    (4, 8, 8, None, True),
    (2, 9, 9, None, False),
    (2, 4, 15, 7, False),
    (6, 8, 10, None, True),
    (2, 17, 33, None, False),
    (3, 40, 16, 17, True),
    (5, 3, 70, None, True),
    (1, 7, 64, None, False),
    (70, 6, 3, None, True),
    (40, 31, 65, 35, False),
]


def near(got, want, rtol, atol=0.0):
    """Equal up to rtol of the largest entry."""
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    assert got.shape == want.shape
    if np.isinf(want).any():
        assert np.array_equal(got, want)
    else:
        assert np.all(np.abs(got - want) <= rtol * np.abs(want).max(initial=0) + atol), (got, want)


def rows_of(problem, own=()):
    """Keys and scores of the inputs, padded with copies of the first token, which the reference merges away."""
    _, K, S, _, _ = inputs_of(problem, own)
    return K, S


def direction_of(problem, p, loss, own=()):
    """Direction and log norm by the reference, inputs of different lengths one by one."""
    K, S = rows_of(problem, own)
    parts = [
        reference.descent_direction(k[None], s[None], np.asarray(p, float), loss) for k, s in zip(K, S, strict=True)
    ]
    top = max(log for _, log in parts)
    if top == -np.inf:
        return np.zeros(problem.d_k), -np.inf
    g = sum(np.exp(log - top) * unit for unit, log in parts)
    norm = np.linalg.norm(g)
    return g / norm, top + np.log(norm) - np.log(problem.n)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_agree_with_the_reference(shape, loss):
    """Risk, gradients in p and v, direction and log norm agree with the NumPy definition at every shape."""
    n, T, d, d_k, ragged = shape
    problem = problem_of(1, n, T, d, d_k, ragged=ragged)
    for size in (0.0, 0.7):
        p = size * rng(2, d).normal(size=problem.d_k)
        out = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"))
        risk, grad_p, grad_v = reference_of(problem, p, loss)
        near(out.loss, risk, 1e-13)
        near(out.grad["v"], grad_v, 1e-12)
        near(out.grad["p"], grad_p, 1e-11, atol=1e-14)
        direction, log_norm = mm.descent_direction(problem, p, loss)
        unit, log = direction_of(problem, p, loss)
        near(direction, unit, 1e-11)
        near(log_norm, log, 1e-12, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[0] * s[1] <= 120], ids=str)
def test_float32_data_are_accumulated_in_double(shape, loss):
    """For float32 data the answer is that of the same numbers in double, rounded once."""
    n, T, d, d_k, ragged = shape
    problem = problem_of(3, n, T, d, d_k, dtype=np.float32, ragged=ragged)
    p = rng(4, d).normal(size=problem.d_k)
    out = mm.loss_and_grad(problem, p, loss=loss, wrt=("p", "v"))
    risk, _, grad_v = reference_of(problem, p, loss)
    direction, log_norm = mm.descent_direction(problem, p, loss)
    unit, log = direction_of(problem, p, loss)
    for array in (out.loss, out.grad["p"], out.grad["v"], direction, log_norm):
        assert array.dtype == np.float32
    near(out.loss, risk, 1e-5)  # the scores are float32 themselves
    near(out.grad["v"], grad_v, 1e-5)
    near(direction, unit, 1e-6)
    near(out.grad["p"], -unit * np.exp(log), 1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_are_the_slopes_of_the_risk(loss, ragged):
    """Central differences of the risk reproduce the gradients in p, v and W entry by entry."""
    problem = problem_of(5, 3, 4, 3, ragged=ragged)
    r = rng(6)
    problem = mm.Problem(problem.X, problem.Y, problem.v, Z=r.normal(size=(3, 2)), lengths=problem.lengths)
    points = {"p": r.normal(size=3), "v": r.normal(size=3), "W": r.normal(size=(2, 3))}
    for names in (("p", "v"), ("W", "v")):
        at = {name: points[name] for name in names}
        grad = mm.loss_and_grad(problem, **at, loss=loss, wrt=names).grad
        for name in names:
            assert grad[name].shape == at[name].shape
            for place in np.ndindex(at[name].shape):
                h = np.zeros_like(at[name])
                h[place] = 1e-5
                up, down = (
                    mm.loss_and_grad(problem, **{**at, name: at[name] + s * h}, loss=loss, wrt=names).loss
                    for s in (1, -1)
                )
                assert (up - down) / 2e-5 == pytest.approx(grad[name][place], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_batches_broadcast(loss):
    """Problem, p and v broadcast, and every element has the bits that it has alone."""
    r = rng(7)
    n, T, d = 3, 5, 4
    X, Y = r.normal(size=(n, T, d)), np.array([1.0, -1.0, 1.0])
    v, K, p = r.normal(size=(3, d)), r.normal(size=(4, 1, n, T, 2)), r.normal(size=(4, 3, 2))
    problem = mm.Problem(X, Y, v, K=K)
    assert problem.batch_shape == (4, 3)
    heads = r.normal(size=(3, d))
    for head, given in ((v, {}), (heads, {"v": heads})):
        out = mm.loss_and_grad(problem, p, **given, loss=loss, wrt=("v", "p"))
        assert out.loss.shape == (4, 3)
        for own in np.ndindex(4, 3):
            alone = mm.loss_and_grad(mm.Problem(X, Y, head[own[1]], K=K[own[0], 0]), p[own], loss=loss, wrt=("p", "v"))
            assert out.loss[own] == alone.loss
            assert np.array_equal(out.grad["p"][own], alone.grad["p"])
            assert np.array_equal(out.grad["v"][own], alone.grad["v"])
    direction, log_norm = mm.descent_direction(mm.Problem(X, Y, v[0], K=K[0, 0]), p, loss)
    assert direction.shape == (4, 3, 2)
    assert log_norm.shape == (4, 3)


def test_empty_batches():
    """A batch of no problems has no answers, of the right shape."""
    problem = mm.Problem(np.zeros((0, 2, 3, 4)), np.ones(2), np.ones(4))
    out = mm.loss_and_grad(problem, wrt=("p", "v"))
    assert out.loss.shape == (0,)
    assert out.grad["p"].shape == out.grad["v"].shape == (0, 4)
    assert mm.descent_direction(problem, np.zeros(4)).direction.shape == (0, 4)


def test_p_is_zero_by_default():
    """Without p the gradient is that at 0, where attention is uniform."""
    problem = problem_of(8, 3, 4, 5)
    assert np.array_equal(mm.loss_and_grad(problem).grad["p"], mm.loss_and_grad(problem, np.zeros(5)).grad["p"])


# Gradient in W


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_in_w_is_the_sum_of_outer_products(loss):
    """The logits are X W' z; each input is a problem in p = W' z, whose gradient g gives z g'."""
    problem = problem_of(9, 4, 5, 3, ragged=True)
    Z, W = rng(10).normal(size=(4, 2)), rng(11).normal(size=(2, 3))
    problem = mm.Problem(problem.X, problem.Y, problem.v, Z=Z, lengths=problem.lengths)
    out = mm.loss_and_grad(problem, W=W, loss=loss, wrt=("W", "v"))
    grad_w, grad_v, risk = np.zeros((2, 3)), np.zeros(3), 0.0
    X, K, _, Y, v = inputs_of(problem)
    for i in range(4):
        r, gp, gv = reference.loss_and_grad(X[i][None], K[i][None], Y[i : i + 1], v, W.T @ Z[i], loss)
        grad_w, grad_v, risk = grad_w + np.outer(Z[i], gp) / 4, grad_v + gv / 4, risk + r / 4
    near(out.loss, risk, 1e-13)
    near(out.grad["W"], grad_w, 1e-12)
    near(out.grad["v"], grad_v, 1e-12)


def test_one_shared_query_is_training_p():
    """With one query u for all inputs the gradient in W is u times the gradient in p = W' u (Lemma 1)."""
    problem = problem_of(12, 4, 5, 3)
    u, W = np.array([0.5, -2.0]), rng(13).normal(size=(2, 3))
    with_query = mm.Problem(problem.X, problem.Y, problem.v, Z=u)
    near(
        mm.loss_and_grad(with_query, W=W, wrt="W").grad["W"],
        np.outer(u, mm.loss_and_grad(problem, W.T @ u).grad["p"]),
        1e-13,
    )


def test_w_is_the_problems_own_by_default():
    """Asking for W without giving one uses the problem's W, with another head too; without any, W is 0."""
    r = rng(14)
    X, Y, v, Z, W = r.normal(size=(2, 3, 4)), [1, -1], r.normal(size=4), r.normal(size=(2, 5)), r.normal(size=(5, 4))
    head = r.normal(size=4)
    own, none = mm.Problem(X, Y, v, W=W, Z=Z), mm.Problem(X, Y, v, Z=Z)
    for given in ({}, {"v": head}):
        want = mm.loss_and_grad(none, W=W, wrt="W", **given)
        got = mm.loss_and_grad(own, wrt="W", **given)
        assert got.loss == want.loss
        assert np.array_equal(got.grad["W"], want.grad["W"])
    zero = mm.loss_and_grad(none, W=np.zeros((5, 4)), wrt="W")
    assert np.array_equal(mm.loss_and_grad(none, wrt="W").grad["W"], zero.grad["W"])


def test_w_batches_broadcast():
    """A batch of matrices on a batch of heads: every element as alone."""
    r = rng(15)
    X, Y, Z = r.normal(size=(2, 3, 4)), np.ones(2), r.normal(size=(2, 5))
    v, W = r.normal(size=(3, 4)), r.normal(size=(6, 1, 5, 4))
    out = mm.loss_and_grad(mm.Problem(X, Y, v, Z=Z), W=W, wrt=("W", "v"))
    assert out.grad["W"].shape == (6, 3, 5, 4)
    for a, b in np.ndindex(6, 3):
        alone = mm.loss_and_grad(mm.Problem(X, Y, v[b], Z=Z), W=W[a, 0], wrt=("W", "v"))
        assert out.loss[a, b] == alone.loss
        assert np.array_equal(out.grad["v"][a, b], alone.grad["v"])
        near(out.grad["W"][a, b], alone.grad["W"], 1e-15)


# Far out: where plain formulas give nothing


def integers(seed, n, T, d):
    """A problem whose keys and scores are small integers, so that logits at an integer p are exact."""
    r = rng(seed, n, T, d)
    K = r.integers(-3, 4, size=(n, T, d)).astype(float)
    scores = r.integers(-2, 3, size=(n, T)).astype(float)
    return mm.Problem(scores[..., None], np.ones(n), np.ones(1), K=K), K, scores


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1, 10, 100, 1000, 10**5, 10**8, 10**12])
def test_the_direction_is_exact_at_any_norm(size, loss):
    """However large p is, direction and log norm agree with decimals; small integers keep the logits exact."""
    for seed, shape in enumerate([(1, 3, 2), (2, 4, 3), (3, 5, 2), (2, 6, 4)]):
        problem, K, scores = integers(seed, *shape)
        p = size * rng(seed, 99).integers(-4, 5, size=shape[2]).astype(float)
        _, unit, log_norm, _ = dec_gradient(K, scores, p, loss)
        direction, got = mm.descent_direction(problem, p, loss)
        near(direction, unit, 0.0, atol=2e-14)
        near(got, log_norm, 1e-15, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1.0, 30.0, 300.0, 1e4, 1e8])
def test_the_direction_keeps_what_the_logits_keep(size, loss):
    """With keys of any digits the error is that of the rounded logits, eps times ||p||, and no more."""
    problem = problem_of(16, 2, 4, 3)
    p = size * rng(17).normal(size=3)
    _, K, S, _, _ = inputs_of(problem)
    _, unit, log_norm, _ = dec_gradient(K, S, p, loss)
    direction, got = mm.descent_direction(problem, p, loss)
    near(direction, unit, 0.0, atol=1e-14 + 4e-15 * size)
    near(got, log_norm, 1e-15, atol=1e-13 + 4e-15 * size)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [30.0, 199.0, 201.0, 1e4, -1e4])
def test_large_scores_do_not_hide_the_direction(scale, loss):
    """Where the slope of the loss itself underflows or overflows, inputs are still weighed right."""
    r = rng(18)
    K = r.integers(-2, 3, size=(2, 3, 2)).astype(float)
    scores = scale + r.integers(-8, 9, size=(2, 3)) / 8
    problem = mm.Problem(scores[..., None], np.ones(2), np.ones(1), K=K)
    p = np.array([0.5, -0.25])
    _, unit, log_norm, _ = dec_gradient(K, problem.scores, p, loss)
    direction, got = mm.descent_direction(problem, p, loss)
    near(direction, unit, 0.0, atol=1e-10)
    near(got, log_norm, 1e-14, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("gap", [10, 200, 460, 690, 705, 715, 735, 744])
def test_small_gradients_keep_their_digits(gap, loss):
    """The gradient itself is right to the last digits down to the subnormals."""
    K = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0], [-1.0, 0.0]]])
    scores = np.array([[1.0, 0.5, -0.25], [0.25, 0.0, 2.0]])
    problem = mm.Problem(scores[..., None], np.ones(2), np.ones(1), K=K)
    p = np.array([float(gap), 2.0])
    risk, _, _, g = dec_gradient(K, scores, p, loss)
    out = mm.loss_and_grad(problem, p, loss=loss)
    assert ulps([out.loss], [risk]) <= 8
    for got, want in zip(out.grad["p"], g, strict=True):
        assert abs(float(got) - float(want)) <= 2e-13 * abs(float(want)) + 1e-323


def test_gradients_of_1e_200_have_a_norm():
    """Entries whose squares underflow still have their direction and norm."""
    problem = mm.Problem([[[3.0, 4.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    direction, log_norm = mm.descent_direction(problem, [55.2, 73.6])
    near(direction, [0.6, 0.8], 1e-15)
    near(
        log_norm, np.log(np.hypot(*mm.loss_and_grad(problem, [55.2, 73.6]).grad["p"] * 1e200)) - 200 * np.log(10), 1e-14
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [[0.0, 0.0], [3.0, -1.0], [800.0, 799.0], [1e6, 1e6]])
def test_several_tokens_may_share_the_top_score(p, loss):
    """Tokens tied at the top score do not fool the factor: the next token's pull is found."""
    K = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]])
    scores = np.array([[1.0, 1.0, 0.0, 1.0]])
    problem = mm.Problem(scores[..., None], [1.0], [1.0], K=K)
    assert problem.tied.all()
    _, unit, log_norm, _ = dec_gradient(K, scores, p, loss)
    direction, got = mm.descent_direction(problem, p, loss)
    near(direction, unit, 0.0, atol=1e-14)
    near(got, log_norm, 1e-15, atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [[0.0, 0.0], [2.0, 1.0], [500.0, 100.0], [-500.0, 3.0]])
def test_duplicate_keys_share_their_weight(p, loss):
    """Tokens with one key and different scores act as one token of their mean score, at the top too."""
    K = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]])
    scores = np.array([[1.0, 0.5, 0.25, -0.25, 0.5]])
    problem = mm.Problem(scores[..., None], [1.0], [1.0], K=K)
    _, unit, log_norm, _ = dec_gradient(K, scores, p, loss)
    direction, got = mm.descent_direction(problem, p, loss)
    near(direction, unit, 0.0, atol=1e-14)
    near(got, log_norm, 1e-15, atol=1e-13)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("offset", [1e3, 1e8, -1e8, 2.0**50])
def test_keys_far_from_the_origin(offset, loss):
    """A vector added to all keys of an input changes nothing that doubles can hold."""
    K = np.array([[[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]], [[0.0, 1.0], [3.0, 0.0], [0.0, 0.0]]])
    scores = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.25]])
    at = [mm.Problem(scores[..., None], np.ones(2), np.ones(1), K=K + s) for s in (0.0, offset)]
    for p in ([0.3, -0.7], [90.0, 40.0]):
        for a, b in zip(*(mm.descent_direction(problem, p, loss) for problem in at), strict=True):
            assert np.array_equal(a, b)


ZERO = {
    "one token": (np.ones((2, 1, 2)), [[1.0], [0.5]]),
    "equal scores": (rng(19).normal(size=(2, 5, 2)), [[0.1] * 5, [0.3] * 5]),
    "equal keys": (np.broadcast_to(rng(20).normal(size=(2, 1, 2)), (2, 4, 2)), [[1.0, 2.0, 3.0, 4.0]] * 2),
    "zero head": (rng(21).normal(size=(2, 3, 2)), [[0.0] * 3] * 2),
    "signed zeros": (rng(22).normal(size=(2, 3, 2)), [[0.0, -0.0, 0.0]] * 2),
    "equal scores or keys": (
        np.array([[[1.0, 2.0]] * 3, [[0.0, 1.0], [1.0, 0.0], [3.0, 3.0]]]),
        [[1.0, 2.0, 3.0], [0.7] * 3],
    ),
    "equal where real": (rng(23).normal(size=(2, 3, 2)), [[0.7, 0.7, 9.0], [1.0, 5.0, 6.0]], [2, 1]),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", ZERO)
def test_zero_gradients_are_exactly_zero(case, loss):
    """One token, equal scores, equal keys and flat heads give 0 and -inf at any p: no rounding noise."""
    K, scores, *lengths = ZERO[case]
    problem = mm.Problem(
        np.array(scores)[..., None], np.ones(2), np.ones(1), K=K, lengths=lengths[0] if lengths else None
    )
    for p in ([0.0, 0.0], [0.31, -0.77], [1234.5, 77.7], [1e15, 1e15]):
        direction, log_norm = mm.descent_direction(problem, p, loss)
        assert not direction.any()
        assert np.isneginf(log_norm)
        assert not mm.loss_and_grad(problem, p, loss=loss).grad["p"].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("p", [1e308, -1e308])
def test_logits_that_overflow_are_refused(p, dtype):
    """A logit outside the double range is a ValueError about p, not a zero gradient."""
    problem = mm.Problem(np.array([[[10.0], [0.0], [-10.0]]], dtype), np.ones(1, dtype), np.ones(1, dtype))
    for call in (mm.descent_direction, mm.loss_and_grad):
        with pytest.raises(ValueError, match=r"^p: the logits K p leave the range of double precision"):
            call(problem, [p])
    with pytest.raises(ValueError, match=r"^p: the logits"):
        mm.loss_and_grad(problem, [p], wrt=("p", "v"))


def test_a_few_elements_of_a_batch_that_overflow_are_refused():
    """One element with overflowing logits is enough for the error, wherever it stands."""
    problem = mm.Problem([[[10.0], [0.0]]], [1.0], [1.0])
    for own in range(5):
        p = np.ones((5, 1))
        p[own] = 1e308
        with pytest.raises(ValueError, match=r"^p: the logits"):
            mm.descent_direction(problem, p)


def test_the_head_is_read_in_the_problems_dtype():
    """A float64 head given to a float32 problem leaves the answer float32."""
    problem = problem_of(24, 2, 3, 4, dtype=np.float32)
    out = mm.loss_and_grad(problem, v=np.ones(4), wrt=("p", "v"))
    assert out.loss.dtype == out.grad["p"].dtype == out.grad["v"].dtype == np.float32


@pytest.mark.parametrize("wrt", ["p", "v", ("p",), ("v", "p"), ["p", "v"], ("p", "p")])
def test_wrt_names_the_gradients(wrt):
    """The gradients asked for are given, whatever else is asked, with the same bits."""
    problem = problem_of(25, 3, 4, 5)
    both = mm.loss_and_grad(problem, np.ones(5), wrt=("p", "v"))
    out = mm.loss_and_grad(problem, np.ones(5), wrt=wrt)
    assert set(out.grad) == set(wrt)
    assert out.loss == both.loss
    for name, grad in out.grad.items():
        assert np.array_equal(grad, both.grad[name])


def small():
    return mm.Problem(np.ones((2, 3, 4)), np.ones(2), np.ones(4), Z=np.ones((2, 5)))


REFUSED = {
    "wrt": (lambda: mm.loss_and_grad(small(), wrt="q"), "^wrt: got 'q'; allowed: 'p', 'v', 'W' or a tuple"),
    "wrt pv": (lambda: mm.loss_and_grad(small(), wrt="pv"), "^wrt: got 'pv'"),
    "wrt empty": (lambda: mm.loss_and_grad(small(), wrt=()), r"^wrt: got \(\)"),
    "wrt none": (lambda: mm.loss_and_grad(small(), wrt=None), "^wrt: got None"),
    "wrt inner": (lambda: mm.loss_and_grad(small(), wrt=("p", 3)), "^wrt: got "),
    "p and W": (lambda: mm.loss_and_grad(small(), p=np.ones(4), wrt="W"), "^p and W: got both; allowed: one"),
    "p with W": (lambda: mm.loss_and_grad(small(), W=np.ones((5, 4)), wrt=("p", "W")), "^p and W: got both"),
    "p width": (lambda: mm.loss_and_grad(small(), np.ones(5)), r"^p: got shape \(5,\); allowed: \(\.\.\., d_k=4\)"),
    "p scalar": (lambda: mm.loss_and_grad(small(), 1.0), r"^p: got shape \(\)"),
    "v width": (lambda: mm.loss_and_grad(small(), v=np.ones(5)), r"^v: got shape \(5,\); allowed: \(\.\.\., d=4\)"),
    "W shape": (lambda: mm.loss_and_grad(small(), W=np.ones((4, 5)), wrt="W"), r"^W: got shape \(4, 5\); .*d_q=5, d=4"),
    "no queries": (
        lambda: mm.loss_and_grad(mm.Problem(np.ones((1, 2, 3)), [1], np.ones(3)), wrt="W"),
        "^W: the problem has no queries; allowed: .*Z",
    ),
    "batch": (
        lambda: mm.loss_and_grad(mm.Problem(np.ones((2, 1, 2, 3)), [1], np.ones(3)), np.ones((3, 3))),
        r"^batch dimensions .*problem \(2,\).*p \(3,\)",
    ),
    "loss": (lambda: mm.loss_and_grad(small(), loss="hinge"), "^loss: got 'hinge'"),
    "direction loss": (lambda: mm.descent_direction(small(), np.ones(4), "hinge"), "^loss: got 'hinge'"),
    "direction p": (lambda: mm.descent_direction(small(), np.ones(3)), r"^p: got shape \(3,\)"),
    "threads": (lambda: mm.descent_direction(small(), np.ones(4), threads=True), "^threads: got True"),
    "too many": (lambda: mm.loss_and_grad(small(), threads=5000), "^threads: got 5000; allowed: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    """Unknown names, shapes and counts are a ValueError that names the argument and what is allowed."""
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_the_decimal_model_is_the_model():
    """The decimal evaluation these tests rest on agrees with finite differences in 60 digits."""
    _, K, scores = integers(26, 2, 3, 2)
    p = np.array([0.25, -0.5])
    for loss in LOSSES:
        g = dec_gradient(K, scores, p, loss)[3]
        for j in range(2):
            h = np.zeros(2)
            h[j] = 2.0**-20
            up, down = (dec_gradient(K, scores, p + s * h, loss)[0] for s in (1, -1))
            slope = DIGITS.divide(DIGITS.subtract(up, down), DIGITS.create_decimal(2.0**-19))
            assert float(slope) == pytest.approx(float(g[j]), rel=1e-10, abs=1e-11)
