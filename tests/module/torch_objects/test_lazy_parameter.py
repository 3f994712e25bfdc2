"""Lazy parameters: what they answer, when they get their values, and that they are never garbage."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import parametrize

from burnlike.errors import DTypeError, ModuleTreeError, ShapeError
from burnlike.module import LazyParameter, Module, Param, clone, devices, initialize, num_params, params, valid
from burnlike.record import init_from, load, save

from ..cases import case


class Draw:
    """An initializer that counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, device: torch.device) -> Tensor:
        self.runs += 1
        return torch.randn(3, 2, device=device)


class Layer(Module):
    """y = x @ weight^T + bias, with a lazy weight."""

    def __init__(self, init: Any, **options: Any) -> None:
        super().__init__()
        self.weight = Param.uninitialized(init, [3, 2], **options)
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


class PlainLayer(nn.Module):
    """The same as a plain `nn.Module`."""

    def __init__(self, init: Any) -> None:
        super().__init__()
        self.weight: nn.Parameter = Param.uninitialized(init, [3, 2]).tensor  # pyright: ignore[reportAttributeAccessIssue]
        self.bias = nn.Parameter(torch.zeros(3))

    forward = Layer.forward


X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


@pytest.fixture
def draw() -> Draw:
    return Draw()


@pytest.fixture(params=[Layer, PlainLayer], ids=["burnlike", "plain"])
def layer(request: pytest.FixtureRequest, draw: Draw) -> Any:
    return request.param(draw)


def is_lazy(layer: Any) -> bool:
    return type(layer.weight) is LazyParameter


def drawn() -> Tensor:
    """What the initializer draws when the generator is seeded with 0."""
    torch.manual_seed(0)
    return torch.randn(3, 2)


ANSWERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "shape": (lambda w: w.shape, torch.Size([3, 2])),
    "size": (lambda w: (w.size(), w.size(1), w.size(dim=-1)), (torch.Size([3, 2]), 2, 2)),
    "numel": (lambda w: (w.numel(), w.nelement(), len(w), w.dim(), w.ndim), (6, 6, 3, 2, 2)),
    "dtype": (lambda w: (w.dtype, w.is_floating_point(), torch.is_complex(w)), (torch.float32, True, False)),
    "device": (lambda w: (w.device, w.is_cuda, w.is_meta), (torch.device("cpu"), False, False)),
    "tracking": (lambda w: (w.requires_grad, w.is_leaf, w.grad_fn, w.grad), (True, True, None, None)),
    "parameter": (lambda w: (isinstance(w, nn.Parameter), isinstance(w, Tensor)), (True, True)),
    "identity": (lambda w: (hash(w) == id(w), w in [w], {w: 1}[w]), (True, True, 1)),
    "repr": (repr, "LazyParameter(shape=[3, 2], dtype=torch.float32, device='cpu')"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_needs_no_values_is_answered_without(name: str, layer: Any, draw: Draw) -> None:
    ask, expected = ANSWERS[name]
    assert ask(layer.weight) == expected
    assert is_lazy(layer)
    assert draw.runs == 0


@pytest.mark.parametrize("back", [("cpu",), ("cpu", torch.float64), (torch.zeros(0, dtype=torch.float64),)])
def test_to_meta_and_back_it_stays_lazy(layer: Any, draw: Draw, back: tuple[Any, ...]) -> None:
    weight, layer.bias = layer.weight, None
    weight.requires_grad_(False)
    layer.to("meta")
    layer.to(torch.float64)
    assert (weight.device.type, weight.dtype) == ("meta", torch.float64)
    layer.to(*back)
    assert layer.weight is weight
    assert is_lazy(layer)
    assert draw.runs == 0
    assert (weight.device.type, weight.dtype, weight.requires_grad) == ("cpu", torch.float64, False)
    assert weight.abs().sum() > 0


@pytest.mark.parametrize("start", ["cpu", "meta"])
def test_emptied_it_is_lazy_and_no_garbage(layer: Any, draw: Draw, start: str) -> None:
    weight = layer.weight
    layer.to(start).to_empty(device="cpu")
    assert layer.weight is weight
    assert is_lazy(layer)
    assert draw.runs == 0
    expected = drawn()
    torch.manual_seed(0)
    assert torch.equal(weight.detach(), expected)
    assert weight.requires_grad
    assert not torch.empty_like(Layer(draw).weight, dtype=torch.float64).requires_grad


def test_a_module_is_walked_counted_and_set_without_initializing(layer: Any, draw: Draw) -> None:
    weight = layer.weight
    assert any(found is weight for found in layer.parameters())
    assert dict(layer.named_parameters())["weight"] is weight
    assert nn.ParameterList([weight])[0] is weight
    assert layer.state_dict(keep_vars=True)["weight"] is weight
    assert is_lazy(layer)
    layer.requires_grad_(False)
    layer.requires_grad_(True)
    layer.zero_grad()
    assert num_params(layer) == 9
    assert devices(layer) == [torch.device("cpu")]
    assert "weight" in repr([*params(layer)])
    repr(layer)
    assert is_lazy(layer)
    assert draw.runs == 0


def fake_forward(layer: Any) -> Tensor:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return layer(mode.from_tensor(X))


READERS: dict[str, Callable[[Any], Tensor]] = {
    "forward": lambda m: (m(X), m.weight)[1],
    "method": lambda m: m.weight.abs() * m.weight.sign(),
    "second operand": lambda m: torch.add(torch.zeros(3, 2), m.weight),
    "only keywords": lambda m: torch.add(input=m.weight, other=0),
    "in a list": lambda m: torch.cat([torch.zeros(0, 2), m.weight]),
    "in a list of lists": lambda m: torch.block_diag(*[m.weight])[:3, :2],
    "data": lambda m: m.weight.data,
    "detach": lambda m: m.weight.detach(),
    "numpy": lambda m: torch.from_numpy(m.weight.detach().numpy()),
    "tolist": lambda m: torch.tensor(m.weight.tolist()),
    "index": lambda m: torch.stack(list(m.weight)),
    "foreach": lambda m: torch._foreach_mul([m.weight], 1.0)[0],
    "as vector": lambda m: nn.utils.parameters_to_vector(m.parameters())[:6].view(3, 2),
    "state_dict": lambda m: m.state_dict()["weight"],
    "copy.copy": lambda m: copy.copy(m.weight),
    "pickle": lambda m: pickle.loads(pickle.dumps(m.weight)),
    "share_memory": lambda m: m.share_memory().weight,
    "comparison": lambda m: torch.where(m.weight == m.weight, m.weight, torch.nan),
    "initialize": lambda m: initialize(m).weight,
    "val": lambda m: params(m)[0].val(),
    "functional_call": lambda m: (torch.func.functional_call(m, dict(m.named_parameters()), (X,)), m.weight)[1],
    "vmap over inputs": lambda m: (torch.func.vmap(m)(X), m.weight)[1],
    "vmap, random": lambda m: (torch.func.vmap(m, randomness="different")(X), m.weight)[1],
    "grad of inputs": lambda m: (torch.func.grad(lambda x: m(x).sum())(X), m.weight)[1],
    "fake tensors": lambda m: (fake_forward(m), m.weight)[1],
    "compile": lambda m: (torch.compile(m, backend="eager", fullgraph=True)(X), m.weight)[1],
    "compile a function": lambda m: (torch.compile(lambda x: m(x), backend="eager", fullgraph=True)(X), m.weight)[1],
}


@pytest.mark.parametrize("name", READERS)
def test_whatever_reads_values_initializes_once(name: str, layer: Any, draw: Draw) -> None:
    weight = layer.weight
    expected = drawn()
    torch.manual_seed(0)
    assert torch.equal(READERS[name](layer).detach(), expected)
    assert layer.weight is weight
    assert (type(weight), weight.requires_grad, weight.is_leaf) == (nn.Parameter, True, True)
    assert "_cell" not in vars(weight)
    assert draw.runs == 1
    layer(X).sum().backward()
    assert torch.equal(weight.grad, X.sum(0).expand(3, 2))


def test_in_place_writers_find_values(layer: Any) -> None:
    nn.init.ones_(layer.weight)
    assert torch.equal(layer.weight, torch.ones(3, 2))
    assert type(layer.weight) is nn.Parameter


def test_a_parametrization_takes_it_over(layer: Any) -> None:
    expected = drawn()
    torch.manual_seed(0)
    parametrize.register_parametrization(layer, "weight", nn.Softplus())
    assert torch.equal(layer.weight, nn.functional.softplus(expected))
    layer(X).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None


def test_a_function_of_autograd_finds_values(layer: Any) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, weight: Tensor) -> Tensor:
            return weight * 2

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * 2

    expected = drawn()
    torch.manual_seed(0)
    found: Any = Double.apply(layer.weight)
    assert torch.equal(found, expected * 2)
    found.sum().backward()
    assert torch.equal(layer.weight.grad, torch.full((3, 2), 2.0))


