"""Problem: validated once, frozen, broadcast, ragged; its scores, optimal tokens and ties."""

import copy
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from kernel_helpers import problem_of, rng

import fastmm as mm

X = np.array([[[1.0, 2.0], [0.0, 1.0], [-1.0, 0.0]], [[2.0, 0.0], [0.0, 0.0], [1.0, -2.0]]])
Y = np.array([1.0, -1.0])
V = np.array([1.0, 0.5])
K = np.arange(24.0).reshape(2, 3, 4)


def changed(**values):
    return mm.Problem(**({"X": X, "Y": Y, "v": V} | values))


WRONG = {
    "X axes": ({"X": X[0]}, r"^X: got shape \(3, 2\); allowed: \(\.\.\., n, T, d\)"),
    "no inputs": ({"X": np.zeros((0, 3, 2)), "Y": []}, r"^X: got shape \(0, 3, 2\); .* n at least 1"),
    "no tokens": ({"X": np.zeros((2, 0, 2))}, r"^X: got shape \(2, 0, 2\); .* T at least 1"),
    "no width": ({"X": np.zeros((2, 3, 0)), "v": []}, r"^X: got shape \(2, 3, 0\); .* d at least 1"),
    "Y short": ({"Y": [1.0]}, r"^Y: got shape \(1,\); allowed: \(\.\.\., n=2\) to match X"),
    "Y scalar": ({"Y": 1.0}, r"^Y: got shape \(\); allowed: \(\.\.\., n\)"),
    "Y zero": ({"Y": [1.0, 0.0]}, r"^Y: entry \[1\] is 0; allowed: -1 and \+1"),
    "Y zero int": ({"Y": [0, 1]}, r"^Y: entry \[0\] is 0; allowed: -1 and \+1 \(0/1 labels: write 2\*Y - 1\)"),
    "Y minus zero": ({"Y": [1.0, -0.0]}, r"^Y: entry \[1\] is 0"),
    "Y bool": ({"Y": [True, False]}, r"^Y: got booleans; allowed: labels -1 and \+1"),
    "Y nan": ({"Y": [1.0, np.nan]}, r"^Y: entry \[1\] is nan; allowed: finite"),
    "v width": ({"v": [1.0, 2.0, 3.0]}, r"^v: got shape \(3,\); allowed: \(\.\.\., d=2\) to match X"),
    "v inf": ({"v": [1.0, np.inf]}, r"^v: entry \[1\] is inf"),
    "K tokens": ({"K": K[:, :2]}, r"^K: got shape \(2, 2, 4\); allowed: \(\.\.\., n=2, T=3"),
    "K inputs": ({"K": K[:1]}, r"^K: got shape \(1, 3, 4\); allowed: \(\.\.\., n=2, T=3"),
    "K width": ({"K": K[..., :0]}, r"^K: got shape \(2, 3, 0\); .*d_k at least 1"),
    "K axes": ({"K": K[0]}, r"^K: got shape \(3, 4\); allowed: \(\.\.\., n, T, d_k\)"),
    "K nan": ({"K": np.where(K == 7, np.nan, K)}, r"^K: entry \[0, 1, 3\] is nan"),
    "K and W": ({"K": K, "W": np.eye(2)}, "^K and W: got both; allowed: "),
    "W width": ({"W": np.ones((2, 3))}, r"^W: got shape \(2, 3\)"),
    "W axes": ({"W": [1.0, 2.0]}, r"^W: got shape \(2,\); allowed: \(\.\.\., d_q, d\)"),
    "W inf": ({"W": [[np.inf, 1.0]]}, r"^W: entry \[0, 0\] is inf"),
    "W and Z": ({"W": np.ones((4, 2)), "Z": np.ones((2, 3))}, r"^W: got shape \(4, 2\); .*d_q=3, d=2"),
    "Z inputs": ({"Z": np.ones((3, 2))}, r"^Z: got shape \(3, 2\); allowed: \(\.\.\., n=2, d_q\)"),
    "Z nan": ({"Z": [np.nan]}, r"^Z: entry \[0\] is nan"),
    "lengths 0": ({"lengths": [0, 3]}, r"^lengths: entry \[0\] is 0; allowed: 1\.\.3 tokens"),
    "lengths long": ({"lengths": [3, 4]}, r"^lengths: entry \[1\] is 4; allowed: 1\.\.3 tokens"),
    "lengths float": ({"lengths": [3.0, 2.0]}, r"^lengths: got dtype float64; allowed: integers"),
    "X nan": ({"X": np.where(X == -2, np.nan, X)}, r"^X: entry \[1, 2, 1\] is nan; allowed: finite numbers"),
    "batches": ({"v": np.ones((3, 2)), "Y": np.ones((2, 2))}, r"^batch dimensions .*X \(\).*Y \(2,\).*v \(3,\)"),
    "batch lengths": ({"v": np.ones((3, 2)), "lengths": np.ones((2, 2), int)}, r"batch .*v \(3,\).*lengths \(2,\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data_are_refused(case):
    """Each rule of the border is a ValueError that names the argument, what was given and what is allowed."""
    values, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        changed(**values)


@pytest.mark.parametrize("name", ["X", "Y", "v", "K", "W", "Z"])
def test_wrong_types_are_refused(name):
    """Complex, object and text arrays are a TypeError naming the argument."""
    good = {"X": X, "Y": Y, "v": V, "K": K, "W": np.eye(2), "Z": X[:, 0]}[name]
    for value in (good.astype(complex), good.astype(object), good.astype(str)):
        with pytest.raises(TypeError, match=f"^{name}: got .*; allowed: real numbers"):
            changed(**{name: value})


def test_real_labels_are_allowed():
    """Labels are any nonzero reals, and scale the scores."""
    assert np.array_equal(changed(Y=[0.5, -3]).scores, np.array([[0.5], [-3]]) * (X @ V))


def test_defaults():
    """Keys are the tokens; with a matrix W they are X W', with queries too they stay the tokens."""
    W = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    assert np.array_equal(changed().K, X)
    assert np.array_equal(changed(W=W).K, X @ W.T)
    assert changed(W=W).d_k == 3
    assert np.array_equal(changed(W=W[:2], Z=[[1.0, 2.0]]).K, X)
    assert changed(Z=[1.0, 2.0]).Z.shape == (1, 2)
    p = changed(K=K)
    assert (p.n, p.T, p.d, p.d_k, p.batch_shape, p.dtype) == (2, 3, 2, 4, (), np.float64)


def test_repr_says_what_it_is():
    """The text of a problem tells its sizes, type, batch and raggedness."""
    assert repr(changed()) == "Problem(n=2, T=3, d=2, d_k=2, float64)"
    assert "batch (4,), ragged" in repr(changed(v=np.ones((4, 2)), lengths=[1, 3]))


def test_conforming_data_are_not_copied_nor_locked():
    """Arrays of the right form are shared, stay writable and unchanged for the user, read-only in the problem."""
    data = {"X": X.copy(), "Y": Y.copy(), "v": V.copy(), "K": K.copy()}
    before = copy.deepcopy(data)
    problem = mm.Problem(**data)
    mm.descend(problem, np.zeros(4), steps=3)
    for name, array in data.items():
        stored = getattr(problem, name)
        assert np.shares_memory(stored, array)
        assert not stored.flags.writeable
        assert array.flags.writeable
        assert np.array_equal(array, before[name])
        with pytest.raises(ValueError, match=r"read-only"):
            stored[...] = 0


def test_float32_stays_float32():
    """All arrays float32 give float32 scores, integer labels and lists notwithstanding; one float64 array decides."""
    x, v = X.astype(np.float32), V.astype(np.float32)
    assert mm.Problem(x, [1, -1], v).dtype == np.float32
    assert mm.Problem(x, np.array([1, -1]), [1.0, 0.5]).scores.dtype == np.float32
    assert mm.Problem(x, Y, v).dtype == np.float64
    assert mm.Problem(x, [1, -1], V).dtype == np.float64
    assert mm.Problem(x.astype(">f4"), [1, -1], v).dtype == np.float32
    assert mm.Problem(x, [1, -1], v, W=np.eye(2, dtype=np.float32)).K.dtype == np.float32


def test_narrow_integers_do_not_wrap():
    """uint8 tokens and int8 labels give the scores of the numbers they are."""
    tokens = np.array([[[255, 0], [0, 255]]], dtype=np.uint8)
    problem = mm.Problem(tokens, np.array([-1], dtype=np.int8), np.array([2, -1], dtype=np.int8))
    assert problem.scores.tolist() == [[-510.0, 255.0]]


def test_attributes_are_frozen():
    """A problem cannot be changed: neither set, nor given new attributes, nor deleted from."""
    problem = changed()
    for name in ("X", "n", "scores", "new"):
        with pytest.raises(AttributeError, match=f"frozen.*{name}"):
            setattr(problem, name, 1)
        with pytest.raises(AttributeError, match=f"frozen.*{name}"):
            delattr(problem, name)
    for name in ("scores", "optimal", "tied"):
        assert not getattr(problem, name).flags.writeable


VARIANTS = {
    "plain": {},
    "keys": {"K": K},
    "matrix": {"W": np.array([[1.0, 2.0]])},
    "queries": {"W": np.array([[1.0, 2.0]]), "Z": [[3.0]]},
    "ragged": {"X": np.where(X == -2, np.nan, X), "lengths": [3, 2]},
    "batch": {"v": np.ones((3, 2)), "Y": np.array([[[1.0, 1.0]], [[-1.0, 1.0]]])},
    "float32": {"X": X.astype(np.float32), "Y": [1, -1], "v": V.astype(np.float32)},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_copies_are_equal(variant):
    """Pickle and deepcopy give an equal problem of the same type, read-only too, with equal scores."""
    problem = changed(**VARIANTS[variant])
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), copy.copy(problem)):
        assert other == problem
        assert other.dtype == problem.dtype
        assert other.batch_shape == problem.batch_shape
        assert np.array_equal(other.scores, problem.scores, equal_nan=True)
        assert not other.X.flags.writeable


def test_keys_that_are_the_tokens_are_pickled_once():
    """A problem whose keys are its tokens does not carry them twice."""
    x = rng(1).normal(size=(50, 20, 10))
    problem = mm.Problem(x, np.ones(50), np.ones(10))
    assert np.shares_memory(problem.K, problem.X)
    assert len(pickle.dumps(problem)) < 1.5 * x.nbytes
    assert np.shares_memory(copy.deepcopy(problem).K, copy.deepcopy(problem).X) is False
    again = pickle.loads(pickle.dumps(problem))
    assert np.shares_memory(again.K, again.X)


def test_equality_compares_every_part():
    """Problems differ when any array, dtype or length differs; nothing else is equal to a problem; no hash."""
    problem = changed(K=K)
    assert problem == changed(K=K)
    assert problem != changed(K=K + 1)
    assert problem != changed(K=K, Y=[1.0, 1.0])
    assert problem != changed(K=K, lengths=[3, 2])
    assert problem != changed(K=K, Z=[1.0])
    assert problem != "problem"
    with pytest.raises(TypeError, match=r"unhashable"):
        hash(problem)


BATCHES = [
    ({"X": (), "Y": (), "v": (5,), "K": ()}, (5,)),
    ({"X": (4, 1), "Y": (), "v": (5,), "K": (1, 5)}, (4, 5)),
    ({"X": (), "Y": (3, 1), "v": (), "K": (2,)}, (3, 2)),
    ({"X": (2, 3), "Y": (3,), "v": (1, 1), "K": (2, 1)}, (2, 3)),
    ({"X": (0,), "Y": (), "v": (), "K": ()}, (0,)),
]


@pytest.mark.parametrize(("shapes", "want"), BATCHES)
def test_batch_dimensions_broadcast(shapes, want):
    """Any leading dimensions broadcast; scores of an element are those of its own arrays."""
    r = rng(2)
    core = {"X": (2, 3, 2), "Y": (2,), "v": (2,), "K": (2, 3, 4)}
    data = {name: r.normal(size=shape + core[name]) for name, shape in shapes.items()}
    problem = mm.Problem(**data)
    assert problem.batch_shape == want
    scores = np.broadcast_to(problem.scores, (*want, 2, 3))
    for own in np.ndindex(*want):
        x, y, v = (np.broadcast_to(data[name], want + core[name])[own] for name in "XYv")
        assert np.array_equal(scores[own], mm.Problem(x, y, v).scores)
        assert np.array_equal(np.broadcast_to(problem.optimal, (*want, 2))[own], mm.Problem(x, y, v).optimal)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 9, 16, 33, 70])
