"""Maps of basins: what they say of a start is what its own run says."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import one_input, two_starts
from fastmm.theory import starting_points


@pytest.fixture(scope="module")
def found():
    return mm.theory.basins(two_starts().problem, x=(-4, 6), y=(-3, 5), resolution=(11, 9))


def test_each_start_has_the_selection_of_its_own_run(found):
    assert found.complete
    assert found.labels.shape == (9, 11)
    np.testing.assert_array_equal(found.x, np.linspace(-4, 6, 11))
    np.testing.assert_array_equal(found.y, np.linspace(-3, 5, 9))
    for i, j in ((0, 0), (0, 10), (8, 0), (8, 10), (3, 6), (4, 5)):
        run = mm.descend(found.problem, p0=[found.x[j], found.y[i]], steps=1000)
        np.testing.assert_array_equal(found.selected[found.labels[i, j]], run.selected)
        np.testing.assert_allclose(found.saturation[i, j], run.saturation, rtol=1e-12)


def test_selections_are_the_locally_optimal_ones_with_their_vectors(found):
    assert found.selected.tolist() == [[0, 0], [0, 1]]
    assert found.globally_optimal.tolist() == [True, False]
    np.testing.assert_allclose(found.solutions.w, [[1, 3], [1, 0]], atol=1e-12)
    assert found.share.sum() == 1
    assert repr(found).startswith("<Basins of 9 x 11 starting points: (0, 0): ")


def test_runs_that_end_elsewhere_have_no_label():
    """Tied scores: no selection of the first input is locally optimal, so no run is assigned."""
    problem = mm.Problem([[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]], [1.0], [1.0, 1.0])
    ends = mm.theory.basins(problem, x=(0, 2), y=(2, 4), resolution=3, steps=0)
    assert ends.selected.shape == (0, 1)
    assert (ends.labels == -1).all()
    assert ends.share.shape == (0,)


def test_an_interrupted_map_keeps_what_was_done(monkeypatch):
    problem = one_input(0.0).problem
    calls = []

    def descend(*args, **kwargs):
        run = mm.descend(*args, **kwargs)
        calls.append(run)
        if len(calls) == 2:
            object.__setattr__(run, "stop_reason", np.full(run.stop_reason.shape, "interrupted"))
        return run

    monkeypatch.setattr(starting_points, "descend", descend)
    monkeypatch.setattr(starting_points, "_RUNS", 10)
    ends = mm.theory.basins(problem, resolution=5, steps=200)
    assert not ends.complete
    assert np.isnan(ends.saturation).sum() == 15
    assert (ends.labels.reshape(-1)[10:] == -1).all()
    assert (ends.labels.reshape(-1)[:10] >= 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": (1, 1)}, r"x: got \(1, 1\); allowed: a pair \(from, to\)"),
        ({"y": (0, np.inf)}, "y"),
        ({"y": (0, 1, 2)}, r"y: got"),
        ({"resolution": 0}, "resolution: got 0; allowed: an integer, at least 1"),
        ({"resolution": 2.5}, r"resolution: got 2\.5"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        mm.theory.basins(one_input(0.0).problem, **options)


def test_only_one_problem_in_the_plane():
    with pytest.raises(TypeError, match="problem: got list; allowed: a Problem"):
        mm.theory.basins([1.0])
    with pytest.raises(ValueError, match=r"keys of shape \(2, 1, 2, 2\); allowed: \(n, T, 2\)"):
        mm.theory.basins(mm.Problem(np.ones((2, 1, 2, 2)), [1.0], [1.0, 0.0]))
    with pytest.raises(ValueError, match=r"keys of shape \(1, 2, 3\)"):
        mm.theory.basins(mm.Problem(np.ones((1, 2, 3)), [1.0], [1.0, 0.0, 0.0]))


def test_the_map_is_drawn_with_its_rays_and_shares(found):
    drawn = mm.plot.basin(found)
    ax = drawn.image.axes
    assert len(drawn.rays) == 2
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"GMM (0, 0): {found.share[0]:.1%}", f"LMM (0, 1): {found.share[1]:.1%}"]
    pixels = drawn.image.get_array()
    assert pixels.shape == (9, 11, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 2
    bare = mm.plot.basin(found, labels=False, show_tokens=False)
    assert bare.tokens == []
    assert bare.image.axes.get_legend() is None