def test_a_gradient_a_hook_and_clipping_find_a_whole_parameter(layer: Any) -> None:
    assert nn.utils.clip_grad_norm_(layer.parameters(), 1.0) == 0
    assert is_lazy(layer)
    layer.weight.grad = torch.ones(3, 2)
    layer.weight.register_hook(lambda grad: grad * 2)
    layer(torch.ones(1, 2)).sum().backward()
    assert torch.equal(layer.weight.grad, torch.full((3, 2), 3.0))
    assert nn.utils.clip_grad_norm_([layer.weight], 1.0) == pytest.approx(54**0.5)


def test_first_used_in_inference_mode_it_can_be_trained_after(layer: Any) -> None:
    with torch.inference_mode():
        layer(X)
    layer(X).sum().backward()
    assert not layer.weight.is_inference()
    assert layer.weight.grad is not None


def test_an_optimizer_made_before_goes_on_with_it(layer: Any, draw: Draw) -> None:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    assert draw.runs == 0
    expected = drawn()
    torch.manual_seed(0)
    layer(X).square().sum().backward()
    assert torch.equal(layer.weight, expected)
    optimizer.step()
    assert (layer.weight - expected).abs().min() > 0.05
    assert optimizer.param_groups[0]["params"][0] is layer.weight


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("swap", [False, True])
def test_load_state_dict_never_initializes(layer: Any, draw: Draw, assign: bool, swap: bool) -> None:
    before, values = layer.weight, torch.arange(6.0).view(3, 2)
    layer.weight.requires_grad_(False)
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        layer.load_state_dict({"weight": values, "bias": torch.ones(3)}, assign=assign)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert torch.equal(layer.weight, values)
    assert (type(layer.weight), layer.weight.requires_grad) == (nn.Parameter, False)
    assert swap or draw.runs == 0
    assert assign or layer.weight is before
    if not assign:
        values.zero_()
        assert layer.weight.sum() == 15


def test_load_state_dict_checks_the_shape(layer: Any, draw: Draw) -> None:
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        layer.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(3)})
    assert is_lazy(layer)
    assert draw.runs == 0


def test_a_loaded_record_never_initializes(layer: Any, draw: Draw, tmp_path: Path) -> None:
    source = initialize(Layer(Draw()))
    before = layer.weight
    layer.weight.requires_grad_(False)
    for loaded in (layer, type(layer)(draw).to(torch.float64)):
        report = load(loaded, save(source, tmp_path / "x"))
        assert report.applied == ["weight", "bias"]
        assert torch.equal(loaded.weight.float(), source.weight)
    assert draw.runs == 0
    assert layer.weight is before
    assert (type(before), before.requires_grad) == (nn.Parameter, False)


def test_it_is_built_from_a_record_without_initializing(draw: Draw, tmp_path: Path) -> None:
    source = initialize(Layer(Draw()))
    built = init_from(lambda: Layer(draw), save(source, tmp_path / "x"), "cpu")
    assert torch.equal(built.weight, source.weight)
    assert built.weight.device == torch.device("cpu")
    assert draw.runs == 0


def test_values_that_are_copied_or_put_in_are_taken_as_they_are(layer: Any, draw: Draw) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.0, 2.0]))
    assert torch.equal(layer.weight, torch.tensor([[1.0, 2.0]] * 3))
    other = PlainLayer(draw)
    other.weight.data = torch.ones(3, 2)
    assert torch.equal(other.weight, torch.ones(3, 2))
    assert other.weight.requires_grad
    assert draw.runs == 0
    third = PlainLayer(draw)
    with torch.no_grad(), pytest.raises(RuntimeError, match="must match the size"):
        third.weight.copy_(torch.ones(4))
    assert is_lazy(third)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        third.weight.copy_(torch.ones(2))


def test_conversions_of_a_module_leave_it_lazy(layer: Any, draw: Draw) -> None:
    weight = layer.weight
    layer.to(torch.float64).half().to("cpu").double()
    assert (is_lazy(layer), draw.runs) == (True, 0)
    assert (weight.dtype, weight.requires_grad) == (torch.float64, True)
    expected = drawn().half().double()
    torch.manual_seed(0)
    layer(X.double()).sum().backward()
    assert layer.weight is weight
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-3, atol=0)
    assert weight.grad.dtype == torch.float64


