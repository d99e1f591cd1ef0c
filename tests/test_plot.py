"""Plots: they return artists, draw where they are told, and leave Matplotlib as they found it."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import fastmm as mm
from fastmm import plot

POINTS = np.cumsum(np.full((31, 2, 2), 0.1), axis=0) * [[1, 1], [1, -1]]
KEYS = np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]])


@pytest.fixture
def ax():
    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.add_subplot()


@pytest.fixture(autouse=True)
def state_is_untouched():
    before = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_paths_draws_a_line_a_start_and_arrows_for_each(ax):
    drawn = plot.paths(POINTS, ax, arrows=10)
    assert (len(drawn.lines), len(drawn.starts), len(drawn.arrows)) == (2, 2, 2)
    np.testing.assert_allclose(drawn.arrows[1].get_offsets(), POINTS[[9, 19, 29], 1])
    assert all(line.axes is ax for line in drawn.lines)
    np.testing.assert_array_equal(drawn.lines[1].get_xydata(), POINTS[:, 1])
    np.testing.assert_array_equal(drawn.starts[0].get_xydata(), POINTS[:1, 0])


def test_paths_can_do_without_arrows(ax):
    assert plot.paths(POINTS, ax, arrows=0).arrows == []


def test_paths_takes_a_recorded_run():
    problem = mm.Problem(KEYS, [1.0, 1.0], [1.0, 2.0])
    run = mm.descend(problem, p0=[[0.0, 0.0], [1.0, 0.0]], steps=20, record=1)
    drawn = plot.paths(run, colors=["red", "blue"], labels=["one", "two"])
    assert [line.get_color() for line in drawn.lines] == ["red", "blue"]
    assert [line.get_label() for line in drawn.lines] == ["one", "two"]


def test_a_run_without_history_says_how_to_record_one():
    problem = mm.Problem(KEYS, [1.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="record=1"):
        plot.paths(mm.descend(problem, steps=5))


@pytest.mark.parametrize(
    "call",
    [
        lambda: plot.paths(np.zeros((5, 3))),
        lambda: plot.paths(np.zeros(2)),
        lambda: plot.paths(POINTS, colors=["red"]),
        lambda: plot.paths(POINTS, labels=["a", "b", "c"]),
        lambda: plot.tokens(np.zeros((2, 3, 4))),
        lambda: plot.tokens(np.zeros((5, 2, 3, 2))),
        lambda: plot.rays([1.0, 2.0, 3.0]),
        lambda: plot.rays(np.eye(2), labels=["one"]),
    ],
)
def test_wrong_shapes_are_refused_with_what_is_allowed(call):
    with pytest.raises(ValueError, match="allowed"):
        call()


def test_tokens_marks_inputs_selection_neighbors_and_numbers(ax):
    neighbors = np.array([[False, True, False], [False, False, True]])
    artists = plot.tokens(KEYS, ax, selected=[0, 1], neighbors=neighbors, color="#ff0000")
    first, second, rings, *texts = artists
    assert first.get_facecolors()[0] == pytest.approx([1, 0, 0, 1])
    assert second.get_facecolors()[1] == pytest.approx([1, 0, 0, 1])
    np.testing.assert_array_equal(rings.get_offsets(), KEYS[neighbors])
    assert [text.get_text() for text in texts] == ["0", "1", "2"] * 2


def test_tokens_of_a_problem_fills_the_best_scores(ax):
    problem = mm.Problem(KEYS, [1.0, 1.0], [0.0, 1.0])
    first, *_ = plot.tokens(problem, ax, labels=False)
    assert tuple(first.get_facecolors()[0]) != tuple(first.get_facecolors()[1])


def test_rays_leave_the_limits_alone_and_reach_beyond_them(ax):
    ax.set(xlim=(-3, 3), ylim=(-2, 2))
    (ray,) = plot.rays([3.0, 4.0], ax, labels=["w"], colors=["black"])
    assert (ax.get_xlim(), ax.get_ylim()) == ((-3, 3), (-2, 2))
    end = ray.get_xydata()[1]
    assert np.hypot(*end) > 5
    assert end / np.hypot(*end) == pytest.approx([0.6, 0.8])


def test_convergence_draws_the_gap_on_logarithmic_axes(ax):
    problem = mm.Problem(KEYS, [1.0, 1.0], [1.0, 2.0])
    run = mm.descend(problem, p0=[[0.0, 0.0], [1.0, 0.0]], steps=200, record=20)
    target = mm.att_svm(problem.K, problem.optimal)
    lines = plot.convergence(run, target, ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(lines) == 2
    expected = 1 - mm.correlation(run.history.p[1:, 0], target.w)
    np.testing.assert_array_equal(lines[0].get_ydata(), expected)
    np.testing.assert_array_equal(plot.convergence(run, target.w, ax)[0].get_ydata(), expected)


def test_curves_leave_out_what_a_logarithm_cannot_show(ax):
    (line,) = plot.curves([0, 1, 2, 3], [5.0, 0.1, 0.0, 1e-3], ax, labels=["gap"])
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_array_equal(line.get_ydata(), [0.1, np.nan, 1e-3])


def test_without_axes_a_figure_of_its_own_is_made():
    lines = [plot.paths(POINTS).lines[0], plot.tokens(KEYS)[0], plot.rays([1.0, 0.0])[0]]
    figures = {line.figure for line in lines}
    assert len(figures) == 3
    assert all(isinstance(figure.canvas, FigureCanvasAgg) for figure in figures)


def test_importing_fastmm_imports_no_plotting_and_no_terminal_library():
    code = "import fastmm, sys; print(sorted({'matplotlib', 'rich', 'typer'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_plotting_does_not_import_pyplot():
    code = "import fastmm as mm, sys; mm.plot.rays([1.0, 0.0]); print('matplotlib.pyplot' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
