"""The border: which arrays are read, as what, and what is said to those that are not."""

import re
import tracemalloc

import numpy as np
import pytest

import fastmm as mm
from fastmm import arrays, integers

BASE = np.array([[1, 2], [0, 1], [-1, 0], [3, -2]])
POSITIVE = np.abs(BASE)


def unaligned(x):
    """The same numbers one byte off any alignment."""
    return np.frombuffer(b"\0" + x.astype(float).tobytes(), dtype=np.float64, offset=1).reshape(x.shape)


def doubled(x):
    """Every second element of an array twice as large on all axes."""
    big = np.full([2 * s for s in x.shape], 99.0)
    view = big[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def read_only(x):
    out = x.astype(float)
    out.flags.writeable = False
    return out


class Tensor:
    """What the border needs to know of a torch tensor with a gradient on a device."""

    def __init__(self, data, state="leaf"):
        self.data, self.state, self.dtype = data, state, "torch.float64"

    def detach(self):
        return Tensor(self.data, "detached")

    def cpu(self):
        return Tensor(self.data, "cpu" if self.state == "detached" else "lost")

    def __array__(self, dtype=None, copy=None):
        assert self.state == "cpu", "a tensor is detached first, then brought to the CPU"
        return np.asarray(self.data, dtype=dtype)


LAYOUTS = {
    "contiguous": lambda x: x.astype(float),
    "fortran": lambda x: np.asfortranarray(x.astype(float)),
    "strided": doubled,
    "reversed": lambda x: x.astype(float)[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda x: x.astype(float).T.copy().T,
    "broadcast": lambda x: np.broadcast_to(x.astype(float), (2, *x.shape))[0],
    "big-endian": lambda x: x.astype(">f8"),
    "big-endian int": lambda x: x.astype(">i4"),
    "unaligned": unaligned,
    "read-only": read_only,
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "int8": lambda x: x.astype(np.int8),
    "int64": lambda x: x.astype(np.int64),
    "list": lambda x: x.tolist(),
    "tuple of arrays": tuple,
    "tensor": lambda x: Tensor(x.astype(float)),
    "matrix": lambda x: x.astype(float).view(type("Sub", (np.ndarray,), {})),
    "unmasked": lambda x: np.ma.masked_array(x.astype(float)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_reads_the_same_numbers(layout):
    """Any memory layout, byte order and exact dtype gives one native, aligned, C-ordered double array."""
    out = arrays.floats("x", LAYOUTS[layout](BASE), np.float64, ("a", "b"))
    assert type(out) is np.ndarray
    assert out.dtype == np.float64
    assert out.dtype.isnative
    assert out.flags.c_contiguous
    assert out.flags.aligned
    assert np.array_equal(out, BASE)


def test_memory_maps_are_read(tmp_path):
    """A memory map opened for reading is read like any array."""
    BASE.astype(float).tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="r", shape=BASE.shape)
    assert np.array_equal(arrays.floats("x", mapped, np.float64, ("a", "b")), BASE)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "?"])
def test_narrow_types_widen_exactly(dtype):
    """Narrow numbers are widened before any arithmetic: the extremes of the type keep their value."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = [max(info.min, -(2**53)), 0, min(info.max, 2**53)]
    elif kind.kind == "f":
        info = np.finfo(kind)
        values = [float(info.min), float(info.smallest_subnormal), float(info.max)]
    else:
        values = [False, True]
    out = arrays.floats("x", np.array(values, dtype=kind), np.float64, ("a",))
    assert out.tolist() == [float(x) for x in values]


@pytest.mark.parametrize(
    "value", [np.array([2**53 + 1]), np.array([-(2**53) - 1]), np.array([2**64 - 1], "u8"), [2**60]]
)
def test_integers_without_an_exact_double_are_refused(value):
    """An integer beyond 2**53 is refused instead of being rounded."""
    with pytest.raises(ValueError, match=r"x: .*2\*\*53"):
        arrays.floats("x", value, np.float64, ("a",))


REFUSED_TYPES = {
    "complex": (np.array([1 + 0j]), "complex"),
    "object": (np.array([1.0, None]), "object"),
    "huge ints": ([2**70], "object"),
    "string": (np.array(["a"]), "<U1"),
    "mixed with string": ([1.0, "2"], "U"),
    "bytes": (np.array([b"a"]), "S1"),
    "dates": (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
    "records": (np.zeros(2, dtype=[("a", float)]), "a"),
    "none": (None, "object"),
    "longdouble": (np.array([1], dtype=np.longdouble), "float"),
    "complex list": ([1j, 2.0], "complex"),
}


@pytest.mark.parametrize("case", REFUSED_TYPES)
def test_types_without_a_real_number_are_a_type_error(case):
    """Complex, object, text, dates and wider floats are a TypeError naming argument, type and remedy."""
    value, given = REFUSED_TYPES[case]
    with pytest.raises(TypeError, match=rf"^x: got .*{re.escape(given)}.*; allowed: .*\("):
        arrays.floats("x", value, np.float64, ("a",))


def test_ragged_lists_say_how_to_pad():
    """Rows of different lengths are refused with the remedy."""
    with pytest.raises(ValueError, match=r"^x: .*pad shorter rows and pass lengths="):
        arrays.floats("x", [[1.0, 2.0], [3.0]], np.float64, ("a", "b"))


def test_masked_entries_are_refused():
    """An array with masked entries is refused with the remedy; what stands under the mask is never used."""
    with pytest.raises(ValueError, match=r"^x: has masked entries.*lengths="):
        arrays.floats("x", np.ma.masked_array([1.0, 2.0], [False, True]), np.float64, ("a",))


@pytest.mark.parametrize("value", [1.0, np.float64(1.0), np.array(1.0)])
def test_too_few_axes_are_refused(value):
    """A scalar where a vector is wanted is refused with its shape and the wanted axes."""
    with pytest.raises(ValueError, match=r"^x: got shape \(\); allowed: \(\.\.\., a\)"):
        arrays.floats("x", value, np.float64, ("a",))


def test_scalars_stay_scalars():
    """A number stays an array without axes where none are wanted."""
    assert arrays.floats("x", 3, np.float64, ()).shape == ()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3), (6, 4, 10), (2, 0, 7)])
def test_the_first_bad_entry_is_named(bad, dtype, place):
    """NaN and infinity are refused with the position of the first and what it is, wherever it stands."""
    x = np.ones((7, 5, 11), dtype=dtype)
    x[place] = bad
    x[6, 4, 10] = bad
    with pytest.raises(ValueError, match=re.escape(f"x: entry {list(place)} is {bad}; allowed: finite numbers")):
        arrays.floats("x", x, np.float64, ("a", "b", "c"))


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4095, 4096, 4097, 9001])
def test_bad_entries_are_found_at_every_position_of_a_stretch(size):
    """The check reads in stretches: first and last entries of all of them count."""
    for place in {0, size // 2, size - 1, min(4095, size - 1), min(4096, size - 1)}:
        x = np.full(size, 1e308)  # large numbers whose sum would overflow are fine
        arrays.floats("x", x, np.float64, ("a",))
        x[place] = np.nan
        with pytest.raises(ValueError, match=rf"x: entry \[{place}\] is nan"):
            arrays.floats("x", x, np.float64, ("a",))


def test_conforming_input_is_not_copied():
    """An array that already has the wanted form is used as it is, in both precisions."""
    for dtype in (np.float64, np.float32):
        x = BASE.astype(dtype)
        assert np.shares_memory(arrays.floats("x", x, dtype, ("a", "b")), x)
        x = read_only(BASE).astype(dtype)
        x.flags.writeable = False
        assert np.shares_memory(arrays.floats("x", x, dtype, ("a", "b")), x)


def test_checking_needs_no_temporary():
    """The check for NaN reads in place: a large array is checked in next to no memory."""
    x = np.zeros(1 << 20)
    tracemalloc.start()
    arrays.floats("x", x, np.float64, ("a",))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes // 8


WORKING = [
    ((np.float32,), np.float32),
    ((np.float32, np.float32), np.float32),
    ((np.float32, np.float64), np.float64),
    ((np.float32, np.int64), np.float64),
    ((np.float16,), np.float64),
    ((np.uint8,), np.float64),
    ((), np.float64),
]


@pytest.mark.parametrize(("dtypes", "want"), WORKING)
def test_the_working_dtype_is_float32_for_float32_only(dtypes, want):
    """Only arrays that are all float32 are computed in float32; lists and scalars have no say."""
    named = [(f"x{k}", np.ones(2, dtype=t)) for k, t in enumerate(dtypes)]
    assert arrays.working_dtype(*named) == want
    assert arrays.working_dtype(*named, ("list", [1.0, 2.0]), ("number", 3.0)) == want
    assert arrays.working_dtype(("big", np.ones(2, dtype=">f4"))) == np.float32


LENGTHS = {
    "zero": ([0, 3], r"lengths: entry \[0\] is 0; allowed: 1\.\.3"),
    "negative": ([3, -1], r"lengths: entry \[1\] is -1; allowed: 1\.\.3"),
    "too long": ([2, 4], r"lengths: entry \[1\] is 4; allowed: 1\.\.3"),
    "float": ([2.0, 3.0], r"lengths: got dtype float64; allowed: integers"),
    "bool": ([True, True], r"lengths: got booleans; allowed: integers"),
    "one short": ([2], r"lengths: got shape \(1,\); allowed: \(\.\.\., n=2\)"),
    "scalar": (2, r"lengths: got shape \(\); allowed: \(\.\.\., n\)"),
    "beyond": (np.array([1, 2**63], dtype="u8"), r"lengths: has an entry beyond 2\*\*63"),
    "batch": ([[1, 2], [1, 9]], r"lengths: entry \[1, 1\] is 9"),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_wrong_lengths_are_refused(case):
    """Lengths outside 1..T, of another type or shape are a ValueError with the place and what is allowed."""
    value, message = LENGTHS[case]
    with pytest.raises(ValueError, match=message):
        integers.as_lengths("lengths", value, 2, 3)


def test_lengths_that_say_nothing_are_dropped():
    """Full lengths and None are the same; others arrive as int64 whatever integers they were."""
    assert integers.as_lengths("lengths", None, 2, 3) is None
    assert integers.as_lengths("lengths", [3, 3], 2, 3) is None
    for dtype in ("u1", "i2", ">i4", "u8"):
        out = integers.as_lengths("lengths", np.array([1, 3], dtype=dtype), 2, 3)
        assert out.dtype == np.int64
        assert out.tolist() == [1, 3]


SELECTED = {
    "minus one": ([-1, 0], r"selected: entry \[0\] is -1; allowed: 0\.\.1"),
    "in the padding": ([2, 0], r"selected: entry \[0\] is 2; allowed: 0\.\.1"),
    "beyond": ([0, 3], r"selected: entry \[1\] is 3; allowed: 0\.\.2"),
    "float": ([0.0, 1.0], "selected: got dtype float64"),
    "shape": ([0, 0, 0], r"selected: got shape \(3,\)"),
}


@pytest.mark.parametrize("case", SELECTED)
def test_wrong_selections_are_refused(case):
    """Token indices outside their own sequence are refused; Python's -1 is no token."""
    value, message = SELECTED[case]
    with pytest.raises(ValueError, match=message):
        integers.as_selected("selected", value, 2, 3, np.array([2, 3]))


def test_selections_broadcast_with_lengths():
    """One selection serves every element of a batch of lengths, and the other way round."""
    lengths = np.array([[2, 3], [3, 3]])
    assert integers.as_selected("selected", [1, 2], 2, 3, lengths).tolist() == [[1, 2], [1, 2]]
    assert integers.as_selected("selected", [[1, 2], [0, 0]], 2, 3, None).shape == (2, 2)
    with pytest.raises(ValueError, match=r"selected: .*broadcast.*lengths"):
        integers.as_selected("selected", np.zeros((3, 2), int), 2, 3, lengths)


def test_batches_that_do_not_fit_are_named():
    """The message of a failed broadcast names every argument with its batch shape."""
    assert arrays.broadcast_batch([("X", (4, 1)), ("v", (3,)), ("Y", ())]) == (4, 3)
    with pytest.raises(ValueError, match=r"batch dimensions.*X \(2,\).*v \(3,\)"):
        arrays.broadcast_batch([("X", (2,)), ("v", (3,))])


def test_blocks_are_views_with_an_index():
    """A broadcast argument is stored once; each element of the batch knows its block."""
    x = np.arange(6.0).reshape(3, 1, 2)
    flat, index = arrays.blocks(x, 1, (3, 4))
    assert np.shares_memory(flat, x)
    assert flat.shape == (3, 2)
    assert index.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_values_beyond_float32_are_refused_in_float32():
    """A number that float32 cannot hold, next to float32 arrays, is a ValueError naming it and no warning."""
    X = np.ones((1, 2, 2), dtype=np.float32)
    with pytest.raises(ValueError, match=r"v: entry \[0\] is .*; allowed: "):
        mm.Problem(X, [1], [1e300, 1.0])


ENTRY_POINTS = {
    "softmax": ("logits", lambda x: mm.softmax(x)),
    "log_softmax": ("logits", lambda x: mm.log_softmax(x)),
    "attention K": ("K", lambda x: mm.attention([[x]], [1.0, 1.0])),
    "attention p": ("p", lambda x: mm.attention([[[1.0, 2.0]]], x)),
    "loss": ("x", lambda x: mm.losses.get("logistic").value(x)),
    "direction p": ("p", lambda x: mm.descent_direction(one(), x)),
    "gradient p": ("p", lambda x: mm.loss_and_grad(one(), x)),
    "gradient v": ("v", lambda x: mm.loss_and_grad(one(), v=x)),
    "gradient W": ("W", lambda x: mm.loss_and_grad(one(), W=[x, x], wrt="W")),
    "descend p0": ("p0", lambda x: mm.descend(one(), x)),
    "descend lr": ("lr", lambda x: mm.descend(one(), lr=x)),
}


def one():
    return mm.Problem([[[1.0, 2.0], [0.0, 1.0]]], [1], [1.0, 1.0], Z=[[1.0, 1.0]])


@pytest.mark.parametrize("case", ENTRY_POINTS)
def test_every_entry_point_has_the_same_border(case):
    """Complex numbers, text, integers without a double and NaN are refused by each function, by argument name."""
    name, call = ENTRY_POINTS[case]
    with pytest.raises(TypeError, match=f"^{name}: got complex"):
        call(np.array([1j, 1.0]))
    with pytest.raises(TypeError, match=f"^{name}: got dtype"):
        call(["a", "b"])
    with pytest.raises(ValueError, match=rf"^{name}: .*2\*\*53"):
        call(np.array([2**53 + 1, 1]))
    with pytest.raises(ValueError, match=f"^{name}: .*(NaN|nan)"):
        call([np.nan, 1.0])
    with pytest.raises(ValueError, match=r"^" + name):
        call([[1.0, 2.0], [1.0]])