def test_converted_by_the_program_it_is_initialized_and_gets_gradients(layer: Any) -> None:
    (layer.weight.double() * 2).sum().backward()
    assert torch.equal(layer.weight.grad, torch.full((3, 2), 2.0))
    with torch.no_grad():
        other = PlainLayer(Draw())
        half = other.weight.half()
        other.weight.zero_()
        assert half.abs().sum() > 0
        assert half.dtype == torch.float16


def test_swap_on_conversion_and_meta(layer: Any, draw: Draw) -> None:
    copied = clone(layer)
    copied.to("meta")
    assert copied.weight.is_meta
    assert (copied(X.to("meta")).shape, draw.runs) == ((2, 3), 0)
    weight = layer.weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.to(torch.float64)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight
    assert weight.dtype == torch.float64


@case("lazy/clone_uninitialized_param_should_not_trigger_init")
def test_a_clone_initializes_nothing(layer: Any, draw: Draw) -> None:
    for copied in (clone(layer), copy.deepcopy(layer), copy.deepcopy(nn.Sequential(layer))[0]):
        assert is_lazy(copied)
        assert copied.weight is not layer.weight
    assert is_lazy(layer)
    assert draw.runs == 0


# Burn 0.21 gave each clone values of its own; since 0.22 clones share one initialization.
@case(
    "param/clones_share_lazy_init",
    "lazy/lazy_clone_should_produce_valid_tensor_on_access",
    "lazy/lazy_clone_deref_should_trigger_init",
    "lazy/lazy_clone_and_original_have_same_init",
    "lazy/lazy_clone_and_original_produce_independent_values",
)
@pytest.mark.parametrize("first", ["original", "clone"])
def test_clones_share_one_initialization_and_no_memory(layer: Any, draw: Draw, first: str) -> None:
    copied, other = clone(layer), clone(layer).to(torch.float64)
    params(layer if first == "original" else copied)[0].val()
    assert not any(map(is_lazy, (layer, copied, other)))
    assert copied.weight.shape == (3, 2)
    assert torch.equal(copied.weight, layer.weight)
    assert torch.equal(other.weight, layer.weight.double())
    assert copied.weight.data_ptr() != layer.weight.data_ptr()
    assert draw.runs == 1


def test_a_clone_of_what_was_loaded_over_still_gets_its_start(layer: Any, draw: Draw) -> None:
    copied = clone(layer)
    with torch.no_grad():
        layer.weight.zero_()
        other = clone(copied)
        other.weight.fill_(1)
    assert copied.weight.abs().min() > 0
    assert draw.runs == 1


@case("param/set_require_grad_forks")
@pytest.mark.parametrize("initialized", [True, False])
def test_clones_are_frozen_apart(initialized: bool) -> None:
    original = Layer(lambda device: torch.ones(3, 2))
    copied = clone(original)
    if initialized:
        initialize(original)
    copied.param("weight").set_require_grad(False)
    assert (copied.weight.requires_grad, original.weight.requires_grad) == (False, True)
    assert torch.equal(copied.weight, original.weight)


def test_valid_shares_the_values_with_what_is_trained(layer: Any, draw: Draw) -> None:
    view = valid(layer)
    assert draw.runs == 1
    assert view.weight.data_ptr() == layer.weight.data_ptr()
    assert (view.weight.requires_grad, layer.weight.requires_grad) == (False, True)


def test_threads_get_one_initialization(draw: Draw) -> None:
    for _ in range(20):
        draw.runs = 0
        layers = [Layer(draw)]
        layers += [clone(layers[0]) for _ in range(3)]
        together = threading.Barrier(4)

        def use(layer: Layer, together: threading.Barrier = together) -> Tensor:
            together.wait()
            assert layer.weight.shape == (3, 2)
            return layer(X)

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(use, layers))
        assert all(torch.equal(result, results[0]) for result in results)
        assert draw.runs == 1


