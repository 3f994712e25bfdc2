"""The Spec of every tensor that any operation makes says what its torch tensor has: element type, rank, device."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from burnlike import Autodiff, Cpu, Tensor
from burnlike.backend import TorchFloatOps
from burnlike.errors import TensorError
from burnlike.tensor.core import base
from tests.vectors.cases import is_program, run

from ...marks import slow
from ..api.test_api_table import CASES
from ..test_vectors import GROUPS

MAKERS = (base.wrap, base.like, base.derive)


class Faults(set[str]):
    """What was wrong with the tensors that were made in a test.

    One that `new` makes gets its fields afterwards: it is looked at when the next one is made, or the faults are read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unfinished: list[Any] = []

    def look_at(self, out: Any, maker: str) -> None:
        if isinstance(out.inner, torch.Tensor):
            has = (out.inner.dtype, out.inner.ndim, out.inner.device)
            if has != (out.spec.dtype, out.spec.rank, out.spec.backend.device):
                self.add(f"{maker}: {out.spec!r} of a tensor of {has}")

    def checked(self, make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def checked_make(inner: Any, spec: Any) -> Any:
            out = make(inner, spec)
            self.look_at(out, sys._getframe(1).f_code.co_qualname)
            return out

        return checked_make

    def new(self, cls: Any) -> Any:
        self._finish()
        out = object.__new__(cls)
        self._unfinished.append((out, sys._getframe(1).f_code.co_qualname))
        return out

    def _finish(self) -> None:
        rest: list[Any] = []
        for out, maker in self._unfinished:
            if hasattr(out, "spec") and hasattr(out, "inner"):
                self.look_at(out, maker)
            else:
                rest.append((out, maker))
        self._unfinished = rest

    def __len__(self) -> int:
        self._finish()
        return super().__len__()


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    collected = Faults()
    for name, module in list(sys.modules.items()):
        if name.startswith("burnlike.tensor"):
            for make in MAKERS:
                if getattr(module, make.__name__, None) is make:
                    monkeypatch.setattr(module, make.__name__, collected.checked(make))
            if module is not base and getattr(module, "new", None) is base.new:
                monkeypatch.setattr(module, "new", collected.new)
    return collected


# Functions that autocast runs in float32 on a CUDA device (torch/aten/src/ATen/autocast_mode.h), where it does not on a
# CPU.
IN_FLOAT32_ON_CUDA = """
    __pow__ __rpow__ __rdiv__ __rtruediv__ acos asin cosh cdist cosine_similarity cumprod cumsum dist erfinv exp expm1
    group_norm layer_norm log log10 log1p log2 log_softmax mse_loss l1_loss nll_loss norm pow prod reciprocal rsqrt sinh
    smooth_l1_loss softmax softmin softplus sum tan
"""


class LikeAutocastOnCuda(TorchFunctionMode):
    """Casts as autocast does on a CUDA device, on a CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", None) in IN_FLOAT32_ON_CUDA.split() and not (kwargs or {}).get("dtype"):
            halves = (torch.bfloat16, torch.float16)
            args = [it.float() if isinstance(it, torch.Tensor) and it.dtype in halves else it for it in args]
        return func(*args, **(kwargs or {}))


def autocast(dtype: torch.dtype | str | None) -> contextlib.AbstractContextManager[Any]:
    if isinstance(dtype, torch.dtype):
        return torch.autocast("cpu", dtype=dtype)
    return LikeAutocastOnCuda() if dtype else contextlib.nullcontext()


# Whether the numbers are right is asked elsewhere; in autocast they are less precise.
@pytest.mark.parametrize(
    ("dtype", "elements"),
    [
        (None, torch.float32),
        (torch.bfloat16, torch.float32),
        *slow((torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16)),
        ("cuda", torch.bfloat16),
    ],
    ids=["plain", "to bfloat16", "to float16", "of bfloat16", "as on cuda"],
)
def test_what_every_operation_makes(faults: Faults, dtype: Any, elements: torch.dtype) -> None:
    with autocast(dtype):
        for backend in (Cpu(), Autodiff(Cpu())):
            for case in CASES.values():
                with contextlib.suppress(TensorError):
                    case(backend)
        for group in GROUPS.values():
            for record in group:
                with contextlib.suppress(TensorError):
                    plain = Cpu(float=elements)
                    run(record, Autodiff(plain) if is_program(record) else plain)
    assert not faults, "\n".join(sorted(faults))


def test_a_wrong_spec_would_be_found(faults: Faults) -> None:
    from burnlike.tensor.arithmetic import elementwise

    spec = base.find_spec(torch.ones(2), base.family_of(Cpu()))
    wrong = elementwise.wrap(torch.ones(2, dtype=torch.int64), spec)
    assert len(faults) == 1
    wrong.floor()
    assert len(faults) == 2
    assert any(it.startswith("floor") for it in faults)


def method(name: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(x, name)(y)


METHODS = ("add", "sub", "mul", "div", "remainder", "fmod", "powi", "powf", "max_pair", "min_pair", "atan2", "matmul")
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{name: method(name) for name in METHODS},
    "powf scalar": lambda x, y: x.powf(2.5),
    "powi scalar": lambda x, y: x.powi(3),
    "reflected power": lambda x, y: 2.0**x,
    "reflected quotient": lambda x, y: 1.0 / x,
    "cross": lambda x, y: x.cross(y, 0),
    "mask_where": lambda x, y: x.mask_where(x > 0.5, y),
    "slice_assign": lambda x, y: x.slice_assign([[0, 3]], y),
    "einsum": lambda x, y: Tensor.einsum("ij,jk->ik", [x, y]),
    "cat": lambda x, y: Tensor.cat([x, y], 0),
    "typed + torch": lambda x, y: x + y.inner,
    "typed ** torch": lambda x, y: x**y.inner,
    "torch + typed": lambda x, y: x.inner + y,
    "torch / typed": lambda x, y: x.inner / y,
    "torch ** typed": lambda x, y: x.inner**y,
    "torch @ typed": lambda x, y: x.inner @ y,
}


@pytest.mark.parametrize("name", BINARY)
def test_what_operations_of_two_element_types_make_in_autocast(faults: Faults, name: str) -> None:
    full = Tensor(torch.rand(3, 3))
    half = full.cast(torch.bfloat16)
    for x, y, dtype in ((full, half, torch.bfloat16), (half, full, torch.bfloat16), (half, half, "cuda")):
        with autocast(dtype), contextlib.suppress(TensorError):
            result = BINARY[name](x, y)
            assert result.spec.dtype is result.inner.dtype
    assert not faults, "\n".join(sorted(faults))


class Calls(TorchFunctionMode):
    """The names of the functions and attributes of torch's tensors that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "arguments", "function"),
    [
        ("exp", (), "exp"),
        ("powf_scalar", (2.5,), "pow"),
        ("clamp", (-1.0, 1.0), "clamp"),
        ("mul_scalar", (2.0,), "mul"),
        ("sum_dim", (1,), "sum"),
        ("mean_dim", (1,), "mean"),
        ("cumsum", (1,), "cumsum"),
    ],
)
def test_an_operation_in_float32_reads_nothing_of_its_result(
    name: str, arguments: tuple[float, ...], function: str
) -> None:
    x = Tensor(torch.ones(2, 3), Cpu())
    with Calls() as calls:
        getattr(x, name)(*arguments)
    assert calls.names == [function]


