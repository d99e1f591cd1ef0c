"""Whole runs: against the reference, their records and reasons, invariances, and where they go."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_helpers import LOSSES, RULES, inputs_of, problem_of, rng

import fastmm as mm
from fastmm import reference

# Figure 1 of the paper: one input, three tokens; in (a) tokens 1 and 2 tie, in (b) they do not.
FIGURE_K = np.array([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
FIGURE_STARTS = np.array([[0.0, b] for b in (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)])
P_MM = np.array([-0.0990099, 0.9900990])


def figure(last, dtype=np.float64):
    scores = np.array([[[1.0], [0.9], [last]]], dtype=dtype)
    return mm.Problem(scores, np.ones(1, dtype), np.ones(1, dtype), K=FIGURE_K.astype(dtype))


def reference_path(problem, p0, steps, lr, rule, loss, own=()):
    _, K, S, _, _ = inputs_of(problem, own)
    assert len({len(s) for s in S}) == 1
    return reference.descend(np.array(K), np.array(S), np.asarray(p0, dtype=float), steps, lr, rule, loss)


# n, T, d: a lane each, and (last two) large enough for the layout with lanes along the rows
SHAPES = [(1, 2, 1), (1, 3, 2), (2, 3, 5), (6, 8, 10), (3, 9, 4), (2, 17, 7), (5, 5, 16), (4, 40, 52), (33, 16, 17)]
IDS = ["x".join(map(str, s)) for s in SHAPES]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES, ids=IDS)
def test_runs_agree_with_the_reference(shape, loss, rule):
    """Every iterate of a run, in both layouts, is the reference's up to rounding."""
    problem = problem_of(1, *shape)
    p0, steps = 0.3 * rng(2).normal(size=shape[2]), 60 if np.prod(shape) < 8000 else 12
    lr = 0.02 if rule == "normalized" else 0.3
    run = mm.descend(problem, p0, steps=steps, lr=lr, rule=rule, loss=loss, record=1)
    path = reference_path(problem, p0, steps, lr, rule, loss)
    assert np.allclose(run.history.p, path, rtol=0, atol=1e-10 * max(1, np.abs(path).max()))
    assert np.array_equal(run.p, run.history.p[-1])
    assert (run.steps_done, run.stop_reason) == (steps, "steps")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(1, 3, 2), (6, 8, 10), (33, 16, 17)], ids=["1x3x2", "6x8x10", "33x16x17"])
def test_float32_runs_follow(shape, loss, rule):
    """A float32 run stays in float32 and near the double run of the same numbers."""
    problem = problem_of(3, *shape, dtype=np.float32)
    lr = 0.02 if rule == "normalized" else 0.3
    run = mm.descend(problem, steps=30, lr=lr, rule=rule, loss=loss)
    path = reference_path(problem, np.zeros(shape[2]), 30, lr, rule, loss)
    assert run.p.dtype == np.float32
    assert np.allclose(run.p, path[-1], atol=2e-4 * np.abs(path[-1]).max())


@pytest.mark.parametrize("shape", [(3, 5, 4), (40, 16, 20)], ids=["lanes", "rows"])
def test_ragged_runs_are_runs_of_the_shorter_inputs(shape):
    """Padding takes no part: an input cut to one length by `lengths` gives the run of the cut problem."""
    problem = problem_of(4, *shape)
    cut = mm.Problem(problem.X[:, :3], problem.Y, problem.v)
    x = problem.X.copy()
    x[:, 3:] = np.nan
    padded = mm.Problem(x, problem.Y, problem.v, lengths=np.full(shape[0], 3))
    a, b = (mm.descend(q, steps=40, lr=0.05) for q in (padded, cut))
    assert np.allclose(a.p, b.p, rtol=0, atol=1e-12)
    assert not a.weights[:, 3:].any()


@pytest.mark.parametrize("loss", LOSSES)
def test_mixed_lengths_follow_the_direction(loss):
    """Every step of a run on inputs of different lengths is along the descent direction at its iterate."""
    problem = problem_of(5, 4, 6, 3, ragged=True)
    run = mm.descend(problem, steps=30, lr=0.05, loss=loss, record=1)
    for now, then in zip(run.history.p[:-1], run.history.p[1:], strict=True):
        assert np.allclose(then - now, 0.05 * mm.descent_direction(problem, now, loss).direction, atol=1e-13)


