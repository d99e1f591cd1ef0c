"""Pooled attention in PyTorch: values, derivatives, ragged lengths, transforms, and the import without torch."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="needs PyTorch: pip install 'fastmm[torch]'")

import fastmm as mm  # noqa: E402
from fastmm.interop.torch import pooling, softmax_attention  # noqa: E402

LENGTHS = torch.tensor([3, 1])


@pytest.fixture(params=["operator", "torch's own"])
def route(request, monkeypatch):
    """Both ways to compute, whatever the size."""
    size = 0 if request.param == "operator" else 1 << 60
    monkeypatch.setattr(pooling, "RAGGED", size)
    monkeypatch.setattr(pooling, "LARGE", size)
    return request.param


def data(batch=(), n=2, T=3, d=3, d_v=2, of_p=(), dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)
    shapes = (*batch, n, T, d), (*batch, n, T, d_v), (*of_p, d)
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


def by_definition(K, X, p, lengths=None):
    """One problem, input by input."""
    K, X, p = (x.detach().double().numpy() for x in (K, X, p))
    out = []
    for i in range(len(K)):
        own = K.shape[1] if lengths is None else int(lengths[i])
        out.append(X[i, :own].T @ mm.reference.softmax(K[i, :own] @ p))
    return np.array(out)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-5)])
@pytest.mark.parametrize("lengths", [None, torch.tensor([8, 1, 5, 2])])
def test_values_are_those_of_the_definition(route, dtype, tolerance, lengths):
    K, X, p = data((), 4, 8, 5, 6, dtype=dtype)
    got = softmax_attention(K, X, p, lengths)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.detach().numpy(), by_definition(K, X, p, lengths), rtol=tolerance, atol=tolerance)


def test_half_precision_takes_torchs_operations(route):
    K, X, p = data((), 4, 8, 5, 6, dtype=torch.bfloat16)
    got = softmax_attention(K, X, p)
    assert got.dtype == torch.bfloat16
    np.testing.assert_allclose(got.detach().float().numpy(), by_definition(K, X, p), atol=0.1)


def test_batches_broadcast_as_in_numpy(route):
    K, X, p = data((2, 1), of_p=(3,))
    lengths = torch.tensor([[[3, 2]], [[1, 2]]])
    got = softmax_attention(K, X, p, lengths)
    assert got.shape == (2, 3, 2, 2)
    for a in range(2):
        for b in range(3):
            want = by_definition(K[a, 0], X[a, 0], p[b], lengths[a, 0])
            np.testing.assert_allclose(got[a, b].detach().numpy(), want, rtol=1e-13)


def test_strided_and_tied_tensors(route):
    K, _, p = data((), 4, 6, 5)
    view = K.detach().flip(0).mT.contiguous().mT[:, ::2]
    got = softmax_attention(view, view, p)
    np.testing.assert_allclose(got.detach().numpy(), by_definition(view, view, p), rtol=1e-13)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("shapes", [{}, {"batch": (2, 1), "of_p": (2,)}], ids=["one", "broadcast"])
def test_first_and_second_derivatives(route, lengths, shapes):
    arguments = data(**shapes)
    assert torch.autograd.gradcheck(lambda *x: softmax_attention(*x, lengths), arguments)
    assert torch.autograd.gradgradcheck(lambda *x: softmax_attention(*x, lengths), arguments)


@pytest.mark.parametrize("padding", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("which", ["K", "X", "both"])
def test_padding_has_no_influence(route, padding, which):
    K, X, p = data()
    want = softmax_attention(K, X, p, LENGTHS)
    wanted = torch.autograd.grad(want.square().sum(), (K, X, p))
    with torch.no_grad():
        for x in (K, X) if which == "both" else (K,) if which == "K" else (X,):
            x[1, 1:] = padding
    got = softmax_attention(K, X, p, LENGTHS)
    assert torch.equal(got, want)
    for create_graph in (False, True):
        found = torch.autograd.grad(got.square().sum(), (K, X, p), create_graph=create_graph, retain_graph=True)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-15)
        assert not found[0][1, 1:].any()
        assert not found[1][1, 1:].any()
    second = torch.autograd.grad(sum(x.square().sum() for x in found), (K, X, p))
    assert all(torch.isfinite(x).all() for x in second)
    assert not second[0][1, 1:].any()
    assert not second[1][1, 1:].any()


def test_large_inputs_take_the_operator_and_agree(monkeypatch):
    called = []
    own = pooling._core.attention
    monkeypatch.setattr(pooling._core, "attention", lambda *x: called.append(1) or own(*x))
    K, X, p = data((), 700, 16, 64, 8)
    lengths = torch.randint(1, 17, (700,), generator=torch.Generator().manual_seed(1))
    got = softmax_attention(K, X, p, lengths)
    assert K.numel() >= pooling.RAGGED
    assert called
    np.testing.assert_allclose(got.detach().numpy(), by_definition(K, X, p, lengths), rtol=1e-12, atol=1e-14)
    by_p = torch.autograd.grad(got.sin().sum(), p)[0]
    wanted = torch.autograd.grad(pooling.plain_attention(K, X, p, lengths).sin().sum(), p)[0]
    torch.testing.assert_close(by_p, wanted, rtol=1e-11, atol=1e-11)


def test_any_number_of_threads_gives_the_same_weights():
    K, X, p = (x.detach() for x in data((), 3000, 16, 8))
    own = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(pooling.pooled_attention(K, X, p, None)[1])
    finally:
        torch.set_num_threads(own)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_function_transforms(route):
    K, X, p = (x.detach() for x in data((4,)))
    points = torch.stack([p, -p, 2 * p])

    def risk(q, keys=K[0], values=X[0]):
        return softmax_attention(keys, values, q).square().sum()

    for mapped, each in (
        (torch.func.vmap(lambda q: softmax_attention(K, X, q))(points), [softmax_attention(K, X, q) for q in points]),
        (torch.func.vmap(lambda k: softmax_attention(k, X[0], p))(K), [softmax_attention(k, X[0], p) for k in K]),
        (torch.func.vmap(lambda x: softmax_attention(K, x, p))(X), [softmax_attention(K, x, p) for x in X]),
        (
            torch.func.vmap(lambda own: softmax_attention(K, X, p, own), out_dims=1)(torch.tensor([[3, 1], [2, 2]])),
            None,
        ),
        (torch.func.vmap(torch.func.grad(risk))(points), [torch.func.grad(risk)(q) for q in points]),
    ):
        if each is None:
            each = [softmax_attention(K, X, p, own) for own in torch.tensor([[3, 1], [2, 2]])]
            mapped = mapped.movedim(1, 0)
        torch.testing.assert_close(mapped, torch.stack(each), rtol=1e-13, atol=1e-15)
    hessian = torch.func.jacrev(torch.func.jacrev(risk))(p)
    wanted = torch.autograd.functional.hessian(lambda q: pooling.plain_attention(K[0], X[0], q, None).square().sum(), p)
    torch.testing.assert_close(hessian, wanted, rtol=1e-12, atol=1e-13)


def test_operators_pass_torchs_own_checks():
    quick = ("test_schema", "test_autograd_registration", "test_faketensor")  # what compiles has a test below
    for lengths in (None, LENGTHS):
        torch.library.opcheck(pooling.pooled_attention, (*data(), lengths), test_utils=quick)
    torch.library.opcheck(pooling._checked_lengths, (LENGTHS, 3), test_utils=quick)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_compiled_in_one_graph(monkeypatch, lengths):
    monkeypatch.setattr(pooling, "LARGE", 0)
    monkeypatch.setattr(pooling, "RAGGED", 0)
    K, X, p = data()
    nodes = []

    def backend(graph, inputs):
        for part in graph.modules():  # bodies of forward and backward are graphs of their own
            if isinstance(part, torch.fx.GraphModule):
                nodes.extend(str(node.target) for node in part.graph.nodes)
        return graph.forward

    def risk(K, X, p):
        return softmax_attention(K, X, p, lengths).square().sum()

    torch.compiler.reset()
    compiled = torch.compile(risk, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(K, X, p), risk(K, X, p), rtol=0, atol=0)
    assert "fastmm.pooled_attention.default" in nodes
    whole = torch.compile(risk, fullgraph=True, backend="aot_eager")
    got, want = (torch.autograd.grad(f(K, X, p), (K, X, p)) for f in (whole, risk))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-15)


def test_nan_and_overflow_are_not_silent_numbers(route):
    K, X, p = (x.detach() for x in data())
    broken = K.clone()
    broken[0, 1, 1] = np.nan
    got = softmax_attention(broken, X, p)
    assert torch.isnan(got[0]).all()
    torch.testing.assert_close(got[1], softmax_attention(K, X, p)[1])
    assert torch.isnan(softmax_attention(1e300 * K, X, 1e300 * p)).all()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"K": np.zeros((2, 3, 3))}, TypeError, "K: got ndarray"),
        ({"X": torch.zeros(2, 3, 2)}, TypeError, "X: got torch.float32"),
        ({"p": torch.zeros(3, dtype=torch.int64)}, TypeError, "p: got torch.int64"),
        ({"X": torch.zeros(2, 4, 2, dtype=torch.float64)}, ValueError, "X: got shape"),
        ({"p": torch.zeros(4, dtype=torch.float64)}, ValueError, "p: got shape"),
        ({"K": torch.zeros(3, 3, dtype=torch.float64)}, ValueError, "K: got shape"),
        ({"K": torch.zeros(2, 0, 3, dtype=torch.float64)}, ValueError, "T and d at least 1"),
        ({"lengths": [3, 4]}, ValueError, r"lengths: got 4; allowed: 1..3"),
        ({"lengths": [0, 3]}, ValueError, r"lengths: got 0; allowed: 1..3"),
        ({"lengths": [1.0, 3.0]}, TypeError, "lengths: got torch.float32"),
        ({"lengths": [1, 2, 3]}, ValueError, "lengths: got shape"),
    ],
)
def test_what_is_wrong_is_named(change, error, text):
    K, X, p = data()
    with pytest.raises(error, match=text):
        softmax_attention(**{"K": K, "X": X, "p": p, "lengths": None, **change})


def run(text):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False)


def test_fastmm_does_not_import_torch():
    done = run("import sys, fastmm, fastmm.interop; assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_without_torch_the_error_says_how_to_install():
    done = run("import sys; sys.modules['torch'] = None; import fastmm.interop.torch")
    assert done.returncode != 0
    assert "pip install 'fastmm[torch]'" in done.stderr.splitlines()[-1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("name", ["pooling", "descent", "margins", "monitor"])
def test_examples(name):
    found = doctest.testmod(importlib.import_module(f"fastmm.interop.torch.{name}"))
    assert found.attempted > 1
    assert not found.failed
