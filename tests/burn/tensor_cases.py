"""Cases of tensors: operations with drawn arguments, in burnlike and in Burn, and the comparison of both."""

import dataclasses
import importlib
import json
import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

from burnlike import Autodiff, Bool, Cpu, Float, Int, Tensor
from burnlike.errors import BurnlikeError
from burnlike.tensor import Slice, Transaction
from burnlike.tensor.core.slices import size_of
from burnlike.tensor.host.data import TensorData, Tolerance
from burnlike.tensor.options import (
    AttentionModuleOptions,
    AvgPoolOptions,
    ConvOptions,
    ConvTransposeOptions,
    DeformConvOptions,
    GridSampleOptions,
    InterpolateOptions,
    MaxPoolOptions,
    UnfoldOptions,
)
from burnlike.tensor.quantization import Block, QTensor, QuantScheme, compute_q_params
from burnlike.tensor.signal import StftOptions

from .running import DTYPES, packed, unpacked

NAMES = {dtype: name for name, dtype in DTYPES.items()}
KINDS: dict[str, Any] = {"Float": Float, "Int": Int, "Bool": Bool}
TOLERANCE = {torch.float64: 1e-6, torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclasses.dataclass
class Case:
    """An operation by Burn's name, and its arguments: torch tensors, numbers, words, lists, options as dicts."""

    op: str
    args: list[Any]
    kind: str = "Float"
    grad: bool = False
    dtype: str | None = None
    rank: int | None = None
    """Of the result in Burn's type; by default that of burnlike's result."""

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(_shown, self.args))}) of {self.kind}"


@dataclasses.dataclass
class Answer:
    """Results, as torch tensors and plain values, with gradients of the leaves; or what was refused."""

    outs: list[Any] = dataclasses.field(default_factory=list[Any])
    grads: list[Any] | None = None
    refused: str | None = None
    fault: Exception | None = None
    """An exception that is none of burnlike's."""

    def __str__(self) -> str:
        if self.refused is not None:
            return f"refused: {self.refused.strip()[:300]}"
        return f"{[_shown(it) for it in self.outs]}" + (f" gradients {self.grads}" if self.grads else "")


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        numbers = f"{value.tolist()}"
        return f"{NAMES[value.dtype]}{[*value.shape]} {numbers[:200]}"
    return repr(value)


def json_of(value: Any) -> Any:
    """An argument as the program reads it."""
    if isinstance(value, torch.Tensor):
        return packed(value)
    if isinstance(value, TensorData):
        return {"dtype": NAMES[value.dtype], "shape": [*value.shape], "bytes": value.bytes.hex()}
    if isinstance(value, torch.dtype):
        return NAMES[value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, slice):
        return [value.start or 0, value.stop, value.step or 1]
    if isinstance(value, list | tuple):
        return [json_of(item) for item in value]
    return {key: json_of(item) for key, item in value.items()} if isinstance(value, dict) else value


def asked(case: Case, mine: Answer) -> dict[str, Any]:
    """The case as the program reads it."""
    first = next((it for it in mine.outs if isinstance(it, torch.Tensor)), None)
    guess = next((it.ndim for it in case.args if isinstance(it, torch.Tensor)), 1)
    rank = case.rank or (first.ndim if first is not None else guess)
    fields = {"op": case.op, "args": json_of(case.args), "kind": case.kind, "grad": case.grad, "rank": rank}
    return fields | ({"dtype": case.dtype} if case.dtype else {})


# Operations whose arguments have another form here than in the list of a case.
ADAPTED: dict[str, Callable[..., Any]] = {}


