"""The boundary of integers and labels: lengths, selected tokens, steps, labels, and how batches broadcast."""

import re

import numpy as np
import pytest

from fastmm import arrays

INTEGER_TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4", ">u8"]


def refused(text, kind=ValueError):
    return pytest.raises(kind, match=re.escape(text))


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_lengths_of_any_integer_type(dtype):
    out = arrays.as_lengths("lengths", np.array([1, 3], dtype), 2, 4)
    assert out.tolist() == [1, 3]
    assert out.dtype == np.int64


def test_full_lengths_are_no_lengths():
    assert arrays.as_lengths("lengths", None, 2, 4) is None
    assert arrays.as_lengths("lengths", [4, 4], 2, 4) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([0, 3], "lengths: entry [0] is 0; allowed: 1..3 tokens"),
        ([1, 4], "lengths: entry [1] is 4; allowed: 1..3 tokens"),
        ([[1, 2], [3, -1]], "lengths: entry [1, 1] is -1; allowed: 1..3 tokens"),
        ([1.0, 2.0], "lengths: got dtype float64; allowed: integers (no rounding is done here)"),
        (np.array([1, 2], np.float16), "lengths: got dtype float16; allowed: integers"),
        ([True, True], "lengths: got booleans; allowed: integers"),
        ([1, 2, 3], "lengths: got shape (3,); allowed: (..., n=2) to match the number of inputs"),
        (2, "lengths: got shape (); allowed: (..., n)"),
        (np.array([1, 2**63], np.uint64), "lengths: has an entry beyond 2**63"),
        ([[1, 2], [3]], "lengths: cannot be read as one array"),
        ([np.nan, 1.0], "lengths: got dtype float64; allowed: integers"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(value, told):
    with refused(told):
        arrays.as_lengths("lengths", value, 2, 3)


@pytest.mark.parametrize("value", [np.array([1, 2], complex), np.array([1, 2], object), ["1", "2"]])
def test_lengths_that_are_no_numbers_are_a_type_error(value):
    with pytest.raises(TypeError, match=r"^lengths: got "):
        arrays.as_lengths("lengths", value, 2, 3)


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_selected_tokens_count_from_zero(dtype):
    out = arrays.as_selected("selected", np.array([0, 2], dtype), 2, 3, None)
    assert out.tolist() == [0, 2]
    assert out.dtype == np.int64


@pytest.mark.parametrize(
    ("value", "lengths", "told"),
    [
        ([-1, 0], None, "selected: entry [0] is -1; allowed: 0..2"),
        ([0, 3], None, "selected: entry [1] is 3; allowed: 0..2"),
        ([2, 0], [2, 3], "selected: entry [0] is 2; allowed: 0..1"),
        ([0.0, 1.0], None, "selected: got dtype float64; allowed: integers"),
        ([False, True], None, "selected: got booleans; allowed: integers"),
        ([0], None, "selected: got shape (1,); allowed: (..., n=2)"),
        ([[0, 1], [0, 1]], [[3, 3]] * 3, "selected: shape (2, 2) does not broadcast with lengths (3, 2)"),
    ],
)
def test_selected_tokens_outside_the_sequences_are_refused(value, lengths, told):
    own = None if lengths is None else np.array(lengths)
    with refused(told):
        arrays.as_selected("selected", value, 2, 3, own)


def test_selected_tokens_broadcast_with_lengths():
    out = arrays.as_selected("selected", [1, 0], 2, 3, np.array([[2, 1], [3, 3], [2, 3]]))
    assert out.tolist() == [[1, 0]] * 3
    assert out.flags.c_contiguous


def test_no_inputs_have_no_selected_tokens():
    assert arrays.as_selected("selected", [], 0, 3, None).shape == (0,)


def test_recorded_steps_are_a_vector_of_integers():
    assert arrays.as_steps("record", [0, 5]).tolist() == [0, 5]
    with refused("record: got shape (1, 2); allowed: (R,)"):
        arrays.as_steps("record", [[0, 5]])
    with refused("record: got dtype float64; allowed: integers"):
        arrays.as_steps("record", [0.5])


@pytest.mark.parametrize("value", [[1, -1], [1.0, -1.0], np.array([1, -1], np.int8), np.array([1, -1], np.float16)])
def test_labels_of_plus_and_minus_one(value):
    out = arrays.as_labels("Y", value, np.float64)
    assert out.tolist() == [1.0, -1.0]
    assert out.dtype == np.float64


def test_labels_may_be_any_real_numbers_but_zero():
    assert arrays.as_labels("Y", [0.5, -3.25, 5e-324], np.float64).tolist() == [0.5, -3.25, 5e-324]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1, 0], "Y: entry [1] is 0; allowed: -1 and +1 (0/1 labels: write 2*Y - 1)"),
        ([[1.0, 1.0], [-0.0, 1.0]], "Y: entry [1, 0] is 0; allowed: -1 and +1"),
        ([True, False], "Y: got booleans; allowed: labels -1 and +1 (write 2*Y - 1)"),
        ([1.0, np.nan], "Y: entry [1] is nan; allowed: finite numbers"),
        (1.0, "Y: got shape (); allowed: (..., n)"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(value, told):
    with refused(told):
        arrays.as_labels("Y", value, np.float64)


def test_a_label_that_vanishes_in_float32_is_refused():
    with refused("Y: entry [0] is 0"):
        arrays.as_labels("Y", [1e-60], np.float32)


def test_strings_are_no_labels():
    with refused("Y: got dtype <U3; allowed: real numbers", TypeError):
        arrays.as_labels("Y", ["cat", "dog"], np.float64)


def test_batches_broadcast():
    assert arrays.broadcast_batch([("X", (4, 1)), ("v", (3,)), ("p", ())]) == (4, 3)
    with refused("batch dimensions do not broadcast together: X (4,), v (3,)"):
        arrays.broadcast_batch([("X", (4,)), ("v", (3,))])


def test_blocks_index_a_batch_without_copying_it():
    rows = np.arange(6.0).reshape(3, 1, 2)
    flat, index = arrays.blocks(rows, 1, (2, 3, 4))
    assert np.shares_memory(flat, rows)
    assert flat.shape == (3, 2)
    assert index.dtype == np.int64
    assert np.array_equal(flat[index].reshape(2, 3, 4, 2), np.broadcast_to(rows, (2, 3, 4, 2)))


def test_padding_is_not_read_by_the_check_of_finiteness():
    x = np.ones((2, 3, 2))
    x[0, 1:] = np.nan
    arrays.need_finite("X", x, np.array([1, 3]))
    with refused("X: entry [0, 1, 0] is nan; allowed: finite numbers"):
        arrays.need_finite("X", x, np.array([2, 3]))
    x[1, 2, 1] = np.inf
    with refused("X: entry [1, 2, 1] is inf; allowed: finite numbers"):
        arrays.need_finite("X", x, np.array([1, 3]))