def test_scores_of_any_size():
    """Large scores, whose loss slopes leave the range of doubles, give the run of the reference."""
    for loss in LOSSES:
        for scale in (150.0, 250.0, 1e4):
            scores = scale * rng(6).integers(-8, 9, size=(2, 4)) / 8
            problem = mm.Problem(scores[..., None], np.ones(2), np.ones(1), K=rng(7).normal(size=(2, 4, 3)))
            run = mm.descend(problem, steps=20, lr=0.01, loss=loss)
            path = reference_path(problem, np.zeros(3), 20, 0.01, "normalized", loss)
            assert np.allclose(run.p, path[-1], atol=1e-9)


# Records


RECORDS = {
    "every": (3, [0, 3, 6, 9, 10]),
    "one": (1, list(range(11))),
    "all at once": (10, [0, 10]),
    "beyond": (25, [0, 10]),
    "numpy": (np.int32(5), [0, 5, 10]),
    "some": ([2, 7], [2, 7]),
    "ends": (np.array([0, 10]), [0, 10]),
    "start": ([0], [0]),
    "none of them": ([], []),
}


@pytest.mark.parametrize("shape", [(2, 3, 5), (33, 16, 17)], ids=["lanes", "rows"])
@pytest.mark.parametrize("case", RECORDS)
def test_records(case, shape):
    """A record holds the iterates after the steps asked for, start and end included when it says every so many."""
    record, steps = RECORDS[case]
    problem = problem_of(8, *shape)
    whole = mm.descend(problem, steps=10, record=1).history
    history = mm.descend(problem, steps=10, record=record).history
    assert history.steps.tolist() == steps
    assert np.array_equal(history.p, whole.p[steps])


def test_no_record_no_history():
    """Without record there is no history, and the run ends the same."""
    problem = problem_of(8, 2, 3, 5)
    run = mm.descend(problem, steps=10)
    assert run.history is None
    assert np.array_equal(run.p, mm.descend(problem, steps=10, record=1).p)


def test_histories_know_norm_loss_and_saturation():
    """Norms, risks and saturations of the recorded iterates are those computed one by one, for batches too."""
    problem = problem_of(9, 3, 4, 2, batch=(2,))
    run = mm.descend(problem, np.ones((3, 1, 2)), steps=20, record=[0, 5, 20])
    history = run.history
    assert history.p.shape == (3, 3, 2, 2)
    for k in range(3):
        p = history.p[k]
        assert np.allclose(history.norm[k], np.linalg.norm(p, axis=-1), rtol=1e-15)
        assert np.array_equal(history.loss[k], mm.loss_and_grad(problem, p).loss)
    assert np.array_equal(history.saturation[-1], run.saturation)
    assert np.array_equal(history.loss[-1], run.loss)


def test_a_trajectory_knows_its_end():
    """Direction, norm, loss, weights, selected tokens and saturation are those at the end point."""
    problem = problem_of(10, 3, 4, 2, d_k=5, ragged=True)
    run = mm.descend(problem, steps=200)
    assert np.allclose(run.direction * run.norm, run.p, rtol=1e-15)
    assert run.loss == mm.loss_and_grad(problem, run.p).loss
    logits = problem.K @ run.p
    weights = mm.softmax(np.where(problem.real_tokens, logits, -np.inf))
    assert np.allclose(run.weights, weights, rtol=1e-12, atol=1e-300)
    assert run.selected.tolist() == weights.argmax(-1).tolist()
    assert run.saturation == run.weights.max(-1).min()
    assert np.array_equal(run.v, problem.v)
    assert run.W is None
    for name in ("p", "norm", "loss"):
        assert getattr(run, name).dtype == np.float64


# Batches


def test_starts_and_rates_broadcast():
    """Starts, step sizes and problems broadcast; every run of the batch is the run alone, bit for bit."""
    problem = problem_of(11, 3, 4, 5, batch=(2,))
    p0, lr = rng(12).normal(size=(4, 1, 5)), np.array([[0.1], [0.01], [0.3], [1.0]])
    run = mm.descend(problem, p0, steps=50, lr=lr, record=[10])
    assert run.p.shape == (4, 2, 5)
    assert run.steps_done.shape == run.stop_reason.shape == run.norm.shape == (4, 2)
    assert run.weights.shape == (4, 2, 3, 4)
    for a, b in np.ndindex(4, 2):
        one = mm.Problem(problem.X[b], problem.Y[b], problem.v[b])
        alone = mm.descend(one, p0[a, 0], steps=50, lr=lr[a, 0], record=[10])
        assert np.array_equal(run.p[a, b], alone.p)
        assert np.array_equal(run.history.p[:, a, b], alone.history.p)
        assert (run.steps_done[a, b], run.stop_reason[a, b]) == (alone.steps_done, alone.stop_reason)


