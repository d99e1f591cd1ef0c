"""Runs of every kind: each parameter and each step rule against plain NumPy, Lemma 1, and runs to any norm."""

import numpy as np
import pytest
from kernel_helpers import LOSSES, problem_of, rng

import fastmm as mm
from fastmm import reference_runs

KINDS = {
    "p": ("p",),
    "v": ("v",),
    "pv": ("p", "v"),
    "W": ("W",),
    "Wv": ("W", "v"),
    "KQ": ("Q", "K"),
    "KQv": ("Q", "K", "v"),
}
RULES = {
    "normalized": mm.rules.Normalized(),
    "gradient": mm.rules.Gradient(),
    "sign": mm.rules.Sign(),
    "momentum": mm.rules.Momentum(0.7),
    "adam": mm.rules.Adam(0.8, 0.95, 1e-3),
    "adam without epsilon": mm.rules.Adam(epsilon=0),
}
SETTINGS = {
    "momentum": {"momentum": 0.7},
    "adam": {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3},
    "adam without epsilon": {"beta1": 0.9, "beta2": 0.999, "epsilon": 0.0},
}
D_Q, INNER = 3, 2


def case_of(seed, n=3, T=4, d=5, dtype=np.float64, lengths=None):
    """A problem with queries, keys equal to values, and starts of every parameter."""
    random = rng(seed)
    X = random.normal(size=(n, T, d)).astype(dtype)
    Y = np.sign(random.normal(size=n)).astype(dtype)
    Z = random.normal(size=(n, D_Q)).astype(dtype)
    v = random.normal(size=d).astype(dtype)
    starts = {
        "p": 0.3 * random.normal(size=d),
        "v": random.normal(size=d),
        "W": 0.3 * random.normal(size=(D_Q, d)),
        "Q": random.normal(size=(D_Q, INNER)),
        "K": 0.5 * random.normal(size=(d, INNER)),
    }
    starts = {name: start.astype(dtype) for name, start in starts.items()}
    return mm.Problem(X, Y, v, Z=Z, lengths=lengths), starts


def arguments(train, starts):
    """The starts as `descend` takes them."""
    names = KINDS[train]
    out = {}
    if "v" in names:
        out["v0"] = starts["v"]
    if "p" in names or train == "v":
        out["p0"] = starts["p"]
    if "W" in names:
        out["W0"] = starts["W"]
    if "Q" in names:
        out["W0"] = (starts["Q"], starts["K"])
    return out


def model_of(problem, train, starts):
    """The parameters of the model of a run, the head included."""
    names = KINDS[train]
    own = {"v": starts["v"] if "v" in names else problem.v.astype(float)}
    for name in ("p",) if train == "v" else [k for k in names if k != "v"]:
        own[name] = starts[name]
    return {name: np.asarray(value, dtype=float) for name, value in own.items()}


def plain_run(problem, train, starts, steps, lr, rule, loss, **more):
    X, Y, Z = (a.astype(float) for a in (problem.X, problem.Y, problem.Z))
    schedule = lr if callable(lr) else lambda k: lr
    return reference_runs.run(
        model_of(problem, train, starts),
        KINDS[train],
        lambda at: reference_runs.gradients(X, Y, at, loss, Z=Z),
        steps,
        schedule,
        rule.split(" ", maxsplit=1)[0],
        SETTINGS.get(rule),
        **more,
    )


def assert_same_path(run, path, names, tolerance=1e-9):
    for name in names:
        expected = np.array([point[name] for point in path])
        found = getattr(run.history, name)
        assert found.shape == expected.shape
        assert np.allclose(found, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max())), name
        assert np.array_equal(getattr(run, name), found[-1])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("train", KINDS)
def test_normalised_runs_of_every_parameter(train, loss):
    """Every iterate of a run of every parameterisation is the plain loop's."""
    problem, starts = case_of(1)
    run = mm.descend(problem, **arguments(train, starts), steps=30, lr=0.05, train=train, loss=loss, record=1)
    path = plain_run(problem, train, starts, 30, 0.05, "normalized", loss)
    assert_same_path(run, path, KINDS[train])
    assert (run.train, run.stop_reason, run.steps_done) == (train, "steps", 30)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("train", KINDS)