def test_scores_are_right(d, dtype):
    """Scores agree with exact rational arithmetic to the rounding of a dot product."""
    problem = problem_of(3, 4, 5, d, dtype=dtype)
    eps = np.finfo(dtype).eps if dtype == np.float32 else d * np.finfo(dtype).eps
    for i, t in np.ndindex(4, 5):
        products = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(problem.X[i, t], problem.v, strict=True)]
        want = Fraction(float(problem.Y[i])) * sum(products)
        size = float(sum(abs(q) for q in products))
        assert abs(float(Fraction(float(problem.scores[i, t])) - want)) <= eps * size


def test_scores_that_overflow_are_refused():
    """Scores outside the range of the dtype are a ValueError, not an infinity."""
    with pytest.raises(ValueError, match=r"^scores: entry \[0, 0\] is inf"):
        _ = mm.Problem([[[1e200, 0.0]]], [1.0], [1e200, 0.0]).scores


def test_padding_is_never_read():
    """NaN and infinity behind the lengths are harmless; the first bad entry before them is still found."""
    x, k = X.copy(), K.copy()
    x[0, 2], x[1, 1:] = np.nan, np.inf
    k[0, 2], k[1, 1:] = -np.inf, np.nan
    problem = mm.Problem(x, Y, V, K=k, lengths=[2, 1])
    assert np.array_equal(np.isnan(problem.scores), [[False, False, True], [False, True, True]])
    assert problem.real_tokens.tolist() == [[True, True, False], [True, False, False]]
    assert problem.optimal.tolist() == [0, 0]
    made = mm.Problem(x, Y, V, W=np.eye(2), lengths=[2, 1])
    assert np.array_equal(made.K[0, :2], X[0, :2])
    x[0, 1, 1] = np.nan
    with pytest.raises(ValueError, match=re.escape("X: entry [0, 1, 1] is nan")):
        mm.Problem(x, Y, V, lengths=[2, 1])