def test_a_mask_reads_nothing_of_its_result() -> None:
    x = Tensor(torch.ones(2, 3), Cpu())
    mask = x.greater(0.5)
    with Calls() as calls:
        x.mask_where(mask, x)
        x.mask_fill(mask, 0.5)
    assert calls.names == ["where", "masked_fill"]


def test_the_parts_of_the_class_are_no_bases_of_it() -> None:
    assert len(Tensor.__mro__) == 4  # itself, TensorBase, Generic, object: Python searches them at each operation
    assert Tensor.add.__qualname__ == "NumericMethods.add"
    assert type(Tensor(torch.ones(2), Cpu()).add(1.0)) is Tensor


class ByProducts(TorchFloatOps):
    """Sums by products, which autocast computes in 16 bits."""

    @staticmethod
    def sum_dim(tensor: torch.Tensor, dim: int, keepdim: bool, /) -> torch.Tensor:
        return (tensor.movedim(dim, -1) @ torch.ones(tensor.shape[dim], 1)).movedim(-1, dim)


class OfProducts(Cpu):
    float_ops = ByProducts()


def test_over_a_backend_of_ones_own_the_result_says_its_element_type() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        total = Tensor(torch.rand(3, 4), OfProducts()).sum_dim(1)
    assert total.dtype == total.inner.dtype == torch.bfloat16
