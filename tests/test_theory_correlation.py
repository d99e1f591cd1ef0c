"""Correlation of vectors of any scale."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmm as mm

FOLDER = Path(__file__).parent / "cases"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("corr_*.json")), ids=lambda path: path.stem)
def test_known_values(path):
    """Opposite, tiny, mixed and zero vectors."""
    case = json.loads(path.read_text())
    got = mm.correlation(case["input"]["a"], case["input"]["b"])
    if case["expect"]["value"] == "NaN":
        assert math.isnan(got)
    else:
        assert abs(got - case["expect"]["value"]) <= case["expect"]["atol"]


vectors = st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), min_size=3, max_size=3).filter(
    lambda x: max(map(abs, x)) > 1e-180  # so that the tests' own scalings leave something of it
)


@given(vectors, st.floats(1e-5, 1e5))
def test_parallel_vectors(x, factor):
    """1 and -1 to the last digits, never beyond."""
    x = np.array(x) / 1e5
    for sign in (1, -1):
        got = mm.correlation(x, sign * factor * x)
        assert abs(got) <= 1
        assert abs(got - sign) <= 1e-15
    assert mm.correlation(x, x) == 1


@given(vectors, vectors, st.integers(-200, 200))
def test_symmetric_and_free_of_scale(x, y, power):
    """Exactly so for powers of two."""
    x, y = np.array(x) * 1e-100, np.array(y) * 1e-100
    got = mm.correlation(x, y)
    assert got == mm.correlation(y, x)
    if np.abs(x[x != 0]).min() > 1e-200:
        assert got == mm.correlation(np.ldexp(x, power), y)


def test_matches_a_sum_in_higher_precision():
    """Random vectors against long doubles."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 100, 7))
    a, b = x.astype(np.longdouble), y.astype(np.longdouble)
    want = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    np.testing.assert_allclose(mm.correlation(x, y), want.astype(float), rtol=0, atol=1e-15)


def test_batches_and_bad_arguments():
    """Leading dimensions broadcast; lengths, NaN and complex numbers are refused."""
    assert mm.correlation(np.ones((4, 1, 2)), np.ones((3, 2))).shape == (4, 3)
    assert isinstance(mm.correlation([1, 2], [2, 1]), float)
    assert np.isnan(mm.correlation(np.zeros((2, 3)), np.ones(3))).all()
    with pytest.raises(ValueError, match=r"b: got shape \(3,\)"):
        mm.correlation([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="do not broadcast"):
        mm.correlation(np.ones((2, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"a: entry \[1\] is nan"):
        mm.correlation([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(TypeError, match="b: got complex numbers"):
        mm.correlation([1.0, 2.0], [1j, 2.0])
