"""What the margin programs accept, refuse and return: messages, limits, starts, pickles."""

import copy
import pickle
import re

import numpy as np
import pytest
from margin_verify import att_rows, same_bits, verify

import fastmm as mm
from fastmm import _core

K = np.array([[[1, 2], [0, 1], [-1, 0]], [[2, 0], [0, 0], [1, -2]]], float)  # w = (1/2, 1/2) for tokens 0, 0
SELECTED = [0, 0]


def refuses(error, message, call, *args, **kwargs):
    with pytest.raises(error, match=re.escape(message)):
        call(*args, **kwargs)


def layouts():
    """The same keys in every layout and dtype."""
    twice = np.zeros((4, 6, 4))
    twice[::2, ::2, ::2] = K
    unaligned = np.frombuffer(b"." + K.tobytes(), np.uint8)[1:].view(np.float64).reshape(K.shape)
    locked = K.copy()
    locked.flags.writeable = False
    return {
        "C": K,
        "Fortran": np.asfortranarray(K),
        "strided": twice[::2, ::2, ::2],
        "reversed": K[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "transposed": K.transpose(2, 0, 1).copy().transpose(1, 2, 0),
        "big-endian": K.astype(">f8"),
        "unaligned": unaligned,
        "read-only": locked,
        "float32": K.astype(np.float32),
        "float16": K.astype(np.float16),
        "int64": K.astype(np.int64),
        "int8": K.astype(np.int8),
        "lists": K.tolist(),
    }


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_gives_the_same_answer(layout):
    """Small integers, exact in all dtypes; the result is float64 and the input is not written."""
    given = layouts()[layout]
    before = copy.deepcopy(given)
    result = mm.att_svm(given, SELECTED)
    assert result.w.dtype == np.float64
    same_bits(result, mm.att_svm(K, SELECTED))
    np.testing.assert_allclose(result.w, [0.5, 0.5], rtol=1e-15)
    np.testing.assert_array_equal(np.asarray(given), np.asarray(before))


def test_float32_keys_are_widened_before_they_are_subtracted():
    """1 + 2**-20 and 2**-20 are float32 numbers whose difference has to be 1, not its float32 neighbor."""
    keys = np.array([[[1 + 2**-20], [2**-23]]], np.float32)
    A, b, rows = att_rows(keys, [0])
    result = mm.att_svm(keys, [0])
    verify(A, b, result, rows=rows)
    assert result.w[0] == 1 / (1 + 2**-20 - 2**-23)


def test_bad_arguments_are_named():
    """The message says which argument, what was given, what is allowed."""
    refuses(ValueError, "selected: entry [0] is -1; allowed: 0..2", mm.att_svm, K, [-1, 0])
    refuses(ValueError, "selected: entry [0] is 2; allowed: 0..1", mm.att_svm, K, [2, 0], lengths=[2, 3])
    refuses(ValueError, "lengths: entry [0] is 0; allowed: 1..3 tokens", mm.att_svm, K, SELECTED, lengths=[0, 3])
    refuses(ValueError, "K: entry [0, 0, 0] is inf; allowed: finite numbers", mm.att_svm, [[[np.inf, 0], [0, 0]]], [0])
    refuses(ValueError, "K: got shape (2, 0, 3)", mm.att_svm, np.zeros((2, 0, 3)), SELECTED)
    refuses(ValueError, "K: got shape (2, 3, 0)", mm.att_svm, np.zeros((2, 3, 0)), SELECTED)
    refuses(ValueError, "relaxed: got dtype int64; allowed: booleans", mm.att_svm, K, SELECTED, relaxed=[0, 1])
    refuses(ValueError, "relaxed: got shape (3,)", mm.att_svm, K, SELECTED, relaxed=[True] * 3)
    refuses(ValueError, "batch dimensions do not broadcast", mm.att_svm, np.zeros((2, 2, 3, 2)), np.zeros((3, 2), int))
    refuses(TypeError, "K: got complex numbers", mm.att_svm, K + 0j, SELECTED)
    refuses(ValueError, "Y: entry [0] is 0; allowed: -1 and +1", mm.label_svm, [[1.0, 0.0], [0.0, 1.0]], [0, 1])
    refuses(ValueError, "Y: got shape (3,)", mm.label_svm, [[1.0, 0.0], [0.0, 1.0]], [1, 1, 1])
    refuses(ValueError, "R: got shape (2, 0)", mm.label_svm, np.zeros((2, 0)), [1, 1])
    refuses(ValueError, "b: got shape (2,)", mm.min_norm, [[1.0, 1.0]], [1.0, 1.0])
    refuses(ValueError, "A: got shape (1, 0)", mm.min_norm, np.zeros((1, 0)), 1.0)
    refuses(ValueError, "b: entry [0] is nan", mm.min_norm, [[1.0, 1.0]], [np.nan])
    refuses(ValueError, "E and e: got one without the other", mm.min_norm, [[1.0]], 1.0, E=[[1.0]])
    refuses(ValueError, "E: got shape (1, 2)", mm.min_norm, [[1.0]], 1.0, E=[[1.0, 0.0]], e=0.0)


def test_bad_options_are_named():
    """Limits, solver and start are checked before any work."""
    A = [[1.0, 0.0]]
    refuses(ValueError, "solver: got 'scs'; allowed: 'auto', 'active-set', 'osqp'", mm.min_norm, A, 1.0, solver="scs")
    for limit in (0, -3, 1.5, True, "9"):
        refuses(
            ValueError, f"max_iter: got {limit!r}; allowed: None or a positive", mm.min_norm, A, 1.0, max_iter=limit
        )
    for limit in (0, -1.0, float("nan"), True, "1"):
        refuses(ValueError, f"time_limit: got {limit!r}; allowed: None or a pos", mm.min_norm, A, 1.0, time_limit=limit)
    refuses(ValueError, "threads: got 0; allowed: None or an integer in 1..4096", mm.min_norm, A, 1.0, threads=0)
    refuses(ValueError, "start: got shape (3,); allowed: a MaxMargin", mm.min_norm, A, 1.0, start=np.ones(3))


def test_a_scalar_right_hand_side_counts_for_all_rows():
    """As a float, a 0-d array or an integer."""
    for b in (1.0, np.array(1.0), np.float32(1), 1):
        np.testing.assert_array_equal(mm.min_norm([[1.0, 1.0], [2.0, 0.0]], b).w, [0.5, 0.5])


def test_an_infeasible_program_raises_with_its_proof():
    """The exception carries the answer; the message tells what to do."""
    with pytest.raises(mm.InfeasibleError, match=r"att_svm: no certified answer.*select other tokens") as caught:
        mm.att_svm([[[0.0], [1.0], [2.0]]], [1])
    result = caught.value.result
    np.testing.assert_array_equal(result.farkas, [[1, 0, 1]])
    assert pickle.loads(pickle.dumps(caught.value)).result == result


def test_a_batch_that_fails_in_places_tells_them():
    """Number, first places, advice for each status, and the way to get the rest."""
    A = np.array([[[1.0], [1.0]], [[1.0], [-1.0]], [[2.0], [1.0]], [[1.0], [-2.0]]])
    message = "min_norm: 2 of 4 programs have no certified answer (elements 1, 3). infeasible: No vector"
    with pytest.raises(mm.InfeasibleError, match=re.escape(message)) as caught:
        mm.min_norm(A, 1.0)
    assert caught.value.result.optimal.tolist() == [True, False, True, False]
    with pytest.raises(mm.NotSolvedError, match=r"elements \(0, 0\), \(0, 1\), \(0, 2\), \(0, 3\).*max_iter: The iter"):
        mm.min_norm(np.tile(np.eye(2), (1, 4, 1, 1)), 1.0, max_iter=1)


def test_a_limit_raises_not_solved():
    """And the best point is there."""
    with pytest.raises(mm.NotSolvedError, match="raise `max_iter`") as caught:
        mm.min_norm(np.eye(3), [1.0, 2.0, 3.0], max_iter=2)
    assert caught.value.result.status == mm.Status.max_iter
    np.testing.assert_array_equal(caught.value.result.best, [0, 2, 3])  # the most violated rows first


def test_a_limit_just_large_enough_is_no_limit():
    """Three rows enter in three steps."""
    assert mm.min_norm(np.eye(3), [1.0, 2.0, 3.0], max_iter=3).iterations == 3


@pytest.mark.parametrize("batch", [(), (4,)])
def test_results_compare_copy_and_pickle(batch):
    """Frozen values, equal to their copies and to a second solve."""
    keys = np.broadcast_to(K, (*batch, *K.shape))
    result = mm.att_svm(keys, SELECTED)
    assert result == mm.att_svm(keys, SELECTED)
    assert result == pickle.loads(pickle.dumps(result))
    assert result == copy.deepcopy(result)
    assert result != mm.att_svm(2 * keys, SELECTED)
    assert result.__eq__(1) is NotImplemented
    with pytest.raises(AttributeError):
        result.w = 0
    failed = mm.att_svm([[[0.0], [1.0], [2.0]]], [1], throw=False)
    assert failed == pickle.loads(pickle.dumps(failed))  # NaN equals NaN here


def test_results_print_readably():
    """One line each."""
    assert (
        repr(mm.att_svm(K, SELECTED)) == "<MaxMargin optimal: margin 1.41421, 2 neighbors, 1 iterations of active-set>"
    )
    failed = mm.att_svm([[[0.0], [1.0], [2.0]]], [1], throw=False)
    assert repr(failed) == "<MaxMargin infeasible: 1 iterations of active-set>"
    mixed = mm.min_norm([[[1.0], [1.0]], [[1.0], [-1.0]]], 1.0, throw=False)
    assert repr(mixed) == "<MaxMargin batch (2,): 1 optimal, 1 infeasible; 2 iterations of active-set>"


def test_single_and_batch_types():
    """A single program has plain values, a batch has arrays."""
    single, batch = mm.att_svm(K, SELECTED), mm.att_svm(K[None], SELECTED)
    assert isinstance(single.status, mm.Status)
    assert isinstance(single.optimal, bool)
    assert isinstance(single.margin, float)
    assert isinstance(single.certificate.ok, bool)
    assert batch.status.dtype == np.int8
    assert batch.optimal.dtype == np.bool_
    assert batch.certificate.ok.shape == (1,)
    assert batch.certificate[0].ok


@pytest.mark.parametrize("kind", ["result", "multipliers", "point", "direction"])
def test_a_start_saves_steps_and_not_more(kind):
    """Started from its own answer a program needs no step, and the bits do not depend on the start."""
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((30, 5, 6, 9))
    selected = (keys @ rng.standard_normal(9)).argmax(-1)
    cold = mm.att_svm(keys, selected)
    start = {"result": cold, "multipliers": cold.dual, "point": cold.w, "direction": 7 * cold.direction}[kind]
    warm = mm.att_svm(keys, selected, start=start)
    assert cold.iterations.min() > 2
    assert warm.iterations.max() <= (0 if kind in ("result", "multipliers") else 5)
    np.testing.assert_allclose(warm.w, cold.w, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(warm.neighbors, cold.neighbors)


@pytest.mark.parametrize("start", [np.zeros(2), np.full(2, np.nan), np.full(2, np.inf), -np.ones(2), [1e-300, 1e300]])
def test_a_useless_start_does_no_harm(start):
    """Points that satisfy nothing, and points that are none."""
    np.testing.assert_allclose(mm.att_svm(K, SELECTED, start=start).w, [0.5, 0.5], rtol=1e-14)


def test_a_start_of_wrong_multipliers_does_no_harm():
    """Every row guessed active, the dependent and the inactive ones too."""
    A = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [5.0, 5.0]])
    b = np.array([1.0, 1.0, 0.0, 1.0, -4.0, 1.0])
    result = mm.min_norm(A, b, start=np.ones(6))
    np.testing.assert_allclose(result.w, [1, 1], rtol=1e-15)
    verify(A, b, result)


