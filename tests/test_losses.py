"""Losses, slopes and curvatures: four units in the last place for every double."""

import pickle

import numpy as np
import pytest
from kernel_helpers import LOSSES, dec, dec_loss, rng, ulps

import fastmm as mm
from fastmm import losses, reference

SIZES = [0.0, 5e-324, 1e-310, 1e-300, 1e-20, 1e-16, 1e-8, 0.1, 0.5, 1.0, 2.5, 17.0, 30.0, 36.0, 36.9, 37.5, 40.0, 88.0]
SIZES += [
    104.0,
    300.0,
    700.0,
    707.9,
    708.5,
    709.7,
    709.9,
    710.0,
    740.0,
    744.4,
    745.1,
    745.3,
    746.0,
    1e3,
    1e4,
    1e10,
    1e308,
]
MARGINS = np.array(
    [s * x for x in SIZES for s in (1.0, -1.0)] + [*(rng(1).normal(size=60) * 10), *(rng(2).normal(size=60) * 300)]
)
PARTS = ("value", "slope", "curvature")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("part", PARTS)
def test_losses_are_right_to_four_ulp(loss, part):
    """Each function agrees with 60-digit arithmetic to 4 ulp over the whole double range, subnormals included."""
    out = getattr(mm.losses.get(loss), part)(MARGINS)
    wrong = [
        (x, y)
        for x, y in zip(MARGINS, out, strict=True)
        if not ulps([y], [dec_loss(loss, dec(x))[PARTS.index(part)]]) <= 4
    ]
    assert wrong == []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("part", PARTS)
def test_float32_margins_give_float32(loss, part):
    """float32 margins are computed in double and rounded once; float16 and integers give float64."""
    x = np.linspace(-80, 80, 321).astype(np.float32)
    out = getattr(mm.losses.get(loss), part)(x)
    assert out.dtype == np.float32
    assert ulps(out, [dec_loss(loss, dec(m))[PARTS.index(part)] for m in x], np.float32) <= 1
    for dtype in (np.float16, np.int8):
        assert getattr(mm.losses.get(loss), part)(np.array([3, -2], dtype=dtype)).dtype == np.float64


@pytest.mark.parametrize("loss", LOSSES)
def test_kernels_have_the_same_values(loss):
    """The risk of one input of one token is the loss of its score, for any number of them side by side."""
    margins = np.concatenate([MARGINS, rng(3).uniform(-40, 40, 2000)])
    problem = mm.Problem(np.ones((len(margins), 1, 1, 1)), [1.0], margins[:, None])
    got = mm.loss_and_grad(problem, np.zeros(1), loss=loss).loss
    with np.errstate(over="ignore"):
        want = losses.get(loss).value(margins)
    finite = np.isfinite(want)
    assert (np.abs(got[finite] - want[finite]) <= 4 * np.spacing(np.abs(want[finite]))).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_shapes_are_kept(loss):
    """Numbers give numbers, arrays arrays of the same shape, in any layout."""
    value = mm.losses.get(loss).value
    assert isinstance(value(1.0), np.float64)
    assert isinstance(value(np.float32(1.0)), np.float32)
    x = rng(3).normal(size=(3, 4, 5))
    assert value(x).shape == (3, 4, 5)
    assert np.array_equal(value(x.T), value(x).T)
    assert value(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reference_agrees(loss):
    """The NumPy definitions and the compiled ones are the same functions, the logarithm of the slope included."""
    x = np.concatenate([rng(4).normal(size=100) * 20, [0.0, 500.0, -500.0]])
    ref = reference.LOSSES[loss]
    for part in PARTS:
        assert np.allclose(getattr(ref, part)(x), getattr(losses.get(loss), part)(x), rtol=1e-14, atol=0)
    assert np.allclose(ref.log_slope(x), np.log(-losses.get(loss).slope(x)), rtol=1e-13, atol=1e-15)


def test_losses_decrease_and_curve_up():
    """Every loss decreases strictly and has a curvature of at least 0, on a grid where doubles can tell."""
    x = np.linspace(-30, 30, 1001)
    for name in LOSSES:
        loss = losses.get(name)
        assert np.all(np.diff(loss.value(x)) < 0)
        assert np.all(loss.slope(x) < 0)
        assert np.all(loss.curvature(x) >= 0)


def test_names():
    """Losses are found by name, passed through as they are, and pickled equal."""
    for name in LOSSES:
        loss = losses.get(name)
        assert loss.name == name
        assert losses.get(loss) is loss
        assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.parametrize("name", ["hinge", "", None, 3, b"logistic", ["logistic"], "Logistic"])
def test_unknown_losses_are_refused(name):
    """An unknown name is a ValueError that lists the known ones."""
    with pytest.raises(ValueError, match=r"^loss: got .*; allowed: logistic, exponential, correlation"):
        losses.get(name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_margins_are_finite(bad):
    """NaN and infinity are refused with their place."""
    with pytest.raises(ValueError, match=rf"^x: entry \[1\] is {bad}"):
        losses.get("logistic").value([0.0, bad])