def test_every_rule_on_every_parameter(train, rule):
    """Every step rule moves every parameterisation as its formula says."""
    problem, starts = case_of(2)
    run = mm.descend(problem, **arguments(train, starts), steps=25, lr=0.03, rule=RULES[rule], train=train, record=1)
    path = plain_run(problem, train, starts, 25, 0.03, rule, "logistic")
    assert_same_path(run, path, KINDS[train], tolerance=1e-8)


@pytest.mark.parametrize("train", KINDS)
def test_schedules(train):
    """A callable step size is asked for each step."""
    problem, starts = case_of(3)

    def lr(k):
        return 0.1 / np.sqrt(k + 1)

    run = mm.descend(problem, **arguments(train, starts), steps=20, lr=lr, rule="gradient", train=train, record=1)
    assert_same_path(run, plain_run(problem, train, starts, 20, lr, "gradient", "logistic"), KINDS[train])


def test_balls():
    """A step beyond the ball of a parameter comes back to its surface; other parameters are not touched."""
    problem, starts = case_of(4)
    radii = {"p": 0.8, "v": 1.5}
    rule = mm.rules.Normalized().within(**radii)
    starts["v"] /= np.linalg.norm(starts["v"])
    run = mm.descend(problem, **arguments("pv", starts), steps=40, lr=0.1, rule=rule, train="pv", record=1)
    path = plain_run(problem, "pv", starts, 40, 0.1, "normalized", "logistic", radii=radii)
    assert_same_path(run, path, ("p", "v"))
    assert np.linalg.norm(run.p) == pytest.approx(0.8, rel=1e-14)
    assert np.linalg.norm(run.v) == pytest.approx(1.5, rel=1e-14)


@pytest.mark.parametrize("train", ["p", "W", "KQ"])
@pytest.mark.parametrize("loss", LOSSES)
def test_polyak_steps_of_attention(train, loss):
    """With the head fixed, the risk's infimum is that of the best tokens."""
    problem, starts = case_of(5)
    infimum = float(np.mean(mm.losses.get(loss).value(problem.scores.max(axis=-1))))
    run = mm.descend(
        problem, **arguments(train, starts), steps=5, lr=0.3, rule="polyak", train=train, loss=loss, record=1
    )
    path = plain_run(problem, train, starts, 5, 0.3, "polyak", loss, infimum=infimum)
    assert_same_path(run, path, KINDS[train], tolerance=1e-8)


@pytest.mark.parametrize("train", ["v", "pv", "Wv", "KQv"])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_polyak_steps_of_a_head(train, loss):
    """With a trained head the infimum is 0."""
    problem, starts = case_of(6)
    run = mm.descend(
        problem, **arguments(train, starts), steps=12, lr=0.5, rule="polyak", train=train, loss=loss, record=1
    )
    path = plain_run(problem, train, starts, 12, 0.5, "polyak", loss)
    assert_same_path(run, path, KINDS[train], tolerance=1e-8)


