"""Scans give what their parts give, instance by instance, and the same bits in any engine and any chunks."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import scan_helpers
from scan_helpers import GRID, SEED, TRIALS, draws, fails_sometimes, same, small, value

import fastmm as mm
from fastmm.scans.grid import identity
from fastmm.scans.streams import Streams, cell_key

pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def whole():
    return small()


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"chunk": 1}, {"chunk": 1000}, {"chunk": 5}])
def test_threads_and_chunks_leave_every_bit(whole, options):
    assert same(whole, small(**options))


@pytest.mark.parametrize("train", ["pv", "W", "Wv", "KQ"])
def test_chunks_leave_every_bit_of_other_runs(train):
    grid = {"n": 3, "T": 4, "d": 3, "steps": 60, "train": train}
    assert same(small(grid=grid, trials=9, chunk=1), small(grid=grid, trials=9, chunk=9))


def test_two_processes_leave_every_bit(whole):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert same(whole, small(executor=pool, chunk=7))


def test_a_thread_pool_of_the_user_leaves_every_bit_and_stays_open(whole):
    with ThreadPoolExecutor(3) as pool:
        assert same(whole, small(executor=pool, chunk=7))
        assert pool.submit(len, "ab").result() == 2


def test_more_trials_keep_the_old_ones(whole):
    assert same(whole, small(trials=2 * TRIALS + 1).isel(trial=slice(TRIALS)))


def test_more_values_and_axes_keep_the_old_cells(whole):
    more = small(grid=GRID | {"d": [3, 4, 2], "steps": [60, 10]})
    assert same(whole, more.sel(d=[2, 4], steps=60))


def test_seeds_differ_and_do_not_overlap():
    """With the rule "seed + trial", scans 100 and 101 would share all but one of their instances."""
    keys = [cell_key(seed, text) for seed in (100, 101, 2**80) for text in ("a", "b")]
    found = {z.tobytes() for key in keys for z in Streams(key, 0, 4).normals(6)}
    assert len(found) == 4 * len(keys)


def test_the_stream_of_a_trial_is_numpys():
    """The rule as stated: SeedSequence of seed and cell gives the key of Philox, the trial its counter."""
    key = cell_key(3, identity({"d": 2}))
    streams = Streams(key, 10, 3)
    rng = np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=[0, 0, 11, 0]))
    want = rng.standard_normal(50)
    assert np.array_equal(streams.normals(50)[1], want)
    assert np.array_equal([one.standard_normal(50) for one in streams][1], want)


@pytest.mark.parametrize("generator", ["sphere", "gaussian", "mixture", "benign"])
def test_rows_are_what_the_parts_give(generator):
    """Each row against single calls of descend, att_svm and local_optimality on the trial's own problem."""
    cell = {"n": 3, "T": 4, "d": 5, "generator": generator, "steps": 200, "lr": 0.2, "rule": "normalized"}
    data = mm.scan("converge", cell, 12, SEED, progress=False)
    kind = mm.scans.generators.GENERATORS[generator]
    full = cell | {"generator": kind, "loss": "logistic", "train": "p"}
    normals = Streams(cell_key(SEED, identity(full)), 0, 12).normals(kind.width(3, 4, 5))
    made = kind.draw(normals, 3, 4, 5, False)
    for trial in range(12):
        problem = mm.Problem(**{name: array[trial] for name, array in made.items()})
        run = mm.descend(problem, steps=200, lr=0.2)
        verdict = mm.theory.local_optimality(problem, run.selected)
        row = {name: data[name].values[trial] for name in data.data_vars}
        assert row["saturation"] == pytest.approx(run.saturation, rel=1e-14)
        assert row["saturated"] == (run.saturation >= 0.999)
        assert row["norm"] == pytest.approx(run.norm, rel=1e-14)
        assert row["status"] == verdict.solution.status
        assert row["locally_optimal"] == verdict.locally_optimal
        assert row["globally_optimal"] == verdict.globally_optimal
        worse = [np.sum(problem.scores[i] > problem.scores[i, t]) for i, t in enumerate(run.selected)]
        assert row["selected_score_rank"] == max(worse)
        if verdict.feasible:
            assert row["min_score_gap"] == pytest.approx(verdict.min_score_gap, rel=1e-12)
            assert row["correlation"] == pytest.approx(mm.correlation(run.p, verdict.solution.w), rel=1e-12)
        else:
            assert np.isnan(row["correlation"])


def test_the_replica_of_the_papers_appendix():
    """Appendix E: runs in more dimensions saturate, and end near the max-margin direction of what they selected."""
    data = mm.scan("converge", {"n": 4, "T": 6, "d": [4, 8], "steps": 2000}, 60, 1, progress=False)
    saturated = data.where(data.saturated)
    assert (saturated.correlation.mean("trial") >= 0.995).all()
    assert ((saturated.min_score_gap < 0).mean("trial") <= 0.05).all()
    assert (data.saturated.mean("trial") >= 0.85).all()


