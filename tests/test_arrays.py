"""The boundary of real numbers: dtypes, memory layouts and values that fastmm.arrays takes, copies or refuses."""

import re

import numpy as np
import pytest

from fastmm import arrays

# Small integers are exact in every type, so each layout must give this array to the last bit.
VALUES = np.array([[[1, 2], [0, 1], [3, 0]], [[2, 0], [0, 0], [1, 5]]], dtype=np.float64)
AXES = ("n", "T", "d")


def message(text: str) -> str:
    return re.escape(text)


def unaligned(array):
    """The same numbers one byte off in a buffer of bytes, read-only as such buffers are."""
    out = np.frombuffer(b"\0" + array.tobytes(), dtype=np.uint8)[1:].view(array.dtype).reshape(array.shape)
    assert not out.flags.aligned
    return out


def every_second(array):
    big = np.full([2 * extent for extent in array.shape], np.nan)
    big[::2, ::2, ::2] = array
    return big[::2, ::2, ::2]


def read_only(array):
    out = array.copy()
    out.flags.writeable = False
    return out


LAYOUTS = {
    "C order": lambda x: x.copy(),
    "Fortran order": np.asfortranarray,
    "every second element": every_second,
    "negative strides": lambda x: x[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "transposed": lambda x: x.transpose(2, 0, 1).copy().transpose(1, 2, 0),
    "big-endian": lambda x: x.astype(">f8"),
    "unaligned": unaligned,
    "unaligned big-endian": lambda x: unaligned(x.astype(">f4")),
    "read-only": read_only,
    "nested lists": lambda x: x.tolist(),
    "tuples of arrays": lambda x: tuple(x),
    "unmasked masked array": lambda x: np.ma.masked_array(x),
    "record field": lambda x: x.reshape(-1).view([("value", "<f8")])["value"].reshape(x.shape),
}
for _name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
    LAYOUTS[_name] = lambda x, name=_name: (x != 0).astype(bool) if name == "bool" else x.astype(name)
for _name in ("float16", "float32", "float64", ">i4", ">f2"):
    LAYOUTS[_name] = lambda x, name=_name: x.astype(name)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_layout_gives_the_same_numbers(layout, dtype):
    given = LAYOUTS[layout](VALUES)
    before = np.array(given, copy=True)
    out = arrays.floats("X", given, dtype, AXES)
    expected = (VALUES != 0).astype(float) if layout == "bool" else VALUES
    assert np.array_equal(out, expected)
    assert out.dtype == dtype
    assert out.dtype.isnative
    assert out.flags.c_contiguous
    assert out.flags.aligned
    assert np.array_equal(np.asarray(given), before)


def test_a_memory_map_is_read(tmp_path):
    file = tmp_path / "keys.npy"
    np.save(file, VALUES)
    mapped = np.load(file, mmap_mode="r")
    assert np.array_equal(arrays.floats("X", mapped, np.float64, AXES), VALUES)
    assert np.shares_memory(arrays.floats("X", mapped, np.float64, AXES), mapped)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_conforming_input_is_not_copied(dtype):
    for given in (VALUES.astype(dtype), read_only(VALUES.astype(dtype))):
        assert np.shares_memory(arrays.floats("X", given, dtype, AXES), given)


def test_a_scalar_keeps_no_axes():
    assert arrays.floats("lr", 0.5, np.float64, ()).shape == ()
    assert arrays.floats("lr", np.float32(0.5), np.float64, ()).shape == ()


def test_narrow_types_are_widened_before_arithmetic():
    half = arrays.floats("K", np.array([60000.0, -60000.0], np.float16), np.float64, ("T",))
    assert half[0] - half[1] == 120000.0
    bytes_ = arrays.floats("K", np.array([3, 5], np.uint8), np.float64, ("T",))
    assert bytes_[0] - bytes_[1] == -2.0
    tiny = arrays.floats("K", np.array([2.0**-24], np.float16), np.float64, ("T",))
    assert tiny[0] == 2.0**-24


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), np.array([2**53], np.uint64), np.array([-(2**53), 2**53]), np.array([2**31], np.uint32)]
)
def test_integers_up_to_2_to_the_53_are_exact(value):
    out = arrays.floats("X", value, np.float64, ())
    assert np.array_equal(out.astype(np.int64), np.asarray(value).astype(np.int64))