@pytest.mark.parametrize("rule", ["normalized", "gradient", "momentum", "polyak"])
def test_lemma_1(rule):
    """A run in W with one shared query is the run in p = W'u, and W moves in the span of u only."""
    problem, _ = case_of(7)
    u, W0 = rng(8).normal(size=D_Q), rng(9).normal(size=(D_Q, 5))
    shared = mm.Problem(problem.X, problem.Y, problem.v, Z=u)
    size = np.linalg.norm(u)
    factor = {"normalized": size, "gradient": size**2, "momentum": size**2, "polyak": 1.0}[rule]
    in_W = mm.descend(shared, W0=W0, train="W", steps=200, lr=0.1, rule=rule, record=1)
    in_p = mm.descend(problem, W0.T @ u, steps=200, lr=0.1 * factor, rule=rule, record=1)
    along = np.einsum("rqd,q->rd", in_W.history.W, u)
    scale = np.abs(in_p.history.p).max()
    assert np.abs(along - in_p.history.p).max() <= 1e-12 * scale
    change = in_W.W - W0
    assert np.allclose(change, np.outer(u, u @ change) / size**2, rtol=0, atol=1e-12 * scale)
    # the same run as a problem whose inputs have their own, equal queries
    apart = mm.Problem(problem.X, problem.Y, problem.v, Z=np.tile(u, (3, 1)))
    again = mm.descend(apart, W0=W0, train="W", steps=200, lr=0.1, rule=rule)
    assert np.allclose(again.W, in_W.W, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("rule", ["sign", "adam"])
def test_rules_by_entry_are_not_runs_in_p(rule):
    """Sign and Adam act on the entries of W, also with one shared query."""
    problem, starts = case_of(10)
    u = rng(11).normal(size=D_Q)
    shared = mm.Problem(problem.X, problem.Y, problem.v, Z=u)
    apart = mm.Problem(problem.X, problem.Y, problem.v, Z=np.tile(u, (3, 1)))
    runs = [mm.descend(own, W0=starts["W"], train="W", steps=30, rule=rule) for own in (shared, apart)]
    assert np.array_equal(runs[0].W, runs[1].W)


@pytest.mark.parametrize("train", ["p", "pv", "W", "Wv", "KQ", "KQv"])
def test_runs_never_stall(train):
    """Normalised steps have their length at any norm: every trained parameter of a long run is as long as the way."""
    X = np.array([[[1.0, 0.2], [-0.3, 1.0], [0.1, -0.7]], [[0.8, -0.1], [-1.0, 0.3], [0.2, 0.9]]])
    problem = mm.Problem(X, [1.0, 1.0], [1.0, 0.0], Z=[[1.0, 0.1], [0.9, -0.2]])
    starts = {"p": np.zeros(2), "v": np.array([1.0, 0.0]), "W": np.zeros((2, 2)), "Q": np.eye(2), "K": np.eye(2)}
    steps, lr = 6000, 1000.0
    records = [steps - 1, steps]
    run = mm.descend(problem, **arguments(train, starts), steps=steps, lr=lr, train=train, record=records)
    assert (run.stop_reason, run.steps_done) == ("steps", steps)
    for name in KINDS[train]:
        last = np.diff(getattr(run.history, name), axis=0)
        assert np.linalg.norm(last) == pytest.approx(lr, rel=1e-9)
        assert np.linalg.norm(getattr(run, name)) >= 1e6
    assert run.saturation == 1


def test_joint_runs_reach_the_relaxed_and_tight_directions():
    """Figure 3: the digest's correlations along the joint runs (a) and (b)."""
    starts = {"p0": [0.0, -1.0], "v0": [-1.0, 0.0]}
    expected = {0.5: ([4 / 3, 1 / 3], (0.99875, 0.99939, 0.99984)), 1.5: ([1.0, 0.0], (None, 0.99914, 0.99984))}
    for x, (target, values) in expected.items():
        tokens = np.array([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], [0.5, 1.0]]])
        tokens[2, 1, 1] = 1.0 if x == 0.5 else 1.5
        problem = mm.Problem(tokens, [1.0, -1.0, 1.0], [1.0, 0.0])
        run = mm.descend(problem, **starts, steps=199, train="pv", record=[50, 100, 199])
        for k, value in enumerate(values):
            if value is not None:
                # the digest's loop adds 1e-9 to the norm of v's gradient, which is of that size at the end of (b)
                assert mm.correlation(run.history.p[k], target) == pytest.approx(value, abs=3e-5)
        assert mm.correlation(run.v, [0.0, 1.0]) == pytest.approx(0.99994 if x == 0.5 else 1.0, abs=5e-5)


@pytest.mark.parametrize("train", KINDS)
def test_zero_gradients_stop(train):
    """With equal tokens attention has no gradient: runs of attention stop, runs of the head go on."""
    X = np.ones((2, 3, 2))
    problem = mm.Problem(X, [1.0, 1.0], [1.0, 2.0], Z=[[1.0, 0.0], [0.0, 1.0]])
    starts = {"p": np.ones(2), "v": np.ones(2), "W": np.ones((2, 2)), "Q": np.eye(2), "K": np.eye(2)}
    run = mm.descend(problem, **arguments(train, starts), steps=5, train=train)
    if "v" in KINDS[train]:
        assert run.stop_reason == "steps"
        assert np.linalg.norm(run.v - starts["v"]) == pytest.approx(0.5)
    else:
        assert (run.stop_reason, run.steps_done) == ("zero_gradient", 0)
    for name in KINDS[train]:
        if name != "v":
            assert np.array_equal(getattr(run, name), starts[name])


@pytest.mark.parametrize("train", KINDS)
def test_ragged_runs(train):
    """Padding is never read, in no parameterisation."""
    lengths = np.array([4, 2, 3])
    problem, starts = case_of(12, lengths=lengths)
    X = problem.X.copy()
    for i, own in enumerate(lengths):
        X[i, own:] = np.nan
    padded = mm.Problem(X, problem.Y, problem.v, Z=problem.Z, lengths=lengths)
    runs = [mm.descend(own, **arguments(train, starts), steps=15, train=train, record=5) for own in (problem, padded)]
    for name in KINDS[train]:
        assert np.isfinite(getattr(runs[1], name)).all()
        assert np.array_equal(getattr(runs[0].history, name), getattr(runs[1].history, name))
    assert np.array_equal(runs[0].weights, runs[1].weights)


