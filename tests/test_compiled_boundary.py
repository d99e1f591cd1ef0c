"""The compiled module called directly: what does not fit is an exception, never a crash or a silent copy."""

import numpy as np
import pytest

from fastmm import _core

N, T, D = 2, 3, 4


def index(*values):
    return np.array(values, dtype=np.int64)


def keys(dtype=np.float64):
    return np.ones((1, N, T, D), dtype=dtype)


FIRST = {"x": np.ones((2, 6)), "T": 3, "d": 2, "lengths": None}
LOSS = {"loss": 0, "x": np.ones(3)}
SOFTMAX = {"logits": np.ones((2, 3)), "lengths": None, "logarithm": False}
LENGTHS = {"lengths": None, "length_index": None}
ATTENTION = {"keys": keys(), "key_index": index(0), "p": np.ones((1, D)), "p_index": index(0), **LENGTHS, "threads": 1}
SCORES = {
    "X": keys(),
    "X_index": index(0),
    "Y": np.ones((1, N)),
    "Y_index": index(0),
    "v": np.ones((1, D)),
    "v_index": index(0),
    **LENGTHS,
    "threads": 1,
}
GRADIENT = {
    "keys": keys(),
    "key_index": index(0),
    "scores": np.ones((1, N, T)),
    "score_index": index(0),
    "p": np.ones((1, D)),
    "p_index": index(0),
    "loss": 0,
    "values": np.ones((1, N, T, 5)),
    "value_index": index(0),
    "labels": np.ones((1, N)),
    "label_index": index(0),
    "v": np.ones((1, 5)),
    "v_index": index(0),
    "along": np.ones((1, D)),
    "along_index": index(0),
    "with_p": True,
    **LENGTHS,
    "threads": 1,
}
QUERIES = {
    "keys": keys(),
    "key_index": index(0),
    "scores": np.ones((1, N, T)),
    "score_index": index(0),
    "queries": np.ones((1, N, D)),
    "query_index": index(0),
    "loss": 0,
    "with_p": True,
    **LENGTHS,
    "threads": 1,
}
# arguments of the gradient that may be None
MAYBE = {name for name in GRADIENT | QUERIES if name not in ("keys", "key_index", "loss", "threads", "with_p")}
DESCEND = {
    "keys": keys(),
    "key_index": index(0),
    "scores": np.arange(6.0).reshape(1, N, T),
    "score_index": index(0),
    "values": np.ones((1, N, T, 5)),
    "value_index": index(0),
    "labels": np.ones((1, N)),
    "label_index": index(0),
    "queries": np.ones((1, N, 3)),
    "query_index": index(0),
    "parameters": [(0, True, np.zeros((1, D, 1)), np.inf)],
    "lr": np.ones(1),
    "schedule": np.ones(3),
    "loss": 0,
    "rule": (0, 0.0, 0.0, 0.0, 0.0),
    "conditions": [(5, 0.1, 1, np.ones((1, D)), index(0))],
    "clauses": [[0]],
    "steps": 3,
    "record": index(0, 3),
    **LENGTHS,
    "threads": 1,
    "progress": None,
}
CALLS = {
    "first_nonfinite": FIRST,
    "loss_value": LOSS,
    "loss_slope": LOSS,
    "loss_curvature": LOSS,
    "softmax": SOFTMAX,
    "attention": ATTENTION,
    "scores": SCORES,
    "gradient": GRADIENT,
    "gradient at queries": QUERIES,
    "descend": DESCEND,
}
VALUES = ("values", "value_index", "labels", "label_index")
OPTIONAL = {
    "gradient": MAYBE,
    "gradient at queries": MAYBE,
    "descend": {*VALUES, "scores", "score_index", "queries", "query_index", "schedule"},
}
ARRAYS = [(name, key) for name, call in CALLS.items() for key, value in call.items() if isinstance(value, np.ndarray)]


def call(name, **changed):
    return getattr(_core, name.split()[0])(**(CALLS[name] | changed))


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_these_tests_are_right(name):
    """Unchanged, every call of the table works: what fails below fails for its change."""
    call(name)