def test_rows_that_ask_for_nothing():
    """b <= 0 everywhere: w = 0; a row is a neighbor only where b = 0."""
    result = mm.min_norm([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0]], [0.0, 0.0, -1.0, -1.0])
    verify([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0]], [0.0, 0.0, -1.0, -1.0], result)
    assert not result.w.any()
    assert result.margin == np.inf
    assert result.neighbors.tolist() == [True, True, False, False]
    assert mm.min_norm(np.zeros((0, 3)), np.zeros(0)).margin == np.inf


def test_one_dimension():
    """The largest of the lower bounds, or the nearest to 0 of the two ends."""
    assert mm.min_norm([[1.0], [2.0], [4.0]], [1.0, 3.0, 2.0]).w[0] == 1.5
    assert mm.min_norm([[-2.0], [1.0]], [1.0, -3.0]).w[0] == -0.5
    assert mm.min_norm([[-2.0], [1.0]], [1.0, 1.0], throw=False).status == mm.Status.infeasible


def test_equalities_alone_and_in_conflict():
    """Redundant equalities are fine, contradictory ones proved so with free signs."""
    none = np.zeros((0, 2)), np.zeros(0)
    redundant = mm.min_norm(*none, [[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0])
    np.testing.assert_allclose(redundant.w, [0.5, 0.5], rtol=1e-15)
    verify(*none, redundant, E=[[1.0, 1.0], [2.0, 2.0]], e=[1.0, 2.0])
    broken = mm.min_norm(*none, [[1.0, 1.0], [2.0, 2.0]], [1.0, 3.0], throw=False)
    verify(*none, broken, E=[[1.0, 1.0], [2.0, 2.0]], e=[1.0, 3.0])
    zero = mm.min_norm([[1.0, 0.0]], 1.0, [[0.0, 0.0]], [-2.0], throw=False)
    assert zero.status == mm.Status.infeasible
    assert zero.farkas_equality.tolist() == [-1.0]


def test_the_compiled_layer_refuses_what_would_corrupt_memory():
    """Called directly, with wrong dtypes, shapes and indices."""
    keys, block, chosen = K[None], np.zeros(1, np.int64), np.zeros((1, 2), np.int64)
    default = _core.MarginSettings()
    assert _core.att_svm(keys, block, chosen, None, None, default)["status"].tolist() == [0]
    refuses(ValueError, "block has entry 1", _core.att_svm, keys, block + 1, chosen, None, None, default)
    refuses(ValueError, "selected has entry 3", _core.att_svm, keys, block, chosen + 3, None, None, default)
    refuses(ValueError, "lengths has entry 4", _core.att_svm, keys, block, chosen, None, chosen + 4, default)
    refuses(ValueError, "beyond its length", _core.att_svm, keys, block, chosen, None, chosen, default)
    refuses(ValueError, "selected has shape", _core.att_svm, keys, block, chosen[:, :1].copy(), None, None, default)
    refuses(ValueError, "relaxed has shape", _core.att_svm, keys, block, chosen, np.ones((1, 3), bool), None, default)
    with pytest.raises(TypeError):
        _core.att_svm(keys.astype(np.int64), block, chosen, None, None, default)
    with pytest.raises(TypeError):
        _core.att_svm(np.asfortranarray(np.ones((1, 2, 3, 2))), block, chosen, None, None, default)
    short = _core.MarginSettings(start_dual=np.ones((1, 5)))
    refuses(ValueError, "start_dual has shape", _core.att_svm, keys, block, chosen, None, None, short)
    short = _core.MarginSettings(start_point=np.ones((1, 3)))
    refuses(ValueError, "start_point has shape", _core.att_svm, keys, block, chosen, None, None, short)
    idle = _core.MarginSettings(threads=0)
    refuses(ValueError, "threads is 0", _core.att_svm, keys, block, chosen, None, None, idle)
    rows = np.ones((1, 1, 2))
    none = np.zeros((1, 0, 2)), block, np.zeros((1, 0))
    refuses(ValueError, "b has shape", _core.min_norm, rows, block, np.ones((1, 2)), *none, default)
    refuses(ValueError, "Y has shape", _core.label_svm, rows, block, np.ones((1, 2)), default)
