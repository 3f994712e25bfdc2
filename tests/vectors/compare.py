"""Compare a result with the expectation of a vector.

Numbers pass as in Burn: equal, both NaN, or |x - y| < max(atol, rtol * max(|x|, |y|)). Where a vector demands
equality (both tolerances 0), the expected numbers are rounded to the result's element type, and operations that are
not exactly rounded (`inexact`) get 1e-6 relative.
"""

import math
import re
from typing import Any

import torch

from burnlike import Cpu, Tensor
from burnlike.tensor import TensorData
from burnlike.tensor.quantization import QTensor

from .problems import UnknownError
from .values import KINDS, check_value, dtype_named, filled, number, of_kind

EXACT_TO_ROUNDING = 1e-6
INEXACT_PREFIXES = ("activation.", "module.", "linalg.", "signal.", "loss.", "grid.")
INEXACT_NAMES = (
    "exp log log1p log2 log10 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh atan2 erf powf"
    " powf_scalar powi powi_scalar recip hypot deg2rad rad2deg matmul dot sum sum_dim sum_dims sum_dims_squeeze mean"
    " mean_dim mean_dims prod prod_dim prod_dims cumsum cumprod var var_bias var_mean var_mean_bias cov cross"
    " grid_sample_2d remainder remainder_scalar fmod fmod_scalar einsum"
)
INEXACT = set(INEXACT_NAMES.split())


def inexact(op: str) -> bool:
    """Whether float results of an operation may differ in the last bits between implementations."""
    return op in INEXACT or op.startswith(INEXACT_PREFIXES)