def fails(device: torch.device) -> Tensor:
    raise OSError("no entropy")


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        (fails, OSError, "no entropy"),
        (lambda device: torch.ones(2, 3), ShapeError, r"gave shape \[2, 3\], expected \[3, 2\]"),
        (lambda device: torch.ones(()), ShapeError, r"gave shape \[\], expected \[3, 2\]"),
        (lambda device: torch.ones(3, 2).long(), DTypeError, r"gave torch\.int64, expected torch\.float32"),
        (lambda device: [[1.0, 1.0]] * 3, TypeError, r"gave list, expected a torch\.Tensor"),
    ],
)
def test_an_initializer_that_fails_leaves_it_lazy(init: Any, error: type[Exception], message: str) -> None:
    layer = Layer(init)
    copied = clone(layer)
    for _ in range(2):
        with pytest.raises(error, match=message):
            layer(X)
        assert is_lazy(layer)
        assert is_lazy(copied)
    layer.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.zeros(3)})
    assert torch.equal(layer.weight, torch.ones(3, 2))


def test_an_initializer_that_uses_its_own_parameter_is_told_so() -> None:
    layer = Layer(lambda device: layer.weight * 2)
    with pytest.raises(ModuleTreeError, match=r"of shape \[3, 2\] used that parameter"):
        layer(X)
    assert is_lazy(layer)


def test_the_initializer_s_floats_are_converted() -> None:
    layer = Layer(lambda device: torch.full((3, 2), 0.5, dtype=torch.float64, requires_grad=True) * 2)
    assert torch.equal(layer.weight.detach(), torch.ones(3, 2))
    assert layer.weight.is_leaf


def test_as_an_argument_of_a_transform_it_is_nan(layer: Any, draw: Draw) -> None:
    def loss(weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, weights, (X,)).square().sum()

    found = torch.func.grad(loss)(dict(layer.named_parameters()))
    assert found["weight"].isnan().all()
    assert torch.func.vmap(torch.sum)(layer.weight).isnan().all()
    assert is_lazy(layer)
    found = torch.func.grad(loss)(dict(initialize(layer).named_parameters()))
    layer(X).square().sum().backward()
    torch.testing.assert_close(found["weight"], layer.weight.grad)
    assert draw.runs == 1


def test_what_would_leave_two_parameters_is_refused(layer: Any) -> None:
    with pytest.raises(RuntimeError, match="Creating a Parameter"):
        nn.Parameter(layer.weight)
    assert torch.equal(nn.Parameter(layer.weight.detach()), layer.weight)


@pytest.fixture
def group(tmp_path: Path) -> Any:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_ddp_initializes_and_trains_it(layer: Any, draw: Draw, group: None) -> None:
    expected = drawn()
    torch.manual_seed(0)
    wrapped = nn.parallel.DistributedDataParallel(layer)
    assert torch.equal(layer.weight, expected)
    wrapped(X).sum().backward()
    assert torch.equal(layer.weight.grad, X.sum(0).expand(3, 2))
    assert draw.runs == 1


def test_ddp_that_was_made_without_values_trains_it(layer: Any, draw: Draw, group: None) -> None:
    wrapped = nn.parallel.DistributedDataParallel(layer, init_sync=False)
    assert is_lazy(layer)
    wrapped(X).sum().backward()
    assert torch.equal(layer.weight.grad, X.sum(0).expand(3, 2))
    assert draw.runs == 1


def test_a_compiled_model_of_many_is_traced_once() -> None:
    model = nn.Sequential(*(Module() for _ in range(120)))
    for layer in model:
        layer.weight = Param.uninitialized(lambda device: torch.ones(2), [2])

    def total(model: nn.Module) -> Tensor:
        return torch.stack([layer.weight for layer in model]).sum()

    traced = []

    def backend(graph: Any, inputs: Any) -> Any:
        traced.append(graph)
        return graph.forward

    compiled = torch.compile(total, backend=backend, fullgraph=True)
    assert compiled(model) == compiled(model) == 240
    compiled(model).backward()
    assert torch.equal(model[119].weight.grad, torch.ones(2))
    assert len(traced) == 1


def test_a_compiled_model_is_traced_once(layer: Any) -> None:
    traced = []

    def backend(graph: Any, inputs: Any) -> Any:
        traced.append(graph)
        return graph.forward

    compiled = torch.compile(layer, backend=backend)
    first, second = compiled(X), compiled(X)
    assert torch.equal(first, layer(X))
    assert torch.equal(second, first)
    second.sum().backward()
    assert layer.weight.grad is not None
    assert len(traced) == 1


def test_an_exported_model_has_its_values(layer: Any) -> None:
    expected = drawn()
    torch.manual_seed(0)
    exported = torch.export.export(layer, (X,))
    assert torch.equal(exported.state_dict["weight"], expected)
    assert torch.equal(exported.module()(X), layer(X))
