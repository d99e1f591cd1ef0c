"""What trains in PyTorch: the normalised optimiser, max-margin layers, and the monitor of attention."""

from __future__ import annotations

import copy
import gc
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", minversion="2.5", reason="needs PyTorch: pip install 'fastmm[torch]'")

import fastmm as mm  # noqa: E402
from fastmm.interop.torch import (  # noqa: E402
    AttentionMonitor,
    MaxMarginLayer,
    NormalizedGD,
    max_margin,
    softmax_attention,
)


def parameter(*values, dtype=torch.float64, gradient=None):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    x.grad = None if gradient is None else torch.tensor(gradient, dtype=dtype)
    return x


# --- NormalizedGD


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        (torch.float64, 1e-200),
        (torch.float64, 2.0**-1074),
        (torch.float64, 2.0**-1022),
        (torch.float64, 1e307),
        (torch.float32, 2.0**-149),
        (torch.float32, 2.0**-126),
        (torch.float32, 3e37),
        (torch.bfloat16, 2.0**-130),
    ],
)
def test_the_step_has_its_length_at_any_size_of_the_gradient(dtype, unit):
    x = parameter(0.0, 0.0, dtype=dtype, gradient=[3 * unit, 0.0])
    y = parameter(0.0, dtype=dtype, gradient=[-4 * unit])
    optimizer = NormalizedGD([x, y], lr=5.0)
    optimizer.step()
    np.testing.assert_allclose([*x.tolist(), *y.tolist()], [-3, 0, 4], rtol=float(torch.finfo(dtype).eps))
    norm = math.hypot(x.grad[0].item(), y.grad[0].item())  # of what the dtype made of the numbers
    np.testing.assert_allclose(optimizer.log_norms, [math.log(norm)], rtol=1e-14)
    assert optimizer.zero_steps == 0


def test_a_zero_gradient_moves_nothing_and_says_so():
    x, y, z = parameter(1.0, gradient=[0.0]), parameter(2.0, gradient=[2.0]), parameter(3.0)
    each = NormalizedGD([{"params": [x]}, {"params": [y], "lr": 0.5}, {"params": [z]}], lr=1.0, scope="group")
    each.step()
    assert (x.item(), y.item(), z.item()) == (1.0, 1.5, 3.0)
    assert each.zero_steps == 1
    assert each.log_norms == [-math.inf, math.log(2), -math.inf]
    together = NormalizedGD([x], lr=1.0)
    together.step()
    assert (x.item(), together.zero_steps) == (1.0, 1)


def test_global_and_group_scope():
    for scope, want in (("global", (0.6, 0.8)), ("group", (1.0, 1.0))):
        x, y = parameter(0.0, gradient=[-3e-310]), parameter(0.0, gradient=[-4e-310])
        NormalizedGD([{"params": [x]}, {"params": [y]}], lr=1.0, scope=scope).step()
        np.testing.assert_allclose((x.item(), y.item()), want, rtol=1e-10)


def test_training_is_that_of_descend():
    """The same steps as the exact loop, as long as autograd's gradient has digits."""
    random = np.random.default_rng(0)
    X, Y, v = random.standard_normal((6, 8, 10)), random.choice([-1.0, 1.0], 6), random.standard_normal(10)
    want = mm.descend(mm.Problem(X, Y, v), steps=50, lr=0.1).p
    tokens, labels, head = (torch.from_numpy(x) for x in (X, Y, v))
    p = torch.zeros(10, dtype=torch.float64, requires_grad=True)
    optimizer = NormalizedGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.softplus(-labels * (softmax_attention(tokens, tokens, p) @ head)).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(50)]
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-10, atol=1e-11)