def adapted(*ops: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        ADAPTED.update(dict.fromkeys(ops, function))
        return function

    return register


def _function(op: str) -> Callable[..., Any]:
    room, name = op.split(".")
    return getattr(importlib.import_module(f"burnlike.tensor.{room}"), name)


_OPTIONS = {
    **{f"module.conv{n}d": ConvOptions for n in (1, 2, 3)},
    "module.conv2d_weight_backward": ConvOptions,
    **{f"module.conv_transpose{n}d": ConvTransposeOptions for n in (1, 2, 3)},
    "module.deform_conv2d": DeformConvOptions,
    "module.unfold4d": UnfoldOptions,
    "module.fold4d": UnfoldOptions,
    **{f"module.max_pool{n}d{more}": MaxPoolOptions for n in (1, 2) for more in ("", "_with_indices")},
    "module.avg_pool1d": AvgPoolOptions,
    "module.avg_pool2d": AvgPoolOptions,
    "signal.stft": StftOptions,
    "signal.istft": StftOptions,
}


def _with_options(case: Case, args: list[Any]) -> Any:
    fields = {key: tuple(it) if isinstance(it, list) else it for key, it in args[-1].items()}
    if "padding_end" in fields:
        end = fields.pop("padding_end")
        if end is not None:
            fields["padding"] = tuple(zip(fields["padding"], end, strict=True))
    return _function(case.op)(*args[:-1], _OPTIONS[case.op](**fields))


def perform(case: Case, backend: Any, leaves: list[torch.Tensor]) -> Any:
    """The case's result in burnlike."""

    def typed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            inner = value.clone()
            if case.grad and inner.is_floating_point():
                leaves.append(inner.requires_grad_())
            return Tensor(inner, backend)
        return [typed(item) for item in value] if isinstance(value, list) else value

    args, op = [typed(it) for it in case.args], case.op
    if op in ADAPTED:
        return ADAPTED[op](case, args, backend)
    if op in _OPTIONS:
        return _with_options(case, args)
    if "." in op:
        return _function(op)(*args)
    if isinstance(args[0], Tensor) and op not in STATIC:
        found = getattr(args[0], op)
        return found(*args[1:]) if callable(found) else found
    return getattr(Tensor, op)(*args)


STATIC = ("cat", "stack", "einsum")


def mine(case: Case) -> Answer:
    """burnlike's answer."""
    backend: Any = Autodiff(Cpu()) if case.grad else Cpu()
    leaves: list[torch.Tensor] = []
    try:
        result = perform(case, backend, leaves)
        result = [*result] if hasattr(result, "__next__") else result
        outs = result if isinstance(result, list | tuple) else [result]
        if outs is result and outs and all(isinstance(it, int) for it in outs):
            outs = [[*outs]]  # sizes
        plain = [_plain(it) for it in outs]
        return Answer(plain, _gradients(outs, leaves) if case.grad else None)
    except (BurnlikeError, AssertionError) as error:
        return Answer(refused=f"{type(error).__name__}: {error}")
    except Exception as error:
        return Answer(refused=repr(error), fault=error)


def _plain(value: Any) -> Any:
    if isinstance(value, QTensor):
        value = value.dequantize()
    if isinstance(value, Tensor):
        return value.inner.detach()
    if isinstance(value, TensorData):
        return unpacked(json_of(value))
    return NAMES[value] if isinstance(value, torch.dtype) else value


def _gradients(outs: Sequence[Any], leaves: list[torch.Tensor]) -> list[Any] | None:
    """Of the weighted sum that the program makes too."""
    losses: list[torch.Tensor] = []
    for out in outs:
        if isinstance(out, Tensor) and out.inner.requires_grad:
            count = out.inner.numel()
            weights = torch.tensor([at * 7 % 11 / 4 - 1 for at in range(count)], dtype=out.inner.dtype)
            losses.append((out.inner * weights.reshape(out.inner.shape)).sum())
    if not losses:
        return None
    return [*torch.autograd.grad(sum(losses), leaves, allow_unused=True)]  # pyright: ignore[reportArgumentType, reportCallIssue]


def burns(answer: dict[str, Any]) -> Answer:
    """Burn's answer."""
    if "refused" in answer:
        return Answer(refused=answer["refused"])
    grads = answer["grads"]
    return Answer([_value(it) for it in answer["outs"]], [it and unpacked(it) for it in grads] if grads else None)


def _value(value: Any) -> Any:
    if value == "bool(native)":
        return "bool"
    return unpacked(value) if isinstance(value, dict) and "bytes" in value else value


def difference(ours: Answer, theirs: Answer) -> str | None:
    """What differs between two answers; None if nothing does."""
    if ours.fault is not None:
        return f"an exception that is none of burnlike's: {ours.fault!r}"
    if (ours.refused is None) != (theirs.refused is None):
        return "refused"
    if ours.refused is not None:
        return None
    if len(ours.outs) != len(theirs.outs):
        return f"{len(ours.outs)} results, Burn has {len(theirs.outs)}"
    for left, right in zip(ours.outs, theirs.outs, strict=True):
        found = _differs(left, right)
        if found:
            return found
    for left, right in zip(ours.grads or [], theirs.grads or [], strict=False):
        if left is None or right is None:
            flat = left if left is not None else right
            if flat is not None and bool(torch.nan_to_num(flat, 1.0).any()):
                return "gradient: one is missing"
        elif found := _differs(left, right, 10.0):
            return f"gradient: {found}"
    return None


def _differs(left: Any, right: Any, factor: float = 1.0) -> str | None:
    if isinstance(left, str) and isinstance(right, str) and left.startswith("Tensor {"):
        left, right = (re.sub(r"\n  (device|backend): .*", "", it) for it in (left, right))
    if isinstance(left, str) and left.startswith("{"):
        return None if json.loads(left) == json.loads(right) else "value"
    if not isinstance(left, torch.Tensor):
        if isinstance(left, float) and isinstance(right, float | int):
            same = math.isclose(left, right, rel_tol=3e-5, abs_tol=1e-6) or (left != left and right != right)
            return None if same else "value"
        return None if left == right else "value"
    if not isinstance(right, torch.Tensor) or left.shape != right.shape:
        return f"shape {getattr(right, 'shape', right)}"
    if left.dtype is not right.dtype:
        return f"dtype {right.dtype}"
    if not left.is_floating_point():
        return None if torch.equal(left, right) else "value"
    near = TOLERANCE[left.dtype] * factor
    largest = right.double()[right.isfinite()].abs().amax().item() if right.isfinite().any() else 1.0
    close = torch.isclose(
        left.double(), right.double(), rtol=near, atol=near * min(1.0, largest or 1.0) + 1e-37, equal_nan=True
    )
    return None if bool(close.all()) else "value"


class Draw:
    """Draws arguments."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 2.0, edges: bool = False) -> Any:
        """Normal numbers; with `edges` some are 0, -0, 1, infinite, NaN or ties."""
        numbers = [self.random.gauss(0, scale) for _ in range(math.prod(shape))]
        if edges:
            special = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan]
            numbers = [self.random.choice(special) if self.random.random() < 0.3 else it for it in numbers]
        return torch.tensor(numbers, dtype=torch.float64).to(dtype).reshape(shape)

    def ints(self, *shape: int, low: int = -9, high: int = 9, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        count = math.prod(shape)
        return torch.tensor([self.random.randint(low, high) for _ in range(count)], dtype=dtype).reshape(shape)

    def bools(self, *shape: int) -> torch.Tensor:
        return self.ints(*shape, low=0, high=1).bool()

    def of(self, kind: str, *shape: int) -> torch.Tensor:
        if kind == "Float":
            return self.floats(*shape)
        return self.ints(*shape) if kind == "Int" else self.bools(*shape)

    def number(self, kind: str) -> Any:
        if kind == "Float":
            return round(self.random.gauss(0, 2), 3)
        return self.random.randint(-5, 5) if kind == "Int" else self.random.random() < 0.5

    def shape(self, least: int = 1, most: int = 3) -> list[int]:
        """1 to 3 sizes of 1 to 4, and rarely an empty one."""
        return [self.random.choice([1, 2, 2, 3, 3, 4]) for _ in range(self.random.randint(least, most))]

    def dim(self, rank: int) -> int:
        return self.random.randint(-rank, rank - 1)


@adapted("empty", "zeros", "ones", "full")
def _filled(case: Case, args: list[Any], backend: Any) -> Any:
    made = getattr(Tensor, case.op)(
        tuple(args[0]), *args[1:], backend, kind=KINDS[case.kind], dtype=DTYPES[case.dtype] if case.dtype else None
    )
    return [*made.dims()] if case.op == "empty" else made


@adapted("empty_like")
def _empty_like(_case: Case, args: list[Any], _backend: Any) -> Any:
    return [*args[0].empty_like().dims()]


@adapted("from_data", "from_floats", "from_ints", "from_bool")
def _from(case: Case, args: list[Any], backend: Any) -> Any:
    data = args[0].to_data()
    return (
        Tensor.from_data(data, backend, KINDS[case.kind])
        if case.op == "from_data"
        else getattr(Tensor, case.op)(data, backend)
    )


@adapted("arange", "arange_step", "cartesian_grid", "triu_mask", "tril_mask", "diag_mask")
def _with_backend(case: Case, args: list[Any], backend: Any) -> Any:
    return getattr(Tensor, case.op)(*args, backend)


@adapted("eye")
def _eye(case: Case, args: list[Any], backend: Any) -> Any:
    return Tensor.eye(args[0], backend, KINDS[case.kind])


@adapted("diag")
def _diag(_case: Case, args: list[Any], _backend: Any) -> Any:
    return _function("linalg.diag")(args[0])


@adapted("grid_sample_2d")
def _sample(_case: Case, args: list[Any], _backend: Any) -> Any:
    x, grid, mode, padding, corners = args
    return x.grid_sample_2d(grid, GridSampleOptions(mode, padding_mode=padding, align_corners=corners))


@adapted("grid.meshgrid")
def _meshgrid(_case: Case, args: list[Any], _backend: Any) -> Any:
    from burnlike.tensor.grid import GridOptions, meshgrid

    return meshgrid(args[0], GridOptions(indexing=args[1], sparsity=args[2]))


@adapted("grid.meshgrid_stack")
def _meshgrid_stack(_case: Case, args: list[Any], _backend: Any) -> Any:
    return _function("grid.meshgrid_stack")(args[0], args[1])


@adapted("module.interpolate")
def _interpolate(case: Case, args: list[Any], _backend: Any) -> Any:
    x, sizes, mode, corners = args
    by_factor = any(isinstance(it, float) for it in sizes)
    options = {"scale_factor" if by_factor else "output_size": tuple(sizes)}
    return _function(case.op)(x, InterpolateOptions(mode, align_corners=corners, **options))


@adapted("module.attention", "module.attention_fallback")
def _attention(case: Case, args: list[Any], _backend: Any) -> Any:
    options = AttentionModuleOptions(scale=args[5], softcap=args[6], is_causal=args[7])
    return _function(case.op)(*args[:5], options)


@adapted("module.adaptive_avg_pool1d")
def _adaptive(case: Case, args: list[Any], _backend: Any) -> Any:
    return _function(case.op)(args[0], args[1][0])


@adapted("signal.hann_window", "signal.hamming_window", "signal.blackman_window")
def _window(case: Case, args: list[Any], backend: Any) -> Any:
    return _function(case.op)(*args, backend)


@adapted("quantization.quantize_dynamic", "quantization.quantize", "quantization.compute_q_params")
def _quantized(case: Case, args: list[Any], _backend: Any) -> Any:
    fields = args[-1]
    scheme = QuantScheme(value=fields["value"], level=Block(*fields["block"]) if fields["block"] else "Tensor")
    if case.op.endswith("params"):
        return compute_q_params(scheme, args[0], args[1])
    return args[0].quantize_dynamic(scheme) if case.op.endswith("dynamic") else args[0].quantize(scheme, args[1])


@adapted("try_into_scalar", "into_scalar")
def _scalar(case: Case, args: list[Any], _backend: Any) -> Any:
    found = getattr(args[0], case.op)()
    if isinstance(found, Exception):
        raise found
    return float(found)


@adapted("data.convert_dtype", "data.equal", "data.assert_eq", "data.assert_within_range")
@adapted("data.assert_within_range_inclusive", "data.json")
def _data(case: Case, args: list[Any], _backend: Any) -> Any:
    left, *rest = [it.to_data() if isinstance(it, Tensor) else it for it in args]
    if case.op == "data.equal":
        return left == rest[0]
    name = case.op.removeprefix("data.")
    found = left.to_json() if name == "json" else getattr(left, name)(*rest)
    return True if found is None else found


@adapted("data.full")
def _full(_case: Case, args: list[Any], _backend: Any) -> Any:
    return TensorData.full_dtype(*args)


def _tolerance(name: str, *numbers: float) -> Tolerance:
    of = Tolerance.default() if name.startswith("set_") else Tolerance
    return getattr(of, name)(*numbers)


@adapted("data.assert_approx_eq")
def _approx(_case: Case, args: list[Any], _backend: Any) -> Any:
    args[0].to_data().assert_approx_eq(args[1].to_data(), _tolerance(*args[2:]))
    return True


@adapted("tolerance.approx_eq")
def _near(_case: Case, args: list[Any], _backend: Any) -> Any:
    return _tolerance(*args[3:]).approx_eq(args[0], args[1], DTYPES[args[2]])


@adapted("slice.parse")
def _parsed(_case: Case, args: list[Any], _backend: Any) -> Any:
    text, size = args
    found = Slice.parse(text)
    start, end, _ = slice(found.start, found.end).indices(size)
    return [start, end, found.step, size_of(slice(found.start, found.end, found.step), size)]


@adapted("transaction")
def _transaction(_case: Case, args: list[Any], _backend: Any) -> Any:
    return Transaction.default().register(args[0]).register(args[1]).execute()


@adapted("display")
def _display(_case: Case, args: list[Any], _backend: Any) -> Any:
    return str(args[0]) if args[1:] in ([], [None]) else f"{args[0]:.{args[1]}}"


@adapted("try_to_data_dtype", "try_into_data")
def _tried(case: Case, args: list[Any], _backend: Any) -> Any:
    found = getattr(args[0], case.op)(*args[1:])
    if isinstance(found, Exception):
        raise found
    return found