@pytest.mark.parametrize(("name", "key"), ARRAYS)
def test_other_dtypes_and_orders_are_type_errors(name, key):
    """An array of another dtype, byte order or memory order is a TypeError: nothing is converted or copied."""
    good = CALLS[name][key]
    others = ["f2", "c16", "O", "U1", "i4"] + (["f8", ">i8"] if good.dtype == np.int64 else [">f8", "i8"])
    for dtype in others:
        with pytest.raises(TypeError, match=r"incompatible function arguments"):
            call(name, **{key: good.astype(dtype)})
    if good.ndim > 1 and min(good.shape[-2:]) > 1:
        with pytest.raises(TypeError, match=r"incompatible function arguments"):
            call(name, **{key: np.asfortranarray(good)})
    strided = np.repeat(good, 2, axis=-1)[..., ::2]
    if good.shape[-1] > 1:
        with pytest.raises(TypeError, match=r"incompatible function arguments"):
            call(name, **{key: strided})
    for value in (None, 3, "text", good.tolist()):
        if value is None and key in OPTIONAL.get(name, ()):
            continue
        with pytest.raises(TypeError, match=r"incompatible function arguments"):
            call(name, **{key: value})


@pytest.mark.parametrize(("name", "key"), [(n, k) for n, k in ARRAYS if k not in ("record",)])
def test_other_shapes_are_value_errors(name, key):
    """An axis more, an axis less, or an entry more than the other arguments say is a ValueError."""
    good = CALLS[name][key]
    with pytest.raises(ValueError, match=r"\w"):
        call(name, **{key: good[None]})
    if good.ndim > 1:
        with pytest.raises(ValueError, match=r"\w"):
            call(name, **{key: np.ascontiguousarray(good[0])})
    independent = {"x", "logits"} | ({"values", "queries"} if name == "descend" else set())
    if good.dtype != np.int64 and key not in independent:
        with pytest.raises(ValueError, match=r"\w"):
            call(name, **{key: np.ascontiguousarray(np.repeat(good, 2, axis=-1))})
    if key.endswith("index") and key != "key_index" and key != "X_index":
        with pytest.raises(ValueError, match=r"index has shape"):
            call(name, **{key: index(0, 0)})


@pytest.mark.parametrize(("name", "key"), [(n, k) for n, k in ARRAYS if k.endswith("index")])
@pytest.mark.parametrize("bad", [-1, 1, 2**40, -(2**62)])
def test_indices_out_of_range_are_value_errors(name, key, bad):
    """A block index outside the blocks is a ValueError: it would read foreign memory."""
    with pytest.raises(ValueError, match=rf"index has entry {bad} outside 0\.\.0"):
        call(name, **{key: index(bad)})


@pytest.mark.parametrize("name", ["attention", "scores", "gradient", "descend"])
def test_lengths_out_of_range_are_value_errors(name):
    """Lengths outside 1..T, without their index, or of another shape are a ValueError; right ones work."""
    call(name, lengths=np.array([[1, 3]]), length_index=index(0))
    for bad in ([0, 3], [1, 4], [-1, 2], [2**62, 1]):
        with pytest.raises(ValueError, match=r"lengths: outside 1\.\.T"):
            call(name, lengths=np.array([bad]), length_index=index(0))
    with pytest.raises(ValueError, match=r"want length_index"):
        call(name, lengths=np.array([[1, 3]]))
    with pytest.raises(ValueError, match=r"lengths: shape"):
        call(name, lengths=np.array([[1, 3, 2]]), length_index=index(0))
    with pytest.raises(ValueError, match=r"index has entry 1"):
        call(name, lengths=np.array([[1, 3]]), length_index=index(1))


@pytest.mark.parametrize("name", ["attention", "gradient", "descend"])
@pytest.mark.parametrize("shape", [(1, 0, T, D), (1, N, 0, D), (1, N, T, 0), (0, N, T, D)])
def test_keys_without_entries_are_value_errors(name, shape):
    """Keys without inputs, tokens, width or blocks are a ValueError."""
    with pytest.raises(ValueError, match=r"keys|index has entry 0"):
        call(name, keys=np.ones(shape))


@pytest.mark.parametrize("name", ["attention", "scores", "gradient", "descend"])
@pytest.mark.parametrize("threads", [0, -1, 4097])
def test_thread_counts_out_of_range_are_value_errors(name, threads):
    """Thread counts outside 1..4096 are a ValueError."""
    with pytest.raises(ValueError, match=r"threads: want 1\.\.4096"):
        call(name, threads=threads)


@pytest.mark.parametrize("name", ["loss_value", "loss_slope", "loss_curvature", "gradient", "descend"])
@pytest.mark.parametrize("loss", [-1, 3, 1000])
def test_unknown_loss_codes_are_value_errors(name, loss):
    """A loss code outside the enumeration is a ValueError."""
    with pytest.raises(ValueError, match=rf"loss: unknown code {loss}"):
        call(name, loss=loss)


