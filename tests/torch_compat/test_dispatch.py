"""Modes, operators and their names."""

import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike._torch_compat import dispatch


def test_TorchDispatchMode() -> None:
    seen: list[str] = []

    class Listing(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.overloadpacket.__name__)
            return func(*args, **kwargs or {})

    with Listing():
        _ = torch.ones(2) + 1
    assert seen == ["ones", "add"]


@pytest.mark.slow
def test_TorchDispatchMode_does_not_import_the_compiler() -> None:
    program = """
import sys, torch
from burnlike._torch_compat.dispatch import TorchDispatchMode

class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})

with Passing():
    torch.ones(2) + 1
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_below_autograd() -> None:
    x = torch.ones(2, requires_grad=True)
    with dispatch.below_autograd():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_any_requires_grad() -> None:
    x = torch.ones(2)
    assert not dispatch.any_requires_grad(x, None, 1.5, "a", True)
    assert dispatch.any_requires_grad(x, None, x.clone().requires_grad_(), 1.5)


def test_schema_of() -> None:
    schema = dispatch.schema_of(torch.ops.aten.add_.Tensor)
    assert schema.is_mutable
    assert [it.name for it in schema.arguments if it.alias_info is not None and it.alias_info.is_write] == ["self"]
    assert len(schema.returns) == 1
    assert dispatch.schema_of(torch.add) is None


def test_is_traceable_wrapper_subclass() -> None:
    class Scaled(Tensor):
        def __tensor_flatten__(self) -> Any: ...

        def __tensor_unflatten__(self) -> Any: ...

    assert dispatch.is_traceable_wrapper_subclass(torch.ones(2).as_subclass(Scaled))
    assert not dispatch.is_traceable_wrapper_subclass(nn.Parameter(torch.ones(2)))


@pytest.mark.parametrize("name", sorted(dispatch.WRITES_TO_ARGUMENTS))
def test_WRITES_TO_ARGUMENTS(name: str) -> None:
    assert getattr(torch.ops.aten, name).default._schema.is_mutable


def test_PACKS_SEQUENCES() -> None:
    pack = getattr(torch, dispatch.PACKS_SEQUENCES)
    values, rows = pack(torch.ones(2, 3, 1), torch.tensor([3, 2]), True)
    assert values.shape == (5, 1)
    assert rows.tolist() == [2, 2, 1]


def test_assume_constant() -> None:
    @dispatch.assume_constant
    def name(function: Any) -> str:
        return str(getattr(function, "__name__", ""))

    assert torch.compile(lambda x: x + len(name(torch.add)), backend="eager", fullgraph=True)(torch.ones(1)).item() == 4


def test_never_compile_alone() -> None:
    traced: list[bool] = []

    def alone(x: Tensor) -> Tensor:
        traced.append(torch.compiler.is_dynamo_compiling())
        return x + 1

    dispatch.never_compile_alone(alone)
    assert torch.equal(torch.compile(alone, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
    assert traced == [False]
    assert torch.equal(torch.compile(lambda x: alone(x) * 2, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))


def test_never_compile_alone_with_callees() -> None:
    traced: list[bool] = []

    def callee(x: Tensor) -> Tensor:
        traced.append(torch.compiler.is_dynamo_compiling())
        return x + 1

    def alone(x: Tensor) -> Tensor:
        return callee(x)

    dispatch.never_compile_alone(alone, with_callees=True)
    assert torch.equal(torch.compile(alone, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
    assert traced == [False]


def test_current_mode() -> None:
    assert dispatch.current_mode() is None
    with dispatch.TorchDispatchMode() as mode:
        assert dispatch.current_mode() is mode


def test_decomposition_of() -> None:
    x = torch.randn(3, 4)
    silu = dispatch.decomposition_of(torch.ops.aten.silu_backward.default)
    assert silu is not None
    torch.testing.assert_close(silu(x, x), torch.ops.aten.silu_backward(x, x))
    assert dispatch.decomposition_of(torch.ops.aten.mm.default) is None


def test_TORCHS_WEIGHT_NORM() -> None:
    v, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0]])
    torch.testing.assert_close(dispatch.TORCHS_WEIGHT_NORM(v, g, 0), torch.tensor([[1.2, 1.6]]))


def test_attention_math() -> None:
    x = torch.randn(1, 2, 3, 4)
    out, weights = dispatch.attention_math(x, x, x)
    torch.testing.assert_close(out, nn.functional.scaled_dot_product_attention(x, x, x))
    assert weights.shape == (1, 2, 3, 3)


def test_ctc_losses() -> None:
    x = torch.zeros(2, 2, 3).log_softmax(2).requires_grad_()
    targets, lengths = torch.tensor([[1, 2], [1, 1]]), torch.tensor([2, 2])  # two equal ones need a step between
    losses, _ = dispatch.ctc_losses(x, targets, lengths, lengths, 0, True)
    losses.sum().backward()
    torch.testing.assert_close(losses, torch.tensor([2 * math.log(3.0), torch.inf]))
    assert x.grad is not None
    assert x.grad[:, 0].isfinite().all()
    assert x.grad[:, 0].abs().sum() > 0
    assert x.grad[:, 1].eq(0).all()


def test_grouped_products() -> None:
    x, matrices = torch.randn(4, 16, dtype=torch.bfloat16), torch.randn(2, 16, 8, dtype=torch.bfloat16)
    found = dispatch.grouped_products.default(x, matrices, torch.tensor([3, 4], dtype=torch.int32))
    torch.testing.assert_close(found, torch.cat([x[:3] @ matrices[0], x[3:] @ matrices[1]]))


def test_inner_tensors() -> None:
    values = {"one": torch.zeros(2), "other": torch.ones(3)}
    pair = SimpleNamespace(**values, __tensor_flatten__=lambda: (["one", "other"], None))
    assert [*map(id, dispatch.inner_tensors(pair))] == [*map(id, values.values())]


def test_nearest_exact() -> None:
    x = torch.randn(1, 2, 3)
    torch.testing.assert_close(
        dispatch.nearest_exact(x, [5]), nn.functional.interpolate(x, size=5, mode="nearest-exact")
    )


@pytest.mark.parametrize("name", dispatch.COUNTS_AND_SHARES)
def test_COUNTS_AND_SHARES(name: str) -> None:
    assert hasattr(torch.ops.aten, name)
