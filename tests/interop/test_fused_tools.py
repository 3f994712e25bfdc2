"""What stands for stock functions in a fused model, under torch's compilers, transforms and exporters."""

import importlib
import itertools
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import HashStore, init_device_mesh  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
from transformers.models.llama import modeling_llama

from burnlike.interop import fuse
from burnlike.interop.fused import functions
from burnlike.interop.fused.rotations import Rotation, rotating
from burnlike.ops import native_status

from .fused_calls import TOLERANCE, leaf

# Torch's rms_norm says it once in a process, in whichever test comes first.
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")


@dataclass(frozen=True)
class Usual:
    """A call that an op takes: of tensors, and what stands for the stock function."""

    op: str
    call: Callable[..., Any]
    inputs: Callable[[], tuple[Tensor, ...]]


def usual_calls() -> dict[str, Usual]:
    def table(*sizes: int) -> Tensor:
        return leaf(*sizes, seed=7).detach()

    rotary = rotating(modeling_llama.apply_rotary_pos_emb, Rotation())
    heads = (2, 4, 3, 8)
    bfloat16 = torch.bfloat16
    mask, targets, labels = torch.ones(1, 1, 3, 3).tril() > 0, torch.tensor([1, 2, -100]), torch.ones(2, 3).long()
    made = {
        "layer_norm": (lambda x, w, b: functions.layer_norm(x, (8,), w, b), lambda: (leaf(3, 8), leaf(8), leaf(8))),
        "layer_norm-mixed": (
            lambda x, w: functions.layer_norm(x, torch.Size([8]), w),
            lambda: (leaf(3, 8, dtype=bfloat16), leaf(8)),
        ),
        "rms_norm": (lambda x, w: functions.rms_norm(x, [8], w), lambda: (leaf(3, 8), nn.Parameter(torch.ones(8)))),
        "rms_norm-mixed": (lambda x, w: functions.rms_norm(x, (8,), w), lambda: (leaf(3, 8, dtype=bfloat16), leaf(8))),
        "cross_entropy": (functions.cross_entropy, lambda: (leaf(3, 8), targets)),
        "cross_entropy-causal": (lambda x, t: functions.causal_lm_loss(x, t, 8), lambda: (leaf(2, 3, 8), labels)),
        "cross_entropy-masked": (lambda x, t: functions.masked_lm_loss(x, t, 8), lambda: (leaf(2, 3, 8), labels)),
        "attention": (
            lambda *it: functions.attention(*it, is_causal=True),
            lambda: tuple(leaf(*heads, dtype=bfloat16) for _ in range(3)),
        ),
        "attention-grouped": (
            lambda *it: functions.attention(*it, enable_gqa=True),
            lambda: (leaf(*heads, dtype=bfloat16), *(leaf(2, 2, 3, 8, dtype=bfloat16) for _ in range(2)), mask),
        ),
        "rotary": (rotary, lambda: (leaf(*heads), leaf(2, 2, 3, 8), table(1, 3, 8), table(1, 3, 8))),
        "rotary-sequence-first": (
            lambda *it: rotary(*it, unsqueeze_dim=2),
            lambda: (leaf(2, 3, 4, 8), leaf(2, 3, 2, 8), table(2, 3, 8), table(2, 3, 8)),
        ),
    }
    return {name: Usual(name.partition("-")[0], *it) for name, it in made.items()}


USUAL = usual_calls()


@pytest.fixture(params=USUAL)
def usual(request: pytest.FixtureRequest) -> Usual:
    return USUAL[request.param]


def test_what_an_op_takes_runs_natively(usual: Usual) -> None:
    """Else predicates that refuse all would pass the tests above."""
    before = native_status().calls[usual.op]
    usual.call(*usual.inputs())
    assert native_status().calls[usual.op] == before + 1


def test_compiled_code_has_the_op(usual: Usual) -> None:
    torch.compiler.reset()
    before = native_status().calls[usual.op]
    actual = torch.compile(usual.call, fullgraph=True, backend="aot_eager")(*usual.inputs())
    assert native_status().calls[usual.op] == before + 1
    torch.testing.assert_close(actual, usual.call(*usual.inputs()))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of its attention
def test_vmap_takes_each_item(usual: Usual) -> None:
    floats = [it for it in usual.inputs() if it.is_floating_point()]
    others = [it for it in usual.inputs() if not it.is_floating_point()]
    stacked = [torch.stack([it.detach(), it.detach() + 1]) for it in floats]
    mapped = torch.vmap(lambda *it: usual.call(*it, *others))(*stacked)
    expected = usual.call(*(it[1] for it in stacked), *others)
    for one, two in zip(_as_tuple(mapped), _as_tuple(expected), strict=True):
        torch.testing.assert_close(one[1], two, rtol=TOLERANCE[two.dtype], atol=TOLERANCE[two.dtype])


def _as_tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