def test_state_survives_saving_copies_and_schedules(tmp_path):
    x = parameter(1.0, gradient=[0.0])
    optimizer = NormalizedGD([x], lr=0.5, scope="group")
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    other = NormalizedGD([parameter(1.0)], lr=9.0)
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    for one in (other, copy.deepcopy(optimizer)):
        assert (one.scope, one.zero_steps, one.param_groups[0]["lr"]) == ("group", 1, 0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    x.grad.fill_(-7.0)
    for _ in range(2):
        optimizer.step()
        schedule.step()
    assert x.item() == 1.0 + 0.5 + 0.25


def test_bad_gradients_and_arguments_are_refused_before_anything_moves():
    x, y = parameter(1.0, gradient=[1.0]), parameter(2.0, gradient=[math.nan])
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        NormalizedGD([{"params": [x]}, {"params": [y]}], lr=1.0, scope="group").step()
    assert x.item() == 1.0
    for wrong in (0.0, -1.0, math.nan, True, "1"):
        with pytest.raises(ValueError, match="lr"):
            NormalizedGD([x], lr=wrong)
    with pytest.raises(ValueError, match="lr"):
        NormalizedGD([{"params": [x], "lr": -1.0}], lr=1.0)
    with pytest.raises(ValueError, match="scope"):
        NormalizedGD([x], lr=1.0, scope="all")
    rows = torch.nn.Embedding(3, 2, sparse=True)
    rows(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="dense"):
        NormalizedGD(rows.parameters(), lr=1.0).step()


# --- max_margin


def rows(batch=(3,), m=6, d=4, seed=0):
    """Separable rows and right-hand sides."""
    random = np.random.default_rng(seed)
    A = random.standard_normal((*batch, m, d))
    A *= np.sign(A @ random.standard_normal(d))[..., None]
    b = random.uniform(0.5, 1.5, m)
    return torch.from_numpy(A).requires_grad_(), torch.from_numpy(b).requires_grad_()


def test_max_margin_is_min_norm_and_has_its_derivative():
    A, b = rows()
    want = mm.min_norm(A.detach().numpy(), b.detach().numpy())
    # away from degenerate points: rows on the margin have multipliers, the others a gap
    assert np.array_equal(want.neighbors, want.dual > 1e-3)
    np.testing.assert_array_equal(max_margin(A, b).detach().numpy(), want.w)
    np.testing.assert_array_equal(MaxMarginLayer()(A, b).detach().numpy(), want.w)
    np.testing.assert_array_equal(max_margin(A).detach().numpy(), mm.min_norm(A.detach().numpy(), 1.0).w)
    assert torch.autograd.gradcheck(max_margin, (A, b))
    assert torch.autograd.gradcheck(lambda A: 1 / max_margin(A, 2.0).norm(dim=-1), (A,))


def test_the_derivative_is_that_of_margin_vjp():
    random = np.random.default_rng(3)
    K = random.standard_normal((3, 4, 12))
    selected = np.zeros(3, int)
    answer = mm.att_svm(K, selected)
    by_w = random.standard_normal(12)
    want = mm.margin_vjp(K, selected, answer, grad_w=by_w)
    keys = torch.from_numpy(K).requires_grad_()
    w = max_margin((keys[:, :1] - keys[:, 1:]).reshape(-1, 12))
    np.testing.assert_allclose(w.detach().numpy(), answer.w, rtol=1e-11, atol=1e-13)
    (w @ torch.from_numpy(by_w)).backward()
    np.testing.assert_allclose(keys.grad.numpy(), want, rtol=1e-9, atol=1e-11)


def test_max_margin_under_transforms():
    A, b = (x.detach() for x in rows())
    torch.testing.assert_close(torch.func.vmap(max_margin)(A), max_margin(A), rtol=0, atol=0)
    both = torch.func.vmap(lambda right: max_margin(A, right))(torch.stack([b, 2 * b]))
    torch.testing.assert_close(both, torch.stack([max_margin(A, b), max_margin(A, 2 * b)]), rtol=0, atol=0)

    def size(a):
        return max_margin(a).square().sum()

    one = torch.func.vmap(torch.func.grad(size))(A)
    torch.testing.assert_close(one, torch.stack([torch.func.grad(size)(a) for a in A]), rtol=0, atol=0)


def test_second_derivatives_of_max_margin_raise():
    A, b = rows()
    (first,) = torch.autograd.grad(max_margin(A, b).sum(), A, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        first.sum().backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_max_margin_compiled_in_one_graph():
    A, b = rows()
    compiled = torch.compile(lambda A, b: max_margin(A, b).square().sum(), fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(A, b), (A, b))
    want = torch.autograd.grad(max_margin(A, b).square().sum(), (A, b))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-14)


def test_infeasible_and_degenerate_programs():
    with pytest.raises(mm.InfeasibleError) as caught:
        max_margin(torch.tensor([[[1.0], [1.0]], [[1.0], [-1.0]]], requires_grad=True))
    assert caught.value.result.status.tolist() == [0, 1]
    A = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    w = max_margin(A, -1.0)  # nothing to separate
    w.sum().backward()
    assert w.dtype == torch.float32
    assert not w.any()
    assert not A.grad.any()
    assert max_margin(torch.zeros(0, 3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("A", "b", "error", "text"),
    [
        (np.eye(2), None, TypeError, "A: got float64"),
        (torch.eye(2, dtype=torch.int64), None, TypeError, "A: got torch.int64"),
        (torch.ones(2), None, ValueError, "A: got shape"),
        (torch.eye(2), torch.ones(3), ValueError, "b: got shape"),
        (torch.eye(2), torch.ones(2, dtype=torch.float64), TypeError, "b: got torch.float64"),
        (torch.eye(2) / 0, None, ValueError, "A: entry"),
    ],
)
def test_wrong_rows_are_named(A, b, error, text):
    with pytest.raises(error, match=text):
        max_margin(A, b)


# --- AttentionMonitor


class Pooler(torch.nn.Module):
    """A model of one's own: attention weights by a method, by a module, and hidden in the forward pass."""

    class Weights(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = torch.nn.Linear(4, 3, bias=False), torch.nn.Linear(4, 3, bias=False)

        def forward(self, x):
            return "not weights", torch.softmax(self.q(x) @ self.k(x).mT, -1)

    def __init__(self):
        super().__init__()
        self.weigh = self.Weights()
        self.p = torch.nn.Parameter(torch.ones(4))

    def pool(self, x):
        return torch.softmax(x @ self.p, -1)

    def forward(self, x):
        mixed = self.weigh(x)[1] @ x
        return (self.pool(mixed).unsqueeze(-2) @ mixed).squeeze(-2)


def encoder(layers=2, **options):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.5)
    return torch.nn.TransformerEncoder(layer, layers, **options)


def tokens(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("frozen", [False, True])
def test_encoder_layers_show_the_weights_that_their_fast_path_hides(mode, frozen):
    model, x = encoder().requires_grad_(not frozen), tokens(3, 5, 8)
    getattr(model, mode)()
    padding = torch.tensor([[0, 0, 0, 1, 1], [0] * 5, [0] * 5], dtype=torch.bool)
    with AttentionMonitor(model, {"src": x, "src_key_padding_mask": padding}, query=1) as monitor:
        monitor.record("first")
    # by hand: the input of the last layer through its own attention, without any monitor
    model.eval()
    with torch.enable_grad():
        inner = model.layers[0](x.clone().requires_grad_(), src_key_padding_mask=padding)
        layer = model.layers[1].self_attn
        _, want = layer(inner, inner, inner, key_padding_mask=padding, need_weights=True)
    np.testing.assert_allclose(monitor.maps[0], want[:, 1].detach().numpy(), rtol=1e-4, atol=1e-6)
    assert not monitor.maps[0, 0, 3:].any()
    assert monitor.labels == ["first"]


def test_series_are_those_of_their_definitions():
    model, x = encoder(), tokens(3, 5, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with AttentionMonitor(model, x, "layers.0.self_attn", optimizer=optimizer, every=2) as monitor:
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    optimizer.step()  # closed: no record
    assert monitor.labels == [2, 4]
    average = monitor.maps.astype(float).mean(1)
    assert not np.array_equal(average[0], average[1])
    np.testing.assert_allclose(monitor.average, average, rtol=1e-12)
    np.testing.assert_allclose(monitor.norm_ratio, [sum(a) / math.sqrt(sum(a * a)) for a in average], rtol=1e-12)
    np.testing.assert_allclose(monitor.entropy, [-sum(a * np.log(a)) for a in average], rtol=1e-12)
    monitor.record()
    weight = model.layers[0].self_attn.in_proj_weight.detach().double().numpy()
    query, key = weight[:8].reshape(2, 4, 8), weight[8:16].reshape(2, 4, 8)
    assert monitor.query_key_norm[-1] == pytest.approx(np.linalg.norm(weight[:16]), rel=1e-12)
    products = [np.linalg.norm(q.T @ k) for q, k in zip(query, key, strict=True)]
    assert monitor.product_norm[-1] == pytest.approx(np.hypot(*products), rel=1e-12)


def test_nothing_of_the_model_changes():
    model, x = encoder(), tokens(3, 5, 8)
    model.layers[0].eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    flags, state = [m.training for m in model.modules()], copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    monitor = AttentionMonitor(model, x)
    monitor.record()
    with pytest.raises((AssertionError, RuntimeError), match="7"):
        AttentionMonitor(model, tokens(3, 5, 7)).record()
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(), strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert not any(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_memory_does_not_grow_but_by_the_maps():
    model = encoder(1)
    monitor = AttentionMonitor(model, tokens(3, 5, 8))

    def alive():
        gc.collect()
        return [x for x in gc.get_objects() if issubclass(type(x), torch.Tensor)]

    monitor.record()
    before = alive()  # held, so that none of them goes and makes room for a new one
    for _ in range(20):
        monitor.record()
    assert len(alive()) == len(before)
    assert monitor.maps.shape == (21, 3, 5)


@pytest.mark.parametrize(
    ("attention", "pick"),
    [("weigh", 1), (lambda model: model.weigh, 1), (lambda model: lambda x: model.weigh(x), 1)],
    ids=["name", "module", "callable"],
)
def test_models_of_ones_own(attention, pick):
    model, x = Pooler(), tokens(2, 5, 4)
    source = attention if isinstance(attention, str) else attention(model)
    with AttentionMonitor(model, (x,), source, pick=pick, query=-1, weights=("weigh.q.weight", "weigh.k.weight")) as m:
        m.record(7)
    np.testing.assert_array_equal(m.maps[0], model.weigh(x)[1][:, -1].detach().numpy())
    q, k = (w.weight.detach().double().numpy() for w in (model.weigh.q, model.weigh.k))
    assert m.product_norm[0] == pytest.approx(np.linalg.norm(q.T @ k), rel=1e-12)


def test_a_method_is_captured_during_the_forward_pass():
    model, x = Pooler(), tokens(2, 5, 4)
    monitor = AttentionMonitor(model, x, "pool")
    monitor.record()
    np.testing.assert_array_equal(monitor.maps[0], model.pool(model.weigh(x)[1] @ x).detach().numpy())
    assert "pool" not in vars(model)
    assert np.isnan(monitor.query_key_norm).all()


def test_one_sequence_without_a_batch_and_arguments_by_position():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=6)

        def forward(self, x, y):
            return self.attention(x, y, y, None, False)[0]

    torch.manual_seed(2)
    model, x, y = Model(), tokens(4, 8), tokens(5, 6)
    monitor = AttentionMonitor(model, (x, y), query=2)
    monitor.record()
    want = model.attention(x, y, y)[1]
    assert monitor.maps.shape == (1, 1, 5)
    np.testing.assert_allclose(monitor.maps[0, 0], want[2].detach().numpy(), rtol=1e-5)
    assert monitor.product_norm[0] > 0


def test_to_xarray():
    monitor = AttentionMonitor(encoder(1), tokens(3, 5, 8))
    for epoch in (10, 20):
        monitor.record(epoch)
    found = monitor.to_xarray()
    assert found.maps.dims == ("record", "input", "token")
    np.testing.assert_array_equal(found.maps.sel(record=20), monitor.maps[1])
    np.testing.assert_array_equal(found.entropy, monitor.entropy)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"model": "model"}, TypeError, "model: got str"),
        ({"inputs": [1]}, TypeError, "inputs: got list"),
        ({"attention": "nonesuch"}, ValueError, "attention: got 'nonesuch'"),
        ({"attention": None}, ValueError, "no torch.nn.MultiheadAttention"),
        ({"weights": ("weigh.q.weight",)}, ValueError, "weights: got"),
        ({"weights": ("weigh.q.weight", "p")}, ValueError, "weights: got shapes"),
        ({"optimizer": 3}, TypeError, "optimizer: got int"),
        ({"every": 0}, ValueError, "every: got 0"),
    ],
)
def test_wrong_arguments_of_the_monitor(options, error, text):
    arguments = {"model": Pooler(), "inputs": tokens(2, 5, 4), "attention": "pool", **options}
    with pytest.raises(error, match=text):
        AttentionMonitor(**arguments)


def test_what_are_no_weights_is_refused():
    model, x = Pooler(), tokens(2, 5, 4)
    for attention, error, text in (
        ("weigh.q", ValueError, "do not sum to 1"),
        ("weigh", ValueError, "returned tuple"),
        ("extra_repr", RuntimeError, "not called"),
        (lambda x: x.sum(), ValueError, "got weights of shape"),
    ):
        with pytest.raises(error, match=text):
            AttentionMonitor(model, x, attention).record()
    with pytest.raises(ValueError, match="query: got 5"):
        AttentionMonitor(model, x, "weigh", pick=1, query=5).record()