def test_shared_tokens_are_checked_to_the_longest_length():
    """Where one X serves a batch of lengths, a token counts as read as soon as one element reads it."""
    x = X.copy()
    x[0, 2] = np.nan
    assert mm.Problem(x, Y, V, lengths=[[1, 3], [2, 2]]).batch_shape == (2,)
    with pytest.raises(ValueError, match=re.escape("X: entry [0, 2, 0] is nan")):
        mm.Problem(x, Y, V, lengths=[[1, 3], [3, 2]])
    batch = np.stack([x, X])[:, None]
    assert mm.Problem(batch, Y, V, lengths=np.array([[[2, 3]], [[3, 3]]])).batch_shape == (2, 1)
    with pytest.raises(ValueError, match=re.escape("X: entry [0, 0, 0, 2, 0] is nan")):
        mm.Problem(batch, Y, V, lengths=np.array([[3, 3]]))


TIES = [
    ([[5.0, 5.0, 3.0]], [0], [True]),
    ([[2.0, 3.0, 3.0]], [1], [True]),
    ([[-0.0, 0.0, -1.0]], [0], [True]),
    ([[0.0, -0.0, -1.0]], [0], [True]),
    ([[-1.0, -2.0, -1.0 - 2**-52]], [0], [False]),
    ([[1.0, 1.0 + 2**-52, 1.0]], [1], [False]),
    ([[7.0]], [0], [False]),
    ([[5e-324, 0.0]], [0], [False]),
]


