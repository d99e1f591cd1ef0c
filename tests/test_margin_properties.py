"""Max-margin programs of all kinds against exact arithmetic and against what must not change an answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from margin_verify import exact_min_norm, verify

import fastmm as mm

small = st.integers(-3, 3)


@st.composite
def programs(draw, most_rows=6, most_columns=3):
    """Integer rows, many of them zero, parallel or contradictory, with any right-hand sides."""
    m, d = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    A = draw(st.lists(st.lists(small, min_size=d, max_size=d), min_size=m, max_size=m))
    b = draw(st.lists(small, min_size=m, max_size=m))
    return np.array(A, float), np.array(b, float)


@given(programs())
@settings(max_examples=150, deadline=None)
def test_agrees_with_exact_arithmetic(program):
    """Degenerate integer programs: solved exactly when trying all active sets finds a solution, and equal to it."""
    A, b = program
    result = mm.min_norm(A, b, throw=False)
    verify(A, b, result)
    exact = exact_min_norm(A, b)
    assert (exact is not None) == (result.status == mm.Status.optimal)
    if exact is not None:
        np.testing.assert_allclose(result.w, [float(x) for x in exact], rtol=1e-13, atol=1e-13)


@given(programs(), st.data())
@settings(max_examples=60, deadline=None)
def test_row_scaling_changes_multipliers_only(program, data):
    """A row times a power of two is the same row: same point, multiplier divided by it."""
    A, b = program
    powers = np.array(data.draw(st.lists(st.integers(-150, 150), min_size=len(b), max_size=len(b))))
    plain = mm.min_norm(A, b, throw=False)
    scaled = mm.min_norm(np.ldexp(A, powers[:, None]), np.ldexp(b, powers), throw=False)
    assert scaled.status == plain.status
    np.testing.assert_allclose(scaled.w, plain.w, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(scaled.neighbors, plain.neighbors)


@given(programs(), st.integers(-900, 900))
@settings(max_examples=60, deadline=None)
def test_any_scale_of_the_right_hand_side(program, power):
    """w grows with b, exactly when by a power of two; outside the range of its multipliers the status says so."""
    A, b = program
    plain = mm.min_norm(A, b, throw=False)
    scaled = mm.min_norm(A, np.ldexp(b, power), throw=False)
    assert scaled.status == plain.status
    np.testing.assert_allclose(np.ldexp(scaled.w, -power), plain.w, rtol=1e-12, atol=1e-13)


@given(programs(most_rows=8, most_columns=4), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_copies_of_rows_do_not_matter(program, random):
    """Rows permuted and repeated give the same point and the same neighbors."""
    A, b = program
    order = list(range(len(b))) + [random.randrange(len(b)) for _ in range(5)]
    random.shuffle(order)
    plain, other = mm.min_norm(A, b, throw=False), mm.min_norm(A[order], b[order], throw=False)
    verify(A[order], b[order], other)
    assert other.status == plain.status
    np.testing.assert_allclose(other.w, plain.w, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(other.neighbors, plain.neighbors[order])


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_rotation_turns_the_answer(seed, d, m):
    """Rows turned by an orthogonal matrix: the point turns with them."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((m, d)), rng.uniform(-0.5, 1.0, m)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    plain, turned = mm.min_norm(A, b, throw=False), mm.min_norm(A @ turn, b, throw=False)
    verify(A, b, plain)
    verify(A @ turn, b, turned)
    assert turned.status == plain.status
    if plain.optimal:
        atol = 1e-11 * np.linalg.norm(plain.w) * max(1.0, np.linalg.norm(plain.w))
        np.testing.assert_allclose(turned.w, plain.w @ turn, rtol=0, atol=atol)