class Tolerance:
    """How far a number may be from the expected one."""

    def __init__(self, rtol: float, atol: float, loose: bool = False) -> None:
        self.exact = rtol == 0 and atol == 0
        self.rtol = EXACT_TO_ROUNDING if self.exact and loose else rtol
        self.atol = atol

    def near(self, got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Element by element, of float64 tensors."""
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        bound = (self.rtol * torch.maximum(got.abs(), wanted.abs())).clamp(min=self.atol)
        return same | (torch.isfinite(got) & torch.isfinite(wanted) & ((got - wanted).abs() < bound))


def mismatch(got: Any, expected: Any, tolerance: Tolerance, *, strict_dtype: bool = False) -> str | None:
    """What is wrong with a result, or None."""
    if isinstance(expected, dict):
        if expected.keys() == {"text"}:
            return text_mismatch(got, expected["text"])
        if expected and expected.keys() <= {"q", "scales"}:
            return quantized_mismatch(got, expected, tolerance)
        return tensor_mismatch(got, expected, tolerance, strict_dtype)
    if isinstance(expected, bool):
        return None if got is expected else f"expected {expected}, got {shown(got)}"
    if isinstance(got, torch.dtype) and isinstance(expected, str):
        wanted = dtype_named(expected.rpartition(".")[2].lower())
        return None if got is wanted else f"expected element type {wanted}, got {got}"
    if isinstance(expected, int | float | str):
        return scalar_mismatch(got, expected, tolerance)
    if isinstance(expected, list):
        return list_mismatch(got, expected, tolerance, strict_dtype)
    raise UnknownError(f"unknown form of expectation {expected!r}")


def list_mismatch(got: Any, expected: list[Any], tolerance: Tolerance, strict_dtype: bool) -> str | None:
    """Several results, or a list of plain numbers such as a shape."""
    if not isinstance(got, list | tuple):
        return f"expected {len(expected)} results, got {shown(got)}"
    if len(got) < len(expected):
        return f"expected {len(expected)} results, got {len(got)}"
    for index, (one, wanted) in enumerate(zip(got, expected, strict=False)):
        found = None if wanted is None else mismatch(one, wanted, tolerance, strict_dtype=strict_dtype)
        if found:
            return f"result {index}: {found}"
    return None


def scalar_mismatch(got: Any, expected: Any, tolerance: Tolerance) -> str | None:
    """A plain Python number."""
    if isinstance(got, bool) or not isinstance(got, int | float):
        return f"expected the number {expected!r}, got {shown(got)}"
    one, other = torch.tensor([got, number(expected)], dtype=torch.float64).split(1)
    return None if tolerance.near(one, other).item() else f"expected {expected!r}, got {got!r}"


def quantized_mismatch(got: Any, expected: dict[str, Any], tolerance: Tolerance) -> str | None:
    """The integers and the scales of a quantized tensor, or scales alone."""
    if isinstance(got, QTensor):
        values, scales = got.values, got.scales
    elif "q" in expected:
        return f"expected a quantized tensor, got {shown(got)}"
    else:
        values, scales = None, got
    wanted = expected.get("scales")
    if isinstance(wanted, list):
        wanted = {"kind": "float", "data": wanted}
    fault = None if wanted is None else mismatch(scales, wanted, tolerance)
    if fault or "q" not in expected:
        return fault
    return mismatch(values, {"kind": "int", "data": expected["q"]}, tolerance)


def text_mismatch(got: Any, expected: str) -> str | None:
    """Displayed text: `<device>` and `<backend>` stand for anything; newer vectors lack the backend's line."""
    text = str(got)
    if "\n  backend:" not in expected:
        text = re.sub(r"\n  backend: .*", "", text)
    pattern = re.escape(expected)
    for placeholder in ("<device>", "<backend>"):
        pattern = pattern.replace(re.escape(placeholder), ".*")
    return None if re.fullmatch(pattern, text) else f"expected the text\n{expected}\ngot\n{got}"


def tensor_mismatch(got: Any, expected: dict[str, Any], tolerance: Tolerance, strict_dtype: bool) -> str | None:
    """A Tensor against a tensor value; where it lacks data only the rest is asserted, and null matches anything."""
    check_value(expected)
    if isinstance(got, TensorData):
        backend = Cpu(int=torch.int32)
        got = Tensor.from_data(got, backend, kind=KINDS[expected["kind"]], dtype=got.dtype)
    if not isinstance(got, Tensor):
        return f"expected a {expected['kind']} tensor, got {shown(got)}"
    inner: torch.Tensor = got.inner.detach()
    if got.spec.kind is not KINDS[expected["kind"]]:
        return f"expected a {expected['kind']} tensor, got {shown(got)}"
    wanted_dtype = dtype_named(expected["dtype"]) if "dtype" in expected else None
    if wanted_dtype is None and strict_dtype:
        backend = got.backend
        wanted_dtype = {"float": backend.float_dtype, "int": backend.int_dtype, "bool": torch.bool}[expected["kind"]]
    if wanted_dtype is not None and inner.dtype is not wanted_dtype:
        return f"expected element type {wanted_dtype}, got {shown(got)}"
    shape = expected.get("shape")
    if shape is not None and not shape_fits(list(inner.shape), shape):
        return f"expected shape {shape}, got {shown(got)}"
    if not {"data", "full", "arange"} & expected.keys():
        return None
    if "data" not in expected:
        expected = {**expected, "data": filled(expected, inner.dtype).tolist()}
    return data_mismatch(inner, expected, tolerance)


def shape_fits(got: list[int], wanted: list[int | None]) -> bool:
    """Equal sizes, where null is any."""
    return len(got) == len(wanted) and all(w is None or g == w for g, w in zip(got, wanted, strict=True))


def data_mismatch(inner: torch.Tensor, expected: dict[str, Any], tolerance: Tolerance) -> str | None:
    """The numbers of a torch tensor against nested lists."""
    data, shape = expected["data"], expected.get("shape")
    flat: list[Any] = []
    if shape is None or 0 not in shape:
        fault = flatten(data, list(inner.shape), flat)
        if fault:
            return f"{fault}; got shape {list(inner.shape)}"
    asserted = [index for index, item in enumerate(flat) if item is not None]
    wanted = of_kind([flat[index] for index in asserted], expected["kind"])
    chosen = inner.reshape(-1).cpu()[torch.tensor(asserted, dtype=torch.int64)]
    if not inner.dtype.is_floating_point:
        got = chosen.tolist()
        bad = [i for i, (one, other) in enumerate(zip(got, wanted, strict=True)) if one != other]
        values: list[Any] = got
    else:
        # Where equality is demanded, both are compared in the result's own element type.
        goal = torch.tensor(wanted, dtype=torch.float64).to(inner.dtype if tolerance.exact else torch.float64)
        bad = (~tolerance.near(chosen.double(), goal.double())).nonzero().reshape(-1).tolist()
        values = chosen.tolist()
    if not bad:
        return None
    first = bad[0]
    return (
        f"{len(bad)} of {len(wanted)} elements differ, first at {position(asserted[first], inner.shape)}:"
        f" expected {wanted[first]!r}, got {values[first]!r}\n"
        f"  expected {brief(data)}\n  got      {brief(inner.tolist())}"
    )


def flatten(data: Any, shape: list[int], out: list[Any]) -> str | None:
    """Append the items of nested lists of this shape to `out`, None for each element of a null; what does not fit."""
    if data is None:
        out.extend([None] * math.prod(shape))
        return None
    if not shape or not isinstance(data, list):
        if shape or isinstance(data, list):
            return "the nesting of the expected data differs"
        out.append(data)
        return None
    if len(data) != shape[0]:
        return f"expected {len(data)} entries in a dimension of size {shape[0]}"
    for item in data:
        fault = flatten(item, shape[1:], out)
        if fault:
            return fault
    return None


def position(index: int, shape: torch.Size) -> list[int]:
    """The index in each dimension of a flat index."""
    found = []
    for size in reversed(shape):
        found.append(index % size)
        index //= size
    return found[::-1]


def brief(value: Any, limit: int = 300) -> str:
    """A value as text, cut where it is long."""
    text = str(value)
    return text if len(text) <= limit else text[:limit] + " ..."


def shown(value: Any) -> str:
    """A result in a message."""
    if isinstance(value, Tensor):
        inner = value.inner.detach()
        kind = value.spec.kind.name
        return f"a {kind} tensor {list(inner.shape)} of {inner.dtype}: {brief(inner.tolist())}"
    return f"{type(value).__name__} {brief(value)}"