def test_an_empty_batch_runs():
    """A batch of no problems has no runs."""
    run = mm.descend(mm.Problem(np.zeros((0, 2, 3, 4)), np.ones(2), np.ones(4)), steps=5, record=2)
    assert run.p.shape == (0, 4)
    assert run.history.p.shape == (4, 0, 4)


def test_a_run_of_no_steps():
    """With 0 steps the start is the end."""
    problem = problem_of(13, 2, 3, 4)
    run = mm.descend(problem, np.ones(4), steps=0, record=5)
    assert np.array_equal(run.p, np.ones(4))
    assert (run.steps_done, run.stop_reason) == (0, "steps")
    assert run.history.steps.tolist() == [0]
    at_zero = mm.descend(problem, steps=0)
    assert at_zero.norm == 0
    assert np.isnan(at_zero.direction).all()


def test_the_start_is_not_changed():
    """The user's start stays as it was, in the problem's dtype and in others."""
    for dtype in (np.float64, np.float32):
        problem = problem_of(14, 2, 3, 4, dtype=dtype)
        p0 = np.ones(4, dtype=dtype)
        run = mm.descend(problem, p0, steps=5)
        assert np.array_equal(p0, np.ones(4))
        assert not np.shares_memory(run.p, p0)


# Reasons to stop


STOPPED = {
    "one token": np.ones((3, 1, 2)),
    "equal keys": np.broadcast_to(rng(15).normal(size=(3, 1, 2)), (3, 4, 2)),
    "many of one key": np.ones((40, 60, 4)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", STOPPED)
def test_zero_gradients_stop_at_once(case, rule):
    """A gradient that is exactly zero ends the run before any step, and the record stays at the start."""
    K = STOPPED[case]
    n, T, d = K.shape
    problem = mm.Problem(rng(16).normal(size=(n, T, 1)), np.ones(n), np.ones(1), K=K)
    run = mm.descend(problem, np.full(d, 0.3), steps=100, rule=rule, record=50)
    assert (run.steps_done, run.stop_reason) == (0, "zero_gradient")
    assert np.array_equal(run.history.p, np.full((3, d), 0.3))


def test_flat_scores_stop_and_the_rest_of_the_batch_goes_on():
    """In a batch the run with equal scores stops, its neighbours in the same vector do not."""
    v = np.ones((20, 3))
    v[7] = 0
    problem = mm.Problem(rng(17).normal(size=(2, 3, 3)), np.ones(2), v)
    run = mm.descend(problem, np.ones(3), steps=30)
    assert run.stop_reason.tolist() == ["zero_gradient" if b == 7 else "steps" for b in range(20)]
    assert run.steps_done.tolist() == [0 if b == 7 else 30 for b in range(20)]
    assert np.array_equal(run.p[7], np.ones(3))
    others = np.arange(20) != 7
    assert np.array_equal(
        run.p[others], mm.descend(mm.Problem(problem.X, problem.Y, v[others]), np.ones(3), steps=30).p
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 2, 9000)], ids=["lanes", "rows"])
def test_steps_out_of_range_stop_before_they_are_taken(shape, rule, dtype):
    """A gigantic step ends the run with its reason at the last iterate that is a number, in both layouts."""
    d = shape[2]
    K = np.zeros(shape, dtype=dtype)
    K[0, 0] = 1e-3
    most = float(np.finfo(dtype).max)
    near_the_end = d == 1 and rule == "normalized"
    p0 = np.full(d, 0.9 * most if near_the_end else 0.0)
    problem = mm.Problem(np.array([[[1e5], [0]]], dtype), np.ones(1, dtype), np.ones(1, dtype), K=K)
    run = mm.descend(problem, p0, steps=200, lr=0.9 * most, rule=rule, loss="correlation", record=[0, 1, 200])
    assert run.stop_reason == "overflow"
    assert (run.steps_done == 0) == (rule == "gradient" or near_the_end)
    assert np.isfinite(run.p).all()
    assert np.array_equal(run.history.p[-1], run.p)
    if run.steps_done == 0:
        assert np.array_equal(run.p, p0.astype(dtype))


