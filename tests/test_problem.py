"""Problem: what it stores, derives, broadcasts and refuses."""

import copy
import pickle
import re

import numpy as np
import pytest

import fastmm as mm

X = np.array([[[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]], [[2.0, 0.0], [0.0, 0.0], [1.0, -2.0]]])
Y = np.array([1.0, -1.0])
V = np.array([1.0, 0.5])
W = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])


def refused(text, kind=ValueError):
    return pytest.raises(kind, match=re.escape(text))


def test_sizes_scores_and_optimal_tokens():
    problem = mm.Problem(X, Y, V)
    assert (problem.n, problem.T, problem.d, problem.d_k, problem.batch_shape) == (2, 3, 2, 2, ())
    assert problem.scores.tolist() == [[2.0, 0.5, -1.0], [-2.0, 0.0, 0.0]]
    assert problem.optimal.tolist() == [0, 1]
    assert problem.tied.tolist() == [False, True]
    assert problem.dtype == np.float64
    assert problem.K is problem.X
    assert "n=2, T=3, d=2" in repr(problem)


def test_nearly_equal_scores_are_no_tie():
    problem = mm.Problem([[[1.0], [np.nextafter(1.0, 2.0)], [1.0]]], [1.0], [1.0])
    assert problem.optimal.tolist() == [1]
    assert problem.tied.tolist() == [False]


def test_keys_may_differ_from_tokens():
    keys = np.arange(30.0).reshape(2, 3, 5)
    problem = mm.Problem(X, Y, V, K=keys)
    assert problem.d_k == 5
    assert np.array_equal(problem.K, keys)


def test_keys_are_made_by_the_matrix_without_queries():
    problem = mm.Problem(X, Y, V, W=W)
    assert problem.d_k == 3
    np.testing.assert_array_equal(problem.K, X @ W.T)


@pytest.mark.parametrize(("Z", "shape"), [(np.ones((2, 3)), (2, 3)), (np.ones((1, 3)), (1, 3)), (np.ones(3), (1, 3))])
def test_queries_of_each_input_or_one_for_all(Z, shape):
    problem = mm.Problem(X, Y, V, W=W, Z=Z)
    assert problem.Z.shape == shape
    assert np.array_equal(problem.K, X)


def test_float32_in_float32_stored():
    single = mm.Problem(X.astype("f4"), Y.astype("f4"), V.astype("f4"))
    assert {a.dtype for a in (single.X, single.Y, single.v, single.K, single.scores)} == {np.dtype("f4")}
    assert mm.Problem(X.astype("f4"), [1, -1], V.tolist()).dtype == np.float32
    assert mm.Problem(X.astype("f4"), np.array([1, -1]), V.astype("f4")).dtype == np.float32
    assert mm.Problem(X.astype(">f4"), Y.astype("f4"), V.astype("f4")).dtype == np.float32


@pytest.mark.parametrize("name", ["X", "Y", "v"])
def test_one_float64_array_makes_all_float64(name):
    given = {"X": X.astype("f4"), "Y": Y.astype("f4"), "v": V.astype("f4")}
    given[name] = given[name].astype("f8")
    assert mm.Problem(**given).dtype == np.float64


@pytest.mark.parametrize("dtype", ["f2", "i8", "i1", "u1"])
def test_narrow_tokens_are_stored_as_float64(dtype):
    tokens = np.abs(X).astype(dtype)
    problem = mm.Problem(tokens, Y, V)
    assert problem.dtype == np.float64
    assert np.array_equal(problem.X, np.abs(X))


def test_byte_tokens_do_not_wrap_around():
    problem = mm.Problem(np.array([[[3], [5]]], np.uint8), [-1], np.array([100], np.uint8))
    assert problem.scores.tolist() == [[-300.0, -500.0]]


def test_conforming_arrays_are_shared_stay_writable_and_unchanged():
    given = {"X": X.copy(), "Y": Y.copy(), "v": V.copy(), "K": X * 2}
    before = copy.deepcopy(given)
    problem = mm.Problem(**given)
    mm.loss_and_grad(problem, [0.5, 0.25], wrt=("p", "v"))
    for name, array in given.items():
        assert np.shares_memory(getattr(problem, name), array)
        assert array.flags.writeable
        assert np.array_equal(array, before[name])