@given(programs(most_rows=5, most_columns=4), st.data())
@settings(max_examples=80, deadline=None)
def test_equalities_are_two_inequalities(program, data):
    """E w = e has the answer of E w >= e together with -E w >= -e."""
    A, b = program
    k, d = data.draw(st.integers(1, 3)), A.shape[1]
    E = np.array(data.draw(st.lists(st.lists(small, min_size=d, max_size=d), min_size=k, max_size=k)), float)
    e = np.array(data.draw(st.lists(small, min_size=k, max_size=k)), float)
    result = mm.min_norm(A, b, E, e, throw=False)
    verify(A, b, result, E=E, e=e)
    other = exact_min_norm(np.vstack([A, E, -E]), np.concatenate([b, e, -e]))
    assert (other is not None) == bool(result.optimal)
    if other is not None:
        np.testing.assert_allclose(result.w, [float(x) for x in other], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n", "T", "d"), [(2, 3, 5), (6, 8, 10), (10, 10, 20), (30, 4, 3), (1, 2, 1)])
def test_random_selections(n, T, d):
    """Unit tokens, random selections, most of the larger ones infeasible: every answer is proved."""
    from margin_verify import att_rows

    rng = np.random.default_rng(n)
    for _ in range(12):
        K = rng.standard_normal((n, T, d))
        K /= np.linalg.norm(K, axis=-1, keepdims=True)
        toward = rng.standard_normal(d)
        for selected in (rng.integers(0, T, n), (K @ toward).argmax(-1)):
            result = mm.att_svm(K, selected, throw=False)
            A, b, rows = att_rows(K, selected)
            verify(A, b, result, rows=rows)
            if result.optimal:
                assert result.certificate.stationarity < 1e-14
                assert result.certificate.gap < 1e-14


@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-7])
def test_nearly_opposite_rows(angle):
    """Feasible only far out, at norm 1/angle: found to full accuracy or refused, never wrong."""
    rng = np.random.default_rng(3)
    u = rng.standard_normal(6)
    u /= np.linalg.norm(u)
    v = rng.standard_normal(6)
    v -= u * (u @ v)
    v /= np.linalg.norm(v)
    A = np.array([u + angle * v, -u + angle * v])
    result = mm.min_norm(A, 1.0, throw=False)
    if angle >= 1e-5:
        assert result.optimal
    if result.optimal:
        verify(A, np.ones(2), result, opinion=False)
        np.testing.assert_allclose(result.direction, v, atol=1e-15 / angle * 10)
    else:
        assert result.status == mm.Status.ill_conditioned


def test_twenty_thousand_rows():
    """Two binding rows among 20,000 others that stay inside, some of them copies."""
    j = np.arange(20000)
    A = np.vstack([[[2.0, 1.0], [1.0, 2.0]], np.c_[2.0 + (7 * j) % 13, 2.0 + (11 * j) % 17]])
    result = mm.min_norm(A, 1.0)
    verify(A, np.ones(len(A)), result, opinion=False)
    np.testing.assert_allclose(result.w, [1 / 3, 1 / 3], rtol=1e-15)


def test_many_dimensions():
    """d = 2000 with 40 rows: the cost is that of the rows, not of d x d matrices."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 2000))
    result = mm.min_norm(A, 1.0)
    verify(A, np.ones(40), result, opinion=False)
    gram = A @ A.T
    np.testing.assert_allclose(result.w, A.T @ np.linalg.solve(gram, np.ones(40)), rtol=1e-10)


@pytest.mark.parametrize("power", [-900, -330, 330, 900])
def test_far_out_scales(power):
    """Rows at the ends of the double range: the right answer, or a refusal once a multiplier cannot be written."""
    A = np.ldexp(np.array([[2.0, 1.0], [1.0, 2.0]]), power)
    result = mm.min_norm(A, 1.0, throw=False)
    if abs(power) < 500:
        assert result.optimal
        np.testing.assert_allclose(np.ldexp(result.w, power), [1 / 3, 1 / 3], rtol=1e-14)
        np.testing.assert_allclose(result.direction, [0.5**0.5] * 2, rtol=1e-14)
        assert mm.certify(A, 1.0, result.w, result.dual).ok
    else:
        assert result.status == mm.Status.ill_conditioned
        np.testing.assert_allclose(np.ldexp(result.best, power), [1 / 3, 1 / 3], rtol=1e-14)