@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 60, 80)], ids=["lanes", "rows"])
def test_slopes_out_of_range_stop_a_plain_run(shape):
    """An exponential loss whose gradient no double holds stops with "overflow" where it was, in both layouts."""
    K = np.zeros(shape)
    K[:, 0] = 1.0
    scores = np.full((*shape[:2], 1), -1000.0)
    scores[:, 0] = -1001.0
    run = mm.descend(
        mm.Problem(scores, np.ones(shape[0]), np.ones(1), K=K), steps=5, rule="gradient", loss="exponential"
    )
    assert (run.steps_done, run.stop_reason) == (0, "overflow")
    assert not run.p.any()


@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 60, 80)], ids=["lanes", "rows"])
def test_small_slopes_times_large_rates(shape):
    """A plain step whose gradient underflows but whose product with the rate does not is taken, in both layouts."""
    K = np.zeros(shape)
    K[:, 0] = 1.0
    scores = np.full((*shape[:2], 1), 720.0)
    scores[:, 0] = 721.0
    problem = mm.Problem(scores, np.ones(shape[0]), np.ones(1), K=K)
    run = mm.descend(problem, steps=1, lr=1e300, rule="gradient", loss="exponential")
    path = reference_path(problem, np.zeros(shape[2]), 1, 1e300, "gradient", "exponential")
    assert np.abs(path[-1]).max() > 0
    assert np.allclose(run.p, path[-1], rtol=1e-11, atol=0)


def test_logits_out_of_range_stop_the_run():
    """Where the logits K p leave the doubles the run stops with "overflow", in both layouts and both directions."""
    for shape in ((1, 2, 1), (2, 60, 80)):
        for sign in (1.0, -1.0):
            K = np.zeros(shape)
            K[:, 0] = 100.0
            problem = mm.Problem(rng(18).normal(size=(*shape[:2], 1)), np.ones(shape[0]), np.ones(1), K=K)
            run = mm.descend(problem, np.full(shape[2], sign * 1e307), steps=5)
            assert (run.steps_done, run.stop_reason) == (0, "overflow")


def test_a_plain_step_too_small_to_move_goes_on():
    """A gradient that is not zero, however small, does not stop a plain run."""
    problem = mm.Problem([[[1.0], [0.0]]], [1.0], [1.0])
    run = mm.descend(problem, [5000.0], steps=20, rule="gradient")
    assert (run.steps_done, run.stop_reason, run.p.tolist()) == (20, "steps", [5000.0])


def test_the_number_of_steps_may_be_astronomic():
    """A run that stops at once does so whatever number of steps was asked for."""
    problem = mm.Problem([[[1.0], [1.0]]], [1.0], [1.0])
    assert mm.descend(problem, steps=2**62 - 1).stop_reason == "zero_gradient"


# Where runs go


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_figure_1a_all_starts_go_to_the_global_direction(dtype):
    """Figure 1(a): all six starts turn to p_mm of the best token, within 1000 steps to 0.9997."""
    run = mm.descend(figure(0.9, dtype), FIGURE_STARTS, steps=1000)
    assert np.all(run.direction @ (P_MM / np.linalg.norm(P_MM)) >= 0.9997)
    assert np.all(run.selected == 0)


def test_figure_1b_two_starts_stay_local():
    """Figure 1(b): the two starts below go to the locally optimal direction (1, 0), the four above to p_mm."""
    run = mm.descend(figure(0.0), FIGURE_STARTS, steps=1000)
    toward = np.where((FIGURE_STARTS[:, 1] <= -1)[:, None], [1.0, 0.0], P_MM / np.linalg.norm(P_MM))
    assert np.all((run.direction * toward).sum(-1) >= 0.9995)
    assert run.selected[:, 0].tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_long_runs_converge(dtype):
    """After 20,000 steps the direction is p_mm to 1e-6, in either precision: nothing stalls at large norms."""
    run = mm.descend(figure(0.9, dtype), FIGURE_STARTS, steps=20_000)
    assert np.all(run.direction.astype(float) @ (P_MM / np.linalg.norm(P_MM)) >= 1 - 1e-6)
    assert np.all(run.norm > 1500)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rotation", [0.0, 0.5, 2.5])