class Called(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(*inputs)


def test_programs_for_other_tools_have_torchs_functions(usual: Usual) -> None:
    inputs = tuple(it.detach() for it in usual.inputs())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; dtypes are mixed
        program = torch.export.export(Called(usual.call), inputs)
        assert "burnlike" not in program.graph_module.code
        traced: Any = torch.jit.trace(usual.call, inputs, check_trace=False)
        assert "burnlike::" not in str(traced.inlined_graph)


def test_subclasses_of_tensors_go_to_torchs_functions(usual: Usual) -> None:
    class Seen(Tensor):
        names: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.names.append(getattr(function, "__name__", ""))
            return super().__torch_function__(function, types, args, kwargs)

    for place, given in enumerate(usual.inputs()):
        if not given.is_floating_point():
            continue
        inputs = list(usual.inputs())
        inputs[place] = given.detach().as_subclass(Seen)
        Seen.names.clear()
        before = native_status().calls[usual.op]
        results = _as_tuple(usual.call(*inputs))
        assert native_status().calls[usual.op] == before
        assert Seen.names
        for one, two in zip(results, _as_tuple(usual.call(*usual.inputs())), strict=True):
            torch.testing.assert_close(
                one.as_subclass(Tensor), two, rtol=TOLERANCE[two.dtype], atol=TOLERANCE[two.dtype]
            )


@pytest.mark.filterwarnings("ignore")  # torch's, of these layouts
def test_other_layouts_go_to_torchs_functions(usual: Usual) -> None:
    layouts: list[Callable[[Tensor], Tensor]] = [
        Tensor.to_sparse,
        Tensor.to_mkldnn,
        lambda it: torch.nested.nested_tensor(list(it)),
    ]
    before = native_status().calls[usual.op]
    for place, convert in itertools.product(range(len(usual.inputs())), layouts):
        inputs = [it.detach() for it in usual.inputs()]
        with suppress(RuntimeError):  # mkldnn has floats alone
            inputs[place] = convert(inputs[place])
            with suppress(Exception):  # torch's
                usual.call(*inputs)
            assert native_status().calls[usual.op] == before


def test_meta_tensors_have_the_shapes_of_results(usual: Usual) -> None:
    results, expected = usual.call(*(it.detach().to("meta") for it in usual.inputs())), usual.call(*usual.inputs())
    for one, two in zip(_as_tuple(results), _as_tuple(expected), strict=True):
        assert (one.device.type, one.shape, one.dtype) == ("meta", two.shape, two.dtype)


def test_sequences_of_many_lengths_are_normalized_as_by_torch() -> None:
    x = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(2, 8)], layout=torch.jagged)
    weight, bias = leaf(8), leaf(8)
    expected = F.layer_norm(x, (8,), weight, bias)
    torch.testing.assert_close(functions.layer_norm(x, (8,), weight, bias).values(), expected.values())


def test_second_derivatives_are_those_of_torch() -> None:
    def second(norm: Callable[..., Tensor], loss: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        x, weight, targets = leaf(3, 8, dtype=torch.float64), leaf(8, dtype=torch.float64), torch.tensor([1, 7, -100])
        value = loss(norm(x, (8,), weight), targets, label_smoothing=0.1)
        (grad,) = torch.autograd.grad(value, x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), (x, weight))

    expected = second(F.rms_norm, F.cross_entropy)
    torch.testing.assert_close(second(functions.rms_norm, functions.cross_entropy), expected)


class Block(nn.Module):
    """Attention between norms, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.rms = nn.LayerNorm(16), nn.Linear(16, 48), nn.RMSNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(self.norm(x)).split(16, -1))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.rms(y.transpose(1, 2).flatten(2))


@pytest.fixture
def _faster_products(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = importlib.import_module("burnlike.ops.linear")
    monkeypatch.setattr(linear, "_MACHINE_GAINS", True)
    monkeypatch.setattr(linear, "_FEWEST_PRODUCTS", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("_faster_products")
@pytest.mark.filterwarnings("ignore")  # torch's, of its exporter
def test_a_fused_model_is_exported_to_onnx() -> None:
    model, x = Block().bfloat16().eval(), torch.randn(2, 20, 16).bfloat16()
    assert len(fuse(model).fused) == 4
    program = torch.onnx.export(nn.Sequential(model), (x,), dynamo=True, verbose=False)
    assert program is not None
    assert not {node.domain for node in program.model.graph} - {"", "pkg.onnxscript.torch_lib"}


def test_sequence_parallel_norms_are_those_of_the_stock_model() -> None:
    x = torch.randn(2, 4, 16)
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for norm in (nn.LayerNorm(16), nn.RMSNorm(16)):
            expected = norm(x)
            model = nn.Sequential(norm)
            assert fuse(model).fused
            parallelize_module(model, mesh, {"0": SequenceParallel(use_local_output=True)})
            torch.testing.assert_close(model(x), expected)
    finally:
        torch.distributed.destroy_process_group()