@pytest.mark.parametrize("train", KINDS)
def test_float32_runs(train):
    """A float32 run stays in float32, near the run of the same numbers in double precision."""
    problem, starts = case_of(13, dtype=np.float32)
    doubles = mm.Problem(*(a.astype(float) for a in (problem.X, problem.Y, problem.v)), Z=problem.Z.astype(float))
    run = mm.descend(problem, **arguments(train, starts), steps=20, lr=0.05, train=train)
    other = mm.descend(doubles, **arguments(train, starts), steps=20, lr=0.05, train=train)
    for name in KINDS[train]:
        assert getattr(run, name).dtype == np.float32
        assert np.allclose(getattr(run, name), getattr(other, name), rtol=0, atol=2e-5)


@pytest.mark.parametrize("train", KINDS)
def test_batches_and_threads_give_the_same_bits(train):
    """An element of a batch is the run on its own, for any number of threads."""
    cases = [case_of(20 + k) for k in range(5)]
    X, Y, v, Z = (np.array([getattr(p, name) for p, _ in cases]) for name in ("X", "Y", "v", "Z"))
    starts = {name: np.array([s[name] for _, s in cases]) for name in cases[0][1]}
    whole = mm.Problem(X, Y, v, Z=Z)
    runs = [
        mm.descend(whole, **arguments(train, starts), steps=12, train=train, record=4, threads=threads)
        for threads in (1, 3)
    ]
    assert runs[0] == runs[1]
    for k, (problem, own) in enumerate(cases):
        single = mm.descend(problem, **arguments(train, own), steps=12, train=train, record=4)
        for name in KINDS[train]:
            assert np.array_equal(getattr(single, name), getattr(runs[0], name)[k])
            assert np.array_equal(getattr(single.history, name), getattr(runs[0].history, name)[:, k])
        assert np.array_equal(single.loss, runs[0].loss[k])
        assert np.array_equal(single.saturation, runs[0].saturation[k])
        assert np.array_equal(single.history.loss, runs[0].history.loss[:, k])
        assert np.array_equal(single.history.saturation, runs[0].history.saturation[:, k])


def test_untied_keys():
    """Joint runs whose keys are not the values."""
    problem = problem_of(14, 3, 4, 5, d_k=4)
    assert problem.K is not problem.X
    p0, v0 = rng(15).normal(size=problem.d_k), rng(16).normal(size=problem.d)
    run = mm.descend(problem, p0, v0, steps=20, lr=0.05, train="pv", record=1)
    X, K, Y = (np.asarray(a, dtype=float) for a in (problem.X, problem.K, problem.Y))
    path = reference_runs.run(
        {"p": p0, "v": v0},
        ("p", "v"),
        lambda at: reference_runs.gradients(X, Y, at, "logistic", K=K),
        20,
        lambda k: 0.05,
        "normalized",
    )
    assert_same_path(run, path, ("p", "v"))


def test_adam_without_epsilon_does_not_stall():
    """Adam's steps keep their size when the gradient underflows; with PyTorch's epsilon they vanish."""
    problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    starts = np.array([[30.0, 0.0], [2000.0, 0.0]])  # the gradient is 1e-13 and 1e-868 there
    exact = mm.descend(problem, starts, rule=mm.rules.Adam(epsilon=0), lr=0.1, steps=100)
    moved = exact.p[:, 0] - starts[:, 0]
    assert moved[0] >= 0.5
    assert moved[1] == pytest.approx(moved[0], rel=1e-9)
    usual = mm.descend(problem, starts, rule="adam", lr=0.1, steps=100)
    assert usual.p[1, 0] == 2000


def test_polyak_steps_survive_underflow():
    """The excess risk and the gradient underflow together; their ratio does not: steps of one over the margin."""
    problem = mm.Problem([[[1.0, 0.0], [0.0, 0.0]]], [1.0], [1.0, 0.0])
    run = mm.descend(problem, [2000.0, 0.0], rule="polyak", lr=1.0, steps=50, record=1)
    assert np.allclose(np.diff(run.history.p[:, 0]), 1.0, rtol=1e-9)