def test_saturated_starts_keep_moving_and_turning(rotation, dtype):
    """From ||p|| = 1e6 every step still has its length, and turns p towards p_mm."""
    turned = np.array([[np.cos(rotation), -np.sin(rotation)], [np.sin(rotation), np.cos(rotation)]]) @ [0.1, 1.0]
    p0 = 1e6 * turned / np.linalg.norm(turned)
    problem = figure(0.0, dtype)
    run = mm.descend(problem, p0, steps=4000, lr=1e3, record=1)
    moved = np.diff(run.history.p.astype(float), axis=0)
    assert np.allclose(np.linalg.norm(moved, axis=-1), 1e3, rtol=1e-3)
    target = [1.0, 0.0] if run.selected[0] == 1 else P_MM / np.linalg.norm(P_MM)
    turning = run.direction @ target, run.history.p[0] @ target / 1e6
    assert turning[0] > turning[1]
    assert turning[0] >= 0.95


def test_small_steps_are_not_lost_in_float32():
    """Steps far below the spacing of a large p add up: what rounding takes is carried along."""
    problem = mm.Problem(np.array([[[1.0], [0.0]]], np.float32), np.ones(1, np.float32), np.ones(1, np.float32))
    run = mm.descend(problem, [1000.0], steps=10_000, lr=1e-5)
    assert run.p[0] == pytest.approx(1000.1, abs=1e-4)


# Invariances


def runs(problem, p0, **given):
    return mm.descend(problem, p0, steps=25, record=1, **given).history.p


SEEDS = st.integers(0, 10**6)
SHAPE = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 5))
PROBLEMS = {"seed": SEEDS, "shape": SHAPE, "loss": st.sampled_from(LOSSES), "rule": st.sampled_from(RULES)}
QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def keyed(seed, shape):
    r = rng(seed, *shape)
    n, T, d = shape
    return r, r.normal(size=(n, T, 1)), r.normal(size=shape), r.normal(size=d)


def with_keys(scores, K):
    return mm.Problem(scores, np.ones(len(K)), np.ones(1), K=K)


@QUICK
@given(**PROBLEMS)
def test_a_constant_added_to_an_inputs_keys_changes_nothing(seed, shape, loss, rule):
    """Softmax sees differences only: adding one vector to all keys of an input leaves the run."""
    r, scores, K, p0 = keyed(seed, shape)
    shifted = K + r.normal(size=(shape[0], 1, shape[2]))
    a, b = (runs(with_keys(scores, k), p0, loss=loss, rule=rule, lr=0.05) for k in (K, shifted))
    assert np.allclose(a, b, rtol=0, atol=1e-9)


@QUICK
@given(**PROBLEMS)
def test_the_order_of_tokens_and_inputs_does_not_matter(seed, shape, loss, rule):
    """Permuting the tokens of every input, and the inputs, leaves the run."""
    r, scores, K, p0 = keyed(seed, shape)
    order = np.argsort(r.random(shape[:2]), axis=1)[..., None]
    inputs = r.permutation(shape[0])
    moved = with_keys(np.take_along_axis(scores, order, 1)[inputs], np.take_along_axis(K, order, 1)[inputs])
    a, b = (runs(q, p0, loss=loss, rule=rule, lr=0.05) for q in (with_keys(scores, K), moved))
    assert np.allclose(a, b, rtol=0, atol=1e-9)


@QUICK
@given(**PROBLEMS)
def test_rotations_turn_the_run(seed, shape, loss, rule):
    """Keys and start turned by an orthogonal matrix give the turned run."""
    r, scores, K, p0 = keyed(seed, shape)
    Q = np.linalg.qr(r.normal(size=(shape[2], shape[2])))[0]
    a = runs(with_keys(scores, K), p0, loss=loss, rule=rule, lr=0.05)
    b = runs(with_keys(scores, K @ Q), p0 @ Q, loss=loss, rule=rule, lr=0.05)
    assert np.allclose(a @ Q, b, rtol=0, atol=1e-9)


@QUICK
@given(power=st.integers(-8, 8), **PROBLEMS)
def test_scaled_keys_scale_the_run(seed, shape, loss, rule, power):
    """Keys times c, start and step over c (c squared in a plain run) give the run over c, exactly for powers of 2."""
    _, scores, K, p0 = keyed(seed, shape)
    c = 2.0**power
    a = runs(with_keys(scores, K), p0, loss=loss, rule=rule, lr=0.05)
    lr = 0.05 / c if rule == "normalized" else 0.05 / c**2
    b = runs(with_keys(scores, K * c), p0 / c, loss=loss, rule=rule, lr=lr)
    assert np.array_equal(a, b * c)


