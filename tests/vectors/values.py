"""Tensor values of the vectors: from JSON to a Tensor, and what a result must look like."""

import math
from typing import Any

import torch

from burnlike import Backend, Bool, Float, Int, Tensor
from burnlike.tensor.quantization import Block, QuantScheme

from .problems import UnknownError

KINDS: dict[str, Any] = {"float": Float, "int": Int, "bool": Bool}
DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}
# How an operand is quantized before the operation takes it.
QUANTIZED = {"int8": QuantScheme(value="Q8S"), "int8_block": QuantScheme(value="Q8S", level=Block(16))}
NUMBERS = {"nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf}
VALUE_KEYS = {"kind", "data", "full", "arange", "shape", "dtype"}


def dtype_named(name: Any) -> torch.dtype:
    """The dtype that `f32`, `i64`, `bool`, ... names."""
    if not isinstance(name, str) or name not in DTYPES:
        raise UnknownError(f"unknown element type {name!r}")
    return DTYPES[name]


def of_kind(data: Any, kind: str) -> Any:
    """Nested lists of numbers of one kind; refuse 1 for True, True for 1, and 1.5 for an Int."""
    if isinstance(data, list):
        return [of_kind(item, kind) for item in data]
    found = number(data)
    if isinstance(found, bool) != (kind == "bool") or (kind == "int" and not isinstance(found, int)):
        raise UnknownError(f"{data!r} is no number of kind {kind!r}")
    return found


def number(value: Any) -> Any:
    """A number, True, False, or the string of a number that JSON lacks."""
    if isinstance(value, str):
        if value not in NUMBERS:
            raise UnknownError(f"unknown number {value!r}")
        return NUMBERS[value]
    if not isinstance(value, bool | int | float):
        raise UnknownError(f"expected a number, got {value!r}")
    return value


def check_value(value: dict[str, Any], *more: str) -> None:
    """Refuse a tensor value with a key, kind or combination of keys that the format lacks."""
    unknown = value.keys() - VALUE_KEYS - set(more)
    if unknown:
        raise UnknownError(f"unknown key {sorted(unknown)[0]!r} in a tensor value")
    if value.get("kind") not in KINDS:
        raise UnknownError(f"unknown kind {value.get('kind')!r} of a tensor value")
    if sum(key in value for key in ("data", "full", "arange")) > 1:
        raise UnknownError("a tensor value has one of 'data', 'full' and 'arange'")


def filled(value: dict[str, Any], dtype: torch.dtype) -> torch.Tensor:
    """A torch tensor of the three forms `data`, `full` and `arange`."""
    if "arange" in value:
        start, stop, step = of_kind(value["arange"], "int" if value["kind"] == "int" else "float")
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        return torch.arange(start, stop, step, dtype=wide).to(dtype).reshape(value["shape"])
    if "full" in value:
        return torch.full(value["shape"], of_kind(value["full"], value["kind"]), dtype=dtype)
    if "data" not in value:
        raise UnknownError("a tensor value without 'data', 'full' or 'arange'")
    made = torch.tensor(of_kind(value["data"], value["kind"]), dtype=dtype)
    return made.reshape(value["shape"]) if "shape" in value else made


def default_dtype(kind: str, backend: Backend) -> torch.dtype:
    """The element type of a kind where a value names none."""
    return {"float": backend.float_dtype, "int": backend.int_dtype, "bool": torch.bool}[kind]


def tensor_of(value: dict[str, Any], backend: Backend) -> Tensor[Any, Any, Any]:
    """The Tensor that a tensor value describes; a quantized one as what it dequantizes to."""
    check_value(value, "requires_grad", "quantize")
    scheme = scheme_of(value)
    dtype = dtype_named(value["dtype"]) if "dtype" in value else default_dtype(value["kind"], backend)
    inner = filled(value, dtype)
    if not 1 <= inner.ndim <= 8:
        raise UnknownError(f"a tensor value of rank {inner.ndim}")
    made: Any = Tensor(inner.to(backend.device), backend)
    if made.spec.kind is not KINDS[value["kind"]]:
        raise UnknownError(f"element type {value['dtype']!r} does not fit kind {value['kind']!r}")
    return made if scheme is None else made.quantize_dynamic(scheme).dequantize()


def scheme_of(value: dict[str, Any]) -> QuantScheme | None:
    """How the value is quantized first, None if it is not."""
    if "quantize" not in value:
        return None
    if value["kind"] != "float" or value["quantize"] not in QUANTIZED:
        raise UnknownError(f"unknown quantization {value['quantize']!r} of kind {value['kind']!r}")
    return QUANTIZED[value["quantize"]]