DESCEND_WRONG = {
    "negative steps": {"steps": -1, "record": index()},
    "endless steps": {"steps": 2**63 - 1},
    "record before": {"record": index(-1, 2)},
    "record beyond": {"record": index(0, 4)},
    "record unsorted": {"record": index(2, 1)},
    "record twice": {"record": index(1, 1)},
    "record matrix": {"record": np.zeros((1, 1), np.int64)},
    "lr count": {"lr": np.ones(2)},
    "schedule count": {"schedule": np.ones(4)},
    "start count": {"parameters": [(0, True, np.zeros((2, D, 1)), np.inf)]},
    "start width": {"parameters": [(0, True, np.zeros((1, D + 1, 1)), np.inf)]},
    "start axes": {"parameters": [(0, True, np.zeros((1, D)), np.inf)]},
    "no parameter": {"parameters": []},
    "unknown parameter": {"parameters": [(5, True, np.zeros((1, D, 1)), np.inf)]},
    "parameter twice": {"parameters": 2 * [(0, True, np.zeros((1, D, 1)), np.inf)]},
    "a head alone": {"parameters": [(1, True, np.zeros((1, 5, 1)), np.inf)]},
    "p and W": {"parameters": [(0, True, np.zeros((1, D, 1)), 1.0), (2, True, np.zeros((1, 3, D)), 1.0)]},
    "W without queries": {"parameters": [(2, True, np.zeros((1, 3, D)), 1.0)], "queries": None},
    "W of another width": {"parameters": [(2, True, np.zeros((1, 3, D + 1)), 1.0)]},
    "a factor alone": {"parameters": [(3, True, np.zeros((1, 3, 2)), 1.0)]},
    "factors apart": {"parameters": [(3, True, np.zeros((1, 3, 2)), 1.0), (4, True, np.zeros((1, D, 1)), 1.0)]},
    "factors of no columns": {"parameters": [(3, True, np.zeros((1, 3, 0)), 1.0), (4, True, np.zeros((1, D, 0)), 1.0)]},
    "radius 0": {"parameters": [(0, True, np.zeros((1, D, 1)), 0.0)]},
    "radius NaN": {"parameters": [(0, True, np.zeros((1, D, 1)), np.nan)]},
    "unknown rule": {"rule": (6, 0.0, 0.0, 0.0, 0.0)},
    "unknown condition": {"conditions": [(7, 0.1, 1, None, None)]},
    "angle without target": {"conditions": [(5, 0.1, 1, None, None)]},
    "target of another width": {"conditions": [(5, 0.1, 1, np.ones((1, D + 1)), index(0))]},
    "target beyond the blocks": {"conditions": [(5, 0.1, 1, np.ones((1, D)), index(1))]},
    "comparison every 0 steps": {"conditions": [(4, 0.1, 0, None, None)]},
    "clause of nothing": {"clauses": [[1]]},
    "v without values": {
        "parameters": [(0, True, np.zeros((1, D, 1)), 1.0), (1, True, np.zeros((1, 5, 1)), 1.0)],
        "values": None,
    },
    "no scores": {"scores": None},
    "values without labels": {"labels": None},
    "scores without index": {"score_index": None},
}


@pytest.mark.parametrize("case", DESCEND_WRONG)
def test_runs_that_make_no_sense_are_value_errors(case):
    """Negative steps, records outside the run or out of order, and counts that differ are a ValueError."""
    with pytest.raises(
        ValueError, match=r"steps|record|lr|schedule|start|parameters|want|rule|stop|target|index|radius"
    ):
        call("descend", **DESCEND_WRONG[case])


def test_arrays_of_the_gradient_come_together():
    """Values come with labels, arrays with their index, a point and scores of one kind each: else a ValueError."""
    for key in ("value_index", "label_index", "p_index", "v_index", "along_index", "score_index"):
        with pytest.raises(ValueError, match=r"want its index too"):
            call("gradient", **{key: None})
    with pytest.raises(ValueError, match=r"values: want labels too"):
        call("gradient", labels=None)
    for changed in ({"values": None}, {"values": None, "v": None, "with_v": True}):
        with pytest.raises(ValueError, match=r"v: want values"):
            call("gradient", **changed)
    with pytest.raises(ValueError, match=r"scores, v: want one of them"):
        call("gradient", scores=None, v=None)
    with pytest.raises(ValueError, match=r"along: want p, and its gradient"):
        call("gradient", with_p=False)
    for changed in ({"p": None}, {"queries": np.ones((1, N, D)), "query_index": index(0)}):
        with pytest.raises(ValueError, match=r"p, queries: want one of them"):
            call("gradient", **changed)