def test_the_two_layouts_agree():
    """A problem too large for the lanes, made by repeating the inputs of a small one, runs like the small one."""
    small = problem_of(19, 5, 7, 6)
    times = 8192 // (5 * 7 * 6) + 1
    large = mm.Problem(np.tile(small.X, (times, 1, 1)), np.tile(small.Y, times), small.v)
    for loss in LOSSES:
        for rule, lr in (("normalized", 0.05), ("gradient", 0.5)):
            a, b = (
                mm.descend(q, np.full(6, 0.2), steps=60, lr=lr, rule=rule, loss=loss, record=20) for q in (small, large)
            )
            assert np.allclose(a.history.p, b.history.p, rtol=0, atol=1e-10)


# Objects and errors


def test_trajectories_survive_pickling():
    """A trajectory, its history and its problem are pickled and copied equal; different runs differ."""
    problem = problem_of(20, 2, 3, 4, batch=(3,))
    run = mm.descend(problem, steps=10, record=5)
    _ = run.loss, run.history.norm
    for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
        assert other == run
        assert np.array_equal(other.loss, run.loss)
        assert np.array_equal(other.history.saturation, run.history.saturation)
    assert run != mm.descend(problem, steps=11, record=5)
    assert run != mm.descend(problem, steps=10)
    assert run != "run"
    with pytest.raises(TypeError, match=r"unhashable"):
        hash(run)


def test_trajectories_are_frozen():
    """The parts of a trajectory and of its history cannot be replaced."""
    run = mm.descend(problem_of(21, 2, 3, 4), steps=1, record=1)
    with pytest.raises(AttributeError):
        run.p = 0
    with pytest.raises(AttributeError):
        run.history.p = 0


REFUSED = {
    "rule": ({"rule": "newton"}, "^rule: got 'newton'; allowed: 'normalized', 'gradient'"),
    "train": ({"train": "q"}, "^train: got 'q'; allowed"),
    "loss": ({"loss": "hinge"}, "^loss: got 'hinge'; allowed"),
    "steps negative": ({"steps": -1}, "^steps: got -1; allowed: an integer, 0 or more"),
    "steps float": ({"steps": 10.0}, r"^steps: got 10\.0; allowed: an integer"),
    "steps bool": ({"steps": True}, "^steps: got True"),
    "steps huge": ({"steps": 2**62}, "^steps: got 4611"),
    "lr zero": ({"lr": 0.0}, r"^lr: got 0\.0; allowed: positive numbers"),
    "lr negative": ({"lr": [0.1, -0.2]}, r"^lr: got -0\.2; allowed: positive"),
    "lr nan": ({"lr": np.nan}, "^lr: .*nan"),
    "lr batch": ({"lr": [0.1, 0.1], "p0": np.ones((3, 4))}, r"^batch dimensions .*p0 \(3,\).*lr \(2,\)"),
    "p0 width": ({"p0": np.ones(3)}, r"^p0: got shape \(3,\); allowed: \(\.\.\., d_k=4\) to match the keys"),
    "p0 scalar": ({"p0": 1.0}, r"^p0: got shape \(\)"),
    "p0 inf": ({"p0": [np.inf, 0, 0, 0]}, r"^p0: entry \[0\] is inf"),
    "record zero": ({"record": 0}, "^record: got 0; allowed: a positive integer or increasing step numbers"),
    "record negative": ({"record": -2}, "^record: got -2"),
    "record float": ({"record": 2.5}, r"^record: got 2\.5"),
    "record floats": ({"record": [1.0]}, "^record: got dtype float64; allowed: integers"),
    "record beyond": (
        {"record": [1, 1001]},
        r"^record: got \[1, 1001\]; allowed: increasing step numbers in 0\.\.1000",
    ),
    "record before": ({"record": [-1, 3]}, r"^record: got \[-1, 3\]"),
    "record twice": ({"record": [3, 3]}, r"^record: got \[3, 3\]"),
    "record unsorted": ({"record": [3, 2]}, r"^record: got \[3, 2\]"),
    "record matrix": ({"record": [[1, 2]]}, r"^record: got shape \(1, 2\); allowed: \(R,\)"),
    "threads": ({"threads": 0}, "^threads: got 0; allowed"),
    "threads many": ({"threads": 2**40}, "^threads: got 1099511627776; allowed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_run_is_refused(case):
    """Unknown names, wrong shapes, counts and rates are a ValueError naming argument, given and allowed."""
    values, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        mm.descend(problem_of(22, 2, 3, 4), **values)