WRONG = {
    "train": ({"train": "q"}, r"train: got 'q'; allowed: 'p', 'v', 'pv', 'W', 'Wv', 'KQ', 'KQv'"),
    "v0 unused": ({"v0": np.ones(5)}, r"v0: got a start for train='p'; allowed: None"),
    "W0 unused": ({"W0": np.ones((3, 5))}, r"W0: got a start for train='p'; allowed: None"),
    "p0 unused": ({"p0": np.ones(5), "train": "W"}, r"p0: got a start for train='W'; allowed: None"),
    "v0 shape": ({"v0": np.ones(4), "train": "pv"}, r"v0: got shape \(4,\); allowed: \(\.\.\., d=5\)"),
    "W0 shape": ({"W0": np.ones((5, 3)), "train": "W"}, r"W0: got shape \(5, 3\); allowed: \(\.\.\., d_q=3, d=5\)"),
    "no factors": ({"train": "KQ"}, r"W0: got None \(0 is a stationary point\); allowed: factors \(Q0, K0\)"),
    "one factor": ({"W0": (np.ones((3, 2)),), "train": "KQ"}, r"W0: got tuple; allowed: factors"),
    "factors": ({"W0": (np.ones((3, 2)), np.ones((5, 1))), "train": "KQ"}, r"W0: got factors of shapes .*columns"),
    "factor rows": ({"W0": (np.ones((4, 2)), np.ones((5, 2))), "train": "KQ"}, r"W0\[0\]: got shape \(4, 2\)"),
    "factor axes": ({"W0": (np.ones(3), np.ones((5, 2))), "train": "KQ"}, r"W0\[0\]: got shape \(3,\)"),
    "NaN": ({"W0": np.full((3, 5), np.nan), "train": "W"}, r"W0: entry \[0, 0\] is nan"),
    "rule": ({"rule": "newton"}, r"rule: got 'newton'; allowed: 'normalized', 'gradient'"),
    "ball untrained": ({"rule": mm.rules.Sign().within(v=1)}, r"rule: within names \['v'\]; allowed: .*\['p'\]"),
    "schedule": ({"lr": lambda k: 1.0 - k}, r"lr: the schedule gives 0.0 at step 1; allowed: positive"),
    "long schedule": ({"lr": lambda k: 1.0, "steps": 10**9}, r"lr: got a schedule for 1000000000 steps; allowed"),
    "Polyak": ({"rule": "polyak", "train": "v", "loss": "correlation"}, r"rule: got 'polyak' .*no infimum"),
    "record": ({"record": "often"}, r"record: got 'often'; allowed: 'log'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_run_is_refused(case):
    """The message names the argument, what was given and what is allowed."""
    problem, _ = case_of(30)
    given, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        mm.descend(problem, **{"steps": 3, **given})


WRONG_RULES = {
    "momentum": (lambda: mm.rules.Momentum(1.0), r"momentum: got 1.0; allowed: a number in \[0, 1\)"),
    "beta": (lambda: mm.rules.Adam(beta2=True), r"beta2: got True; allowed: a number in \[0, 1\)"),
    "epsilon": (lambda: mm.rules.Adam(epsilon=-1), r"epsilon: got -1; allowed"),
    "ball": (lambda: mm.rules.Sign().within(p=0), r"within: got p=0; allowed: a positive radius"),
    "ball name": (lambda: mm.rules.Sign().within(q=1), r"within: got 'q'; allowed: p, v, W, Q, K"),
}


@pytest.mark.parametrize("case", WRONG_RULES)
def test_settings_that_make_no_rule_are_refused(case):
    """Settings of rules are checked when the rule is made."""
    make, message = WRONG_RULES[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_queries_are_needed():
    """W and its factors need queries."""
    problem, starts = case_of(31)
    bare = mm.Problem(problem.X, problem.Y, problem.v)
    for train in ("W", "Wv", "KQ"):
        with pytest.raises(ValueError, match=rf"train: got '{train}', but the problem has no queries"):
            mm.descend(bare, **arguments(train, starts), train=train)


def test_logarithmic_records():
    """Records spread evenly in the logarithm, with start and end."""
    problem, _ = case_of(32)
    run = mm.descend(problem, steps=1000, record="log")
    steps = run.history.steps
    assert steps[0] == 0
    assert steps[-1] == 1000
    assert np.all(np.diff(steps) > 0)
    assert {1, 10, 100} <= set(steps.tolist())
    assert 25 <= len(steps) <= 32