def test_a_function_of_one_trial():
    data = mm.scan(value, {"k": [1, 2, 3]}, 6, 0, progress=False, chunk=4)
    assert data.value.shape == (3, 6)
    rng = next(iter(Streams(cell_key(0, identity({"k": 2})), 5, 1)))
    assert data.value.sel(k=2).values[5] == value(rng, 2)


def test_a_function_that_returns_the_name_of_an_axis_is_refused():
    with pytest.raises(ValueError, match="variable 'd'"):
        mm.scan(draws, {"d": [1, 2, 3]}, 6, 0, progress=False)


def test_kinds_of_numbers_are_kept():
    def kinds(rng, k):
        return {"real": rng.random(), "count": int(rng.integers(100)), "flag": bool(rng.random() < 0.5)}

    data = mm.scan(kinds, {"k": [1, 2]}, 5, 0, progress=False)
    assert [data[name].dtype for name in ("real", "count", "flag")] == [np.float64, np.int64, np.bool_]


def test_batched_functions_equal_single_ones():
    @mm.scans.batched
    def together(streams, k):
        return {"value": np.array([rng.standard_normal() for rng in streams]) + k}

    many = mm.scan(together, {"k": [1, 2]}, 9, 0, progress=False, chunk=4)
    assert same(many, mm.scan(value, {"k": [1, 2]}, 9, 0, progress=False))


def test_failures_are_rows_with_a_status():
    data = mm.scan(fails_sometimes, {"d": [2, 3]}, 60, 1, progress=False, chunk=16)
    status, x = data.status.values, data.x.values
    assert {0, 5, 8} == set(status.ravel().tolist())
    assert np.array_equal(np.isnan(x), status != 0)
    assert "x is too small for d=2" in data.attrs["errors"]
    counts = mm.scans.summarise(data)
    assert counts.outcomes.sel(outcome="error").values.tolist() == (status == 5).sum(1).tolist()
    assert counts.x.sel(statistic="count").values.tolist() == (status == 0).sum(1).tolist()


def test_a_bad_instance_of_a_generator_fails_alone():
    """The batch is done again one by one, and the others' rows are those of a scan without it."""

    def spoilt(rng, n, T, d):
        X = rng.standard_normal((n, T, d))
        if abs(X[0, 0, 0]) < 0.5:
            X[0, 0, 0] = np.nan
        return X, np.ones(n), rng.standard_normal(d)

    grid = {"n": 2, "T": 3, "d": 2, "generator": spoilt, "steps": 20}
    data = mm.scan("converge", grid, 30, 0, progress=False, chunk=30)
    bad = data.status.values == mm.scans.Outcome.error
    assert 0 < bad.sum() < 30
    assert "X: entry" in data.attrs["errors"]
    assert same(data, mm.scan("converge", grid, 30, 0, progress=False, chunk=1))
    assert np.isfinite(data.norm.values[~bad]).all()


def test_no_separation_and_no_direction_are_said():
    def equal(rng, n, T, d):
        return np.ones((n, T, d)), np.ones(n), np.ones(d)

    data = mm.scan("converge", {"n": 1, "T": [1, 2], "d": 2, "generator": equal}, 2, 0, progress=False)
    assert (data.status == mm.scans.Outcome.no_direction).all()
    assert data.correlation.isnull().all()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nothing", {}, 1, 0), "task: got 'nothing'"),
        (("converge", {"n": 2, "T": 3}, 1, 0), "has no d"),
        (("converge", {"n": 2, "T": 3, "d": 0}, 1, 0), "d=0"),
        (("converge", {"n": 2, "T": 3, "d": []}, 1, 0), "d has no values"),
        (("converge", {"n": 2, "T": 3, "d": [2, 2]}, 1, 0), "twice"),
        (("converge", {"n": 2, "T": 3, "d": 2, "colour": 1}, 1, 0), "'colour'; allowed"),
        (("converge", {"n": 2, "T": 3, "d": 2, "train": "v"}, 1, 0), "train='v'"),
        (("converge", {"n": 2, "T": 2, "d": 2, "generator": "benign"}, 1, 0), "T of 3 or more"),
        (("converge", {"n": 2, "T": 2, "d": 2, "lr": -1}, 1, 0), "lr=-1"),
        (("converge", {"n": 2, "T": 3, "d": 2}, 0, 0), "trials: got 0"),
        (("converge", {"n": 2, "T": 3, "d": 2}, 1, -1), "seed: got -1"),
        ((value, {"trial": 2}, 1, 0), "'trial'"),
    ],
)
def test_arguments_that_make_no_scan_are_named(arguments, told):
    with pytest.raises(ValueError, match=told):
        mm.scan(*arguments, progress=False)


def test_functions_that_cannot_travel_are_refused_at_once():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(ValueError, match="cannot be sent"):
            mm.scan(lambda rng, k: k, {"k": 1}, 1, 0, executor=pool, progress=False)
        assert same(
            mm.scan(value, {"k": [1, 2]}, 3, 0, executor=pool, progress=False),
            mm.scan(scan_helpers.value, {"k": [1, 2]}, 3, 0, progress=False),
        )
