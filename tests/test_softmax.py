"""Softmax and its logarithm: four units in the last place, from subnormals to the largest doubles."""

import numpy as np
import pytest
from kernel_helpers import dec, dec_softmax, rng, ulps

import fastmm as mm

INF = np.inf


def random_row(T, scale, offset=0.0):
    return offset + scale * rng(T, int(scale * 10)).normal(size=T)


ROWS = {
    "one": [3.5],
    "two": [0.0, 1.0],
    "equal": [0.7] * 5,
    "tied tops": [2.0, 5.0, 5.0, -1.0],
    "far tops": [0.0, 2872.0],
    "masks": [-INF, 0.25, -INF, 1.0, -INF],
    "one left": [-INF, -7.0, -INF],
    "pad value": [-1e30, 0.0, -1.0],
    "subnormal weights": [0.0, -700.0, -708.5, -720.3, -744.0, -745.2, -746.0],
    "below": [0.0, -750.0, -800.0, -1e5, -1e300],
    "subnormal logits": [5e-324, 0.0, -5e-324, 2e-310],
    "largest": [1.7e308, 1.7e308, -1.7e308],
    "large offset": [1e16, 1e16 + 2.0, 1e16 - 4.0],
    "lost digits": [1e8 + 0.1, 1e8 - 600.3, 1e8 + 0.7],
    "opposite": [-700.123, 0.1, 37.7, -36.6],
    "tiny rest": [0.0, -40.0, -300.0],
    "near zero": [1e-20, -1e-20, 1e-8],
    **{f"T={T} scale={s}": random_row(T, s) for T in (2, 3, 7, 8, 9, 16, 17, 64, 129) for s in (0.1, 5.0, 200.0)},
    "offset": random_row(33, 3.0, 1e10),
    "long": random_row(3000, 4.0),
}


def exact(row):
    return dec_softmax([None if np.isneginf(x) else dec(x) for x in row])


@pytest.mark.parametrize("case", ROWS)
def test_softmax_is_right_to_four_ulp(case):
    """Weights agree with 60-digit arithmetic to 4 ulp, subnormal weights included; masks are exact zeros."""
    row = np.array(ROWS[case])
    weights, _ = exact(row)
    assert ulps(mm.softmax(row), weights) <= 4


@pytest.mark.parametrize("case", ROWS)
def test_log_softmax_is_right_to_four_ulp(case):
    """Logarithms of weights agree with 60-digit arithmetic to 4 ulp, also where the weight rounds to 1 or to 0."""
    row = np.array(ROWS[case])
    _, logs = exact(row)
    assert ulps(mm.log_softmax(row), logs) <= 4


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("scale", [0.5, 10.0, 60.0])
def test_narrow_floats_are_computed_in_double(dtype, scale):
    """float32 rows come back as float32 right to one ulp of it, float16 rows as float64 right to four."""
    row = random_row(19, scale).astype(dtype)
    weights, logs = exact(row.astype(float))
    out, log_out = mm.softmax(row), mm.log_softmax(row)
    want = np.float32 if dtype == np.float32 else np.float64
    assert out.dtype == log_out.dtype == want
    most = 1 if dtype == np.float32 else 4
    assert ulps(out, weights, want) <= most
    assert ulps(log_out, logs, want) <= most


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_long_rows_lose_nothing(dtype):
    """The sum over a long row is not worn by rounding, whatever the input type."""
    assert np.all(mm.softmax(np.zeros(4096, dtype=dtype)) == 2.0**-12)
    T = 300_001
    row = np.full(T, -20, dtype=dtype)
    row[0] = 0
    with np.errstate(all="raise"):
        top = 1 / (1 + (T - 1) * np.exp(-20.0))
    assert float(mm.softmax(row)[0]) == pytest.approx(top, rel=1e-15 if dtype != np.float32 else 1e-7)


def test_rows_are_independent_of_their_batch():
    """Each row of any batch has the bits it has alone, for strided and Fortran-ordered batches too."""
    x = rng(5).normal(size=(3, 4, 11)) * 30
    for batch in (x, np.asfortranarray(x), np.repeat(x, 2, axis=2)[..., ::2]):
        out = mm.softmax(batch)
        assert out.shape == x.shape
        for own in np.ndindex(3, 4):
            assert np.array_equal(out[own], mm.softmax(x[own]))


def test_shapes():
    """A row gives a row, an empty batch an empty batch."""
    assert mm.softmax([0.0, 0.0]).shape == (2,)
    assert mm.softmax(np.zeros((0, 3))).shape == (0, 3)
    assert mm.log_softmax(np.zeros((2, 0, 3))).shape == (2, 0, 3)


def test_all_masked_rows():
    """A row of masks only has no softmax: its weights are zeros and their logarithms -inf, other rows are untouched."""
    x = np.array([[-INF, -INF], [0.0, 0.0]])
    assert mm.softmax(x).tolist() == [[0.0, 0.0], [0.5, 0.5]]
    assert np.all(np.isneginf(mm.log_softmax(x)[0]))


def test_lengths_cut_rows():
    """What stands behind a length is not read and weighs nothing; the rest is the shorter row's softmax."""
    x = rng(6).normal(size=(2, 3, 9))
    lengths = np.array([[1, 9, 4], [8, 2, 3]])
    padded = np.where(np.arange(9) < lengths[..., None], x, np.nan)
    out, logs = mm.softmax(padded, lengths), mm.log_softmax(padded, lengths)
    for own in np.ndindex(2, 3):
        t = lengths[own]
        assert np.array_equal(out[own][:t], mm.softmax(x[own][:t]))
        assert np.array_equal(logs[own][:t], mm.log_softmax(x[own][:t]))
        assert not out[own][t:].any()
        assert np.all(np.isneginf(logs[own][t:]))
    assert np.array_equal(mm.softmax(x, [1, 9, 4]), np.stack([mm.softmax(x[k], [1, 9, 4]) for k in range(2)]))
    assert np.array_equal(mm.softmax(x[0, 0], 4)[:4], mm.softmax(x[0, 0, :4]))