@pytest.mark.parametrize(("scores", "optimal", "tied"), TIES)
def test_ties_are_exact(scores, optimal, tied):
    """The optimal token is the first of the largest; a tie is exact equality of scores, of zeros of either sign too."""
    problem = mm.Problem(np.array(scores)[..., None], np.ones(len(scores)), np.ones(1))
    assert problem.optimal.tolist() == optimal
    assert problem.optimal.dtype == np.int64
    assert problem.tied.tolist() == tied


def test_equal_scores_from_permuted_features_tie():
    """Rows that hold the same products in swapped places tie, however many features there are."""
    assert mm.Problem([[[0.1, 0.3], [0.3, 0.1], [0.0, 0.0]]], [1.0], [0.3, 0.3]).tied.tolist() == [True]


def test_padding_takes_no_part_in_ties():
    """Large or equal scores in the padding neither win nor tie, for any element of a ragged batch."""
    x = np.array([[[1.0], [3.0], [3.0]], [[-1.0], [-2.0], [9.0]]])
    problem = mm.Problem(x, [1, 1], [1.0], lengths=[[3, 2], [2, 3], [1, 1]])
    assert problem.optimal.tolist() == [[1, 0], [1, 2], [0, 0]]
    assert problem.tied.tolist() == [[True, False], [False, False], [False, False]]