def test_read_only_and_fortran_arrays_serve():
    frozen = X.copy()
    frozen.flags.writeable = False
    assert (
        mm.Problem(frozen, Y, V) == mm.Problem(np.asfortranarray(X), Y, V) == mm.Problem(X.tolist(), [1, -1], [1, 0.5])
    )


@pytest.mark.parametrize("name", ["X", "Y", "v", "K", "scores", "optimal", "tied", "lengths"])
def test_stored_arrays_cannot_be_written(name):
    problem = mm.Problem(X, Y, V, lengths=[2, 3])
    with pytest.raises(ValueError, match="read-only"):
        getattr(problem, name)[...] = 0


@pytest.mark.parametrize("name", ["X", "n", "dtype", "anything"])
def test_attributes_are_frozen(name):
    with pytest.raises(AttributeError, match=f"a Problem is frozen; make a new one to change '{name}'"):
        setattr(mm.Problem(X, Y, V), name, 1)


PROBLEMS = {
    "plain": {},
    "keys": {"K": X + 1},
    "lengths": {"lengths": [1, 3]},
    "matrix": {"W": W},
    "matrix and queries": {"W": W, "Z": np.ones((2, 3))},
    "query": {"Z": np.ones(3)},
    "batch": {"v": np.ones((4, 1, 2)), "lengths": [[1, 2], [3, 3], [2, 2]]},
}


@pytest.mark.parametrize("more", PROBLEMS)
def test_copies_and_pickles_are_equal(more):
    problem = mm.Problem(**({"X": X, "Y": Y, "v": V} | PROBLEMS[more]))
    problem.scores  # noqa: B018 - a derived array must not get in the way
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), copy.copy(problem)):
        assert twin == problem
        assert twin.batch_shape == problem.batch_shape
        assert np.array_equal(twin.scores, problem.scores, equal_nan=True)


def test_a_pickle_holds_the_tokens_once():
    tokens = np.ones((50, 20, 10))
    assert len(pickle.dumps(mm.Problem(tokens, np.ones(50), np.ones(10)))) < 1.1 * tokens.nbytes


def test_problems_differ_by_any_part_and_by_dtype():
    problem = mm.Problem(X, Y, V)
    others = [mm.Problem(X + 1, Y, V), mm.Problem(X, -Y, V), mm.Problem(X, Y, 2 * V), mm.Problem(X, Y, V, K=X + 1)]
    others += [mm.Problem(X, Y, V, lengths=[1, 3]), mm.Problem(*(a.astype("f4") for a in (X, Y, V)))]
    assert all(problem != other for other in others)
    assert problem != "problem"
    with pytest.raises(TypeError, match="unhashable"):
        hash(problem)


def test_padding_is_never_read():
    tokens, keys = X.copy(), X * 3
    tokens[0, 1:], keys[0, 1:] = np.nan, np.inf
    problem = mm.Problem(tokens, Y, V, K=keys, lengths=[1, 3])
    np.testing.assert_array_equal(problem.scores, [[2.0, np.nan, np.nan], [-2.0, 0.0, 0.0]])
    assert problem.optimal.tolist() == [0, 1]
    assert problem.tied.tolist() == [False, True]
    assert np.isfinite(mm.loss_and_grad(problem, [0.1, 0.2], wrt=("p", "v")).grad["v"]).all()
    assert np.isfinite(mm.Problem(tokens, Y, V, W=W, lengths=[1, 3]).K[0, 0]).all()


def test_padding_is_judged_by_the_longest_of_the_problems_that_share_it():
    tokens = X.copy()
    tokens[0, 2] = np.nan
    assert mm.Problem(tokens, Y, V, lengths=[[1, 3], [2, 3]]).batch_shape == (2,)
    with refused("X: entry [0, 2, 0] is nan"):
        mm.Problem(tokens, Y, V, lengths=[[1, 3], [3, 3]])


def test_leading_dimensions_broadcast():
    problem = mm.Problem(np.stack([X, -X, 2 * X]), Y, np.ones((4, 1, 2)), lengths=[2, 3])
    assert problem.batch_shape == (4, 3)
    assert problem.scores.shape == (4, 3, 2, 3)
    assert problem.X.shape == (3, 2, 3, 2)
    one = mm.Problem(-X, Y, np.ones(2), lengths=[2, 3])
    np.testing.assert_array_equal(problem.scores[2, 1], one.scores)