REFUSED = {
    "nan": ([[0.0, 1.0], [np.nan, 0.0]], None, "^logits: row 1 has NaN"),
    "inf": ([0.0, INF], None, r"^logits: row 0 has NaN or \+inf; allowed: finite numbers and -inf"),
    "no entries": (np.zeros((2, 0)), None, r"^logits: got shape \(2, 0\); allowed: .*T at least 1"),
    "scalar": (3.0, None, r"^logits: got shape \(\); allowed: \(\.\.\., T\)"),
    "length 0": ([[0.0, 1.0]], [0], r"^lengths: entry .* is 0; allowed: 1\.\.2"),
    "length long": ([[0.0, 1.0]], [3], r"^lengths: entry .* is 3; allowed: 1\.\.2"),
    "length float": ([[0.0, 1.0]], [1.0], "^lengths: got dtype float64; allowed: integers"),
    "lengths other": (np.zeros((2, 3)), [1, 2, 3], r"^batch dimensions .*logits \(2,\).*lengths \(3,\)"),
    "lengths more": (np.zeros(3), [1, 2], r"^lengths: got shape \(2,\); allowed: .*\(\)"),
}


@pytest.mark.parametrize("function", [mm.softmax, mm.log_softmax])
@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_softmax_is_refused(function, case):
    """NaN, +inf, empty rows and wrong lengths are a ValueError that names the argument and says what is allowed."""
    logits, lengths, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        function(logits, lengths)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (3, 17, 9), (1, 40, 70)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_attention_is_the_softmax_of_the_logits(shape, dtype):
    """Attention weights are the softmax of K p, for one p and for a batch of them."""
    r = rng(7, *shape)
    K, p = r.normal(size=shape).astype(dtype), r.normal(size=(4, shape[-1])).astype(dtype)
    out = mm.attention(K, p)
    assert out.dtype == dtype
    assert out.shape == (4, *shape[:2])
    want = mm.softmax(np.einsum("ntd,bd->bnt", K.astype(float), p.astype(float)))
    assert np.allclose(out, want, rtol=1e-13 if dtype == np.float64 else 1e-6, atol=0)
    assert np.array_equal(out[2], mm.attention(K, p[2]))


def test_attention_of_keys_far_from_the_origin():
    """A common offset of the keys, which softmax does not see, costs no digits."""
    K = np.array([[[1e8, 5.0], [1e8 + 1, 5.0], [1e8 - 1, 5.5]]])
    assert np.allclose(mm.attention(K, [1.0, 2.0]), mm.softmax([[0.0, 1.0, 0.0]]), rtol=1e-15)


def test_attention_ignores_padding():
    """Keys in the padding may be NaN; they weigh nothing."""
    K = rng(8).normal(size=(2, 4, 3))
    K[0, 2:] = np.nan
    out = mm.attention(K, [1.0, -1.0, 0.5], [2, 4])
    assert np.array_equal(out[0], [*mm.attention(K[:1, :2], [1.0, -1.0, 0.5])[0], 0, 0])
    assert np.array_equal(out[1:], mm.attention(K[1:], [1.0, -1.0, 0.5]))


@pytest.mark.parametrize("p", [[1e308], [-1e308]])
def test_attention_says_when_logits_overflow(p):
    """Logits outside the double range are a ValueError about p, not weights of an infinity."""
    with pytest.raises(ValueError, match=r"^p: the logits K p leave the range"):
        mm.attention([[[10.0], [0.0], [-10.0]]], p)


ATTENTION_REFUSED = {
    "K axes": (lambda: mm.attention([[1.0, 2.0]], [1.0]), r"^K: got shape \(1, 2\); allowed: \(\.\.\., n, T, d_k\)"),
    "no inputs": (lambda: mm.attention(np.zeros((0, 2, 3)), np.ones(3)), r"^K: got shape \(0, 2, 3\).*n at least 1"),
    "no tokens": (lambda: mm.attention(np.zeros((1, 0, 3)), np.ones(3)), r"^K: got shape \(1, 0, 3\).*T at least 1"),
    "no width": (lambda: mm.attention(np.zeros((1, 2, 0)), []), r"^K: got shape \(1, 2, 0\).*d_k at least 1"),
    "p width": (lambda: mm.attention(np.zeros((1, 2, 3)), np.ones(2)), r"^p: got shape \(2,\); allowed: .*d_k=3"),
    "lengths": (lambda: mm.attention(np.zeros((1, 2, 3)), np.ones(3), [3]), r"^lengths: entry \[0\] is 3"),
    "threads 0": (lambda: mm.attention(np.zeros((1, 2, 3)), np.ones(3), threads=0), "^threads: got 0; allowed: "),
    "threads many": (lambda: mm.attention(np.zeros((1, 2, 3)), np.ones(3), threads=10**12), "^threads: got 10000"),
    "threads float": (lambda: mm.attention(np.zeros((1, 2, 3)), np.ones(3), threads=1.5), r"^threads: got 1\.5"),
}


@pytest.mark.parametrize("case", ATTENTION_REFUSED)
def test_attention_refuses_what_does_not_fit(case):
    """Wrong shapes, lengths and thread counts are a ValueError that names the argument."""
    call, message = ATTENTION_REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()