def test_the_gradient_gives_what_is_asked_for():
    """Each output is there when it is wanted, and has its shape."""
    out = call("gradient", with_p=False, along=None, values=None, v=None)
    assert set(out) == {"loss"}
    out = call("gradient", with_v=True, extras=True)
    assert out["natural_p"].shape == out["unit_p"].shape == (1, D)
    assert out["natural_v"].shape == out["unit_v"].shape == (1, 5)
    assert out["saturation"].shape == out["log_excess"].shape == out["log_norm_p"].shape == (1,)
    out = call("gradient at queries")
    assert out["pulls"].shape == (1, N, D)
    assert out["exponents"].shape == (1, N)


def test_products_of_matrices_fit():
    """Means of outer products and products of rows refuse shapes that do not fit, and dtypes that are not double."""
    a, b, e = np.ones((2, 3, 4)), np.ones((2, 3, 5)), np.zeros((2, 3))
    assert _core.outer_mean(a, b, e, 1)["natural"].shape == (2, 4, 5)
    assert _core.rows_times(a, np.ones((2, 4, 6)), False).shape == (2, 3, 6)
    assert _core.rows_times(a, np.ones((2, 6, 4)), True).shape == (2, 3, 6)
    for changed in ((a[:1].copy(), b, e), (a, b[:, :2].copy(), e), (a, b, e[:1].copy()), (a[0], b, e)):
        with pytest.raises(ValueError, match=r"has shape"):
            _core.outer_mean(*changed, 1)
    for wrong, transposed in ((np.ones((2, 3, 6)), False), (np.ones((2, 4, 6)), True), (np.ones((1, 4, 6)), False)):
        with pytest.raises(ValueError, match=r"has shape"):
            _core.rows_times(a, wrong, transposed)
    with pytest.raises(TypeError, match=r"incompatible"):
        _core.outer_mean(a.astype("f4"), b, e, 1)
    with pytest.raises(ValueError, match=r"at least one input"):
        _core.outer_mean(np.ones((2, 0, 4)), np.ones((2, 0, 5)), np.zeros((2, 0)), 1)


def test_mixed_precisions_are_type_errors():
    """All arrays of the data have one precision; a double point goes with either."""
    with pytest.raises(TypeError, match=r"incompatible"):
        call("descend", keys=keys(np.float32))
    with pytest.raises(TypeError, match=r"incompatible"):
        call("scores", v=np.ones((1, D), np.float32))
    assert call("attention", keys=keys(np.float32)).dtype == np.float32


FIRST_WRONG = {
    "other width": {"d": 3},
    "negative": {"T": -3, "d": -2},
    "negative d": {"T": 3, "d": -2},
    "product beyond": {"x": np.ones((1, 0)), "T": 2**61, "d": 8, "lengths": index(5)},
    "length beyond": {"lengths": index(3, 4)},
    "length negative": {"lengths": index(-1, 3)},
    "length count": {"lengths": index(3)},
}


@pytest.mark.parametrize("case", FIRST_WRONG)
def test_checks_do_not_read_outside(case):
    """The finiteness check refuses extents and lengths that are not those of its array."""
    with pytest.raises(ValueError, match=r"x|T|lengths"):
        call("first_nonfinite", **FIRST_WRONG[case])


def test_softmax_lengths_do_not_read_outside():
    """Row lengths outside 0..T, or of another count, are a ValueError, and so are rows without entries."""
    for bad in (index(4, 1), index(-1, 1), index(1)):
        with pytest.raises(ValueError, match=r"lengths"):
            call("softmax", lengths=bad)
    with pytest.raises(ValueError, match=r"logits"):
        call("softmax", logits=np.ones((2, 0)))
    assert call("softmax", lengths=index(0, 3))[0].tolist() == [0, 0, 0]


def test_inputs_are_not_written():
    """Read-only arrays are accepted and starts are copied, not used as the iterate."""
    p0 = np.zeros((1, D, 1))
    p0.flags.writeable = False
    k = np.random.default_rng(0).normal(size=(1, N, T, D))
    k.flags.writeable = False
    out = call("descend", keys=k, parameters=[(0, True, p0, np.inf)])
    assert not p0.any()
    assert out["end"][0].any()
    assert out["end"][0].flags.writeable


def test_missing_and_unknown_arguments_are_type_errors():
    """Calls without an argument or with one too many are a TypeError."""
    for name, arguments in CALLS.items():
        with pytest.raises(TypeError, match=r"incompatible"):
            getattr(_core, name.split()[0])()
        with pytest.raises(TypeError, match=r"incompatible"):
            getattr(_core, name.split()[0])(**arguments, extra=1)