def test_leading_dimensions_that_do_not_fit_are_named():
    with refused("batch dimensions do not broadcast together:"):
        mm.Problem(np.stack([X] * 3), Y, np.ones((2, 2)))


INVALID = {
    "X of two axes": ({"X": X[0]}, "X: got shape (3, 2); allowed: (..., n, T, d)"),
    "no inputs": (
        {"X": np.zeros((0, 3, 2)), "Y": []},
        "X: got shape (0, 3, 2); allowed: (..., n, T, d) with n at least 1",
    ),
    "no tokens": ({"X": np.zeros((2, 0, 2))}, "with T at least 1"),
    "no width": ({"X": np.zeros((2, 3, 0)), "v": []}, "with d at least 1"),
    "too many labels": ({"Y": [1, -1, 1]}, "Y: got shape (3,); allowed: (..., n=2) to match X"),
    "head of another width": ({"v": [1.0]}, "v: got shape (1,); allowed: (..., d=2) to match X"),
    "scalar head": ({"v": 1.0}, "v: got shape (); allowed: (..., d)"),
    "keys of other tokens": (
        {"K": np.ones((2, 4, 2))},
        "K: got shape (2, 4, 2); allowed: (..., n=2, T=3, d_k) to match X",
    ),
    "keys without width": (
        {"K": np.ones((2, 3, 0))},
        "K: got shape (2, 3, 0); allowed: (..., n=2, T=3, d_k) to match X, with d_k at least 1",
    ),
    "keys and matrix": ({"K": X, "W": W}, "K and W: got both; allowed: keys K, or a matrix W"),
    "matrix of another width": ({"W": np.ones((2, 3))}, "W: got shape (2, 3); allowed: (..., d=2) to match X"),
    "queries of other inputs": (
        {"Z": np.ones((3, 2))},
        "Z: got shape (3, 2); allowed: (..., n=2, d_q), (..., 1, d_q) or (d_q,)",
    ),
    "queries of another width": (
        {"W": W, "Z": np.ones(2)},
        "W: got shape (3, 2); allowed: (..., d_q=2, d=2) to match Z and X",
    ),
    "NaN token": ({"X": np.where(X == 2, np.nan, X)}, "X: entry [0, 0, 1] is nan; allowed: finite numbers"),
    "infinite key": ({"K": np.where(X == 2, np.inf, X)}, "K: entry [0, 0, 1] is inf; allowed: finite numbers"),
    "NaN head": ({"v": [0.0, np.nan]}, "v: entry [1] is nan"),
    "infinite matrix": ({"W": np.where(W == 1, np.inf, W)}, "W: entry [0, 0] is inf"),
    "NaN query": ({"Z": [np.nan, 1.0]}, "Z: entry [0] is nan"),
    "label zero": ({"Y": [0, 1]}, "Y: entry [0] is 0; allowed: -1 and +1 (0/1 labels: write 2*Y - 1)"),
    "boolean labels": ({"Y": [True, False]}, "Y: got booleans; allowed: labels -1 and +1"),
    "length zero": ({"lengths": [0, 3]}, "lengths: entry [0] is 0; allowed: 1..3 tokens"),
    "length beyond T": ({"lengths": [3, 4]}, "lengths: entry [1] is 4; allowed: 1..3 tokens"),
    "real lengths": ({"lengths": [1.0, 2.0]}, "lengths: got dtype float64; allowed: integers"),
}


@pytest.mark.parametrize("case", INVALID)
def test_what_does_not_fit_is_refused_by_name(case):
    changed, told = INVALID[case]
    with refused(told):
        mm.Problem(**({"X": X, "Y": Y, "v": V} | changed))


@pytest.mark.parametrize("name", ["X", "Y", "v", "K", "W", "Z", "lengths"])
@pytest.mark.parametrize(
    ("kind", "told"), [(complex, "got complex numbers"), (object, "got dtype object"), (str, "got dtype <U")]
)
def test_arrays_that_are_not_real_are_a_type_error(name, kind, told):
    given = {"X": X, "Y": Y, "v": V, "W": W, "Z": np.ones(3), "lengths": np.array([1, 2])}
    if name == "K":
        given = {"X": X, "Y": Y, "v": V, "K": X}
    given[name] = given[name].astype(kind)
    with refused(f"{name}: {told}", TypeError):
        mm.Problem(**given)