@pytest.mark.parametrize(
    "value", [2**53 + 1, -(2**53) - 1, [2**62], np.array([2**64 - 1], np.uint64), np.iinfo(np.int64).min]
)
def test_integers_without_an_exact_double_are_refused(value):
    with pytest.raises(ValueError, match=message("X: has integers beyond 2**53")):
        arrays.floats("X", value, np.float64, ())


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.ones(2, complex), "X: got complex numbers; allowed: real numbers (take .real"),
        ([1.0, 2.0 + 0.0j], "X: got complex numbers"),
        (np.ones(2, object), "X: got dtype object; allowed: real numbers (convert with .astype(float))"),
        ([None, 1.0], "X: got dtype object"),
        (["1", "2"], "X: got dtype <U1; allowed: real numbers"),
        (np.array([b"1"]), "X: got dtype |S1; allowed: real numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), "X: got dtype datetime64[D]"),
        (np.array([1], "timedelta64[s]"), "X: got dtype timedelta64[s]"),
        (np.zeros(2, [("a", float)]), "X: got dtype [('a', '<f8')]"),
        (np.ones(2, np.longdouble), f"X: got dtype {np.dtype(np.longdouble)}; allowed: up to float64"),
        ({"a": 1}, "X: got dtype object"),
        (None, "X: got dtype object"),
        (2**70, "X: got dtype object"),
    ],
)
def test_types_that_are_not_real_numbers_are_refused_with_the_remedy(value, told):
    with pytest.raises(TypeError, match=message(told)):
        arrays.floats("X", value, np.float64, ())


def test_ragged_lists_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"X: cannot be read as one array .*; pad shorter rows and pass lengths="):
        arrays.floats("X", [[1.0, 2.0], [3.0]], np.float64, ("T", "d"))


def test_masked_entries_are_refused_with_the_remedy():
    given = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(
        ValueError, match=message("X: has masked entries; allowed: plain arrays (pad and pass lengths=)")
    ):
        arrays.floats("X", given, np.float64, ("T",))


class Tensor:
    """Stands for a torch tensor: NumPy can read it only after detach, and only on the CPU."""

    def __init__(self, array, attached=True, device="cuda"):
        self.array, self.attached, self.device, self.dtype = array, attached, device, "torch.float64"

    def detach(self):
        return Tensor(self.array, False, self.device)

    def cpu(self):
        return Tensor(self.array, self.attached, "cpu")

    def __array__(self, dtype=None, copy=None):
        if self.attached or self.device != "cpu":
            raise TypeError("call detach().cpu() first")
        return self.array


def test_a_tensor_with_a_gradient_on_a_device_is_read():
    out = arrays.floats("X", Tensor(VALUES), np.float64, AXES)
    assert np.array_equal(out, VALUES)
    assert np.shares_memory(out, VALUES)
    assert arrays.working_dtype(("X", Tensor(VALUES.astype(np.float32)))) == np.float32


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 1), (0, 2, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_first_number_that_is_not_finite_is_named(value, place, dtype):
    given = VALUES.astype(dtype)
    given[place] = value
    given[-1, -1, -1] = value
    with pytest.raises(ValueError, match=message(f"X: entry {list(place)} is {value}; allowed: finite numbers")):
        arrays.floats("X", given, dtype, AXES)


def test_float64_beyond_float32_is_refused_rather_than_made_infinite():
    with pytest.raises(ValueError, match=r"p0: .*allowed: finite numbers"):
        arrays.floats("p0", [1e300], np.float32, ("d_k",))


def test_finiteness_can_be_left_to_the_caller():
    assert np.isnan(arrays.floats("X", [np.nan], np.float64, ("T",), finite=False)[0])


def test_too_few_axes_are_refused():
    with pytest.raises(ValueError, match=message("X: got shape (2, 3); allowed: (..., n, T, d)")):
        arrays.floats("X", np.zeros((2, 3)), np.float64, AXES)
    with pytest.raises(ValueError, match=message("v: got shape (); allowed: (..., d)")):
        arrays.floats("v", 1.0, np.float64, ("d",))


def test_extents_that_differ_name_both_shapes():
    told = "v: got shape (4, 3); allowed: (..., d=2) to match X"
    with pytest.raises(ValueError, match=message(told)):
        arrays.need_shape("v", np.zeros((4, 3)), ("d",), (2,), "X")


def test_empty_arrays_pass_where_nothing_forbids_them():
    assert arrays.floats("b", [], np.float64, ("m",)).shape == (0,)
    assert arrays.floats("A", np.zeros((0, 3), np.int64), np.float64, ("m", "d")).shape == (0, 3)


def test_the_working_dtype_is_float32_only_when_all_arrays_are():
    single, double = np.zeros(2, np.float32), np.zeros(2)
    assert arrays.working_dtype(("a", single)) == np.float32
    assert arrays.working_dtype(("a", single), ("b", single.astype(">f4"))) == np.float32
    assert arrays.working_dtype(("a", single), ("b", double)) == np.float64
    assert arrays.working_dtype(("a", single), ("b", [1.0, 2.0])) == np.float32
    assert arrays.working_dtype(("a", single), ("b", np.zeros(2, np.int8))) == np.float64
    assert arrays.working_dtype(("a", np.zeros(2, np.float16))) == np.float64
    assert arrays.working_dtype(("a", [1.0])) == np.float64
    assert arrays.working_dtype() == np.float64
