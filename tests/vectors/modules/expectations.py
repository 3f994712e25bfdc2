"""Compare what a call gave with what the record expects."""

from typing import Any

import torch

from ..compare import Tolerance, brief, data_mismatch
from ..problems import UnknownError
from ..values import number
from .inputs import leaves
from .results import Result

CLOSE = Tolerance(1e-5, 1e-6)
"""For numbers of float32 that a formula gave."""


class Failure(Exception):
    """The result is not the expected one."""


def check(record: dict[str, Any], result: Result) -> None:
    """Compare all that the record expects, but for properties.

    Raises:
        Failure: something differs.
        UnknownError: an expectation has an unknown form.
    """
    expected = record["expected"]
    tolerance = Tolerance(record["rtol"], record["atol"])
    if isinstance(expected, list):
        same(result.single(), expected, tolerance, "the output")
    elif isinstance(expected, dict):
        for key, value in expected.items():
            check_entry(key, value, result, tolerance)
    else:
        raise UnknownError(f"unknown expectation {expected!r}")
    for key in ("reference_value", "derived_expected"):
        if key in record:
            same(result.tensor(OF_KEY.get(record["call"], "output")), record[key], CLOSE, key)


OF_KEY = {"train forward; valid(); forward; train(); forward": "valid"}
"""What a `reference_value` is of, where it isn't the output."""


def check_entry(key: str, value: Any, result: Result, tolerance: Tolerance) -> None:
    """Compare one entry of an expectation."""
    match key:
        case "property":  # its own function has checked it
            return
        case "display":
            if result.text != value:
                raise Failure(f"expected the text\n{value}\ngot\n{result.text}")
        case "shape":
            same_sizes(list(result.single().shape), value)
        case "value":
            same_value(result.values.get("value"), value, tolerance)
        case "all_derived":
            wanted = torch.full_like(result.single(), value).tolist()
            same(result.single(), wanted, Tolerance(1e-5, 1e-6), "the output")
        case "derived_value":
            same(result.single(), value, tolerance, "the output")
        case "outputs":
            for name, wanted in value.items():
                same_value(result.named(name), wanted, tolerance, name)
        case "config_default_initializer":
            if not result.values["default_initializer"](value):
                raise Failure(f"expected the initializer {value}")
        case _ if isinstance(value, dict):
            check_values(result.tensor(key), value, tolerance, key)
        case _:
            raise UnknownError(f"unknown expectation {key!r}")


def check_values(tensor: torch.Tensor, expected: dict[str, Any], tolerance: Tolerance, name: str) -> None:
    """Compare an initialized parameter: its shape, its range (half open), or the value of all."""
    if unknown := expected.keys() - {"shape", "range", "all"}:
        raise UnknownError(f"unknown expectation {sorted(unknown)[0]!r} of {name}")
    if "shape" in expected:
        same_sizes(list(tensor.shape), expected["shape"], name)
    if "range" in expected:
        low, high = expected["range"]
        if not bool(((tensor >= low) & (tensor < high)).all()):
            raise Failure(f"{name}: expected numbers in [{low}, {high}), got {brief(tensor.tolist())}")
    if "all" in expected:
        same(tensor, torch.full_like(tensor, expected["all"]).tolist(), tolerance, name)


def same(tensor: torch.Tensor, expected: Any, tolerance: Tolerance, name: str) -> None:
    """Compare the numbers of a tensor with nested lists; a reduced loss may have no dimension."""
    if tensor.ndim == 0 and isinstance(expected, list):
        tensor = tensor.reshape(1)
    kind = "bool" if tensor.dtype is torch.bool else "float" if tensor.is_floating_point() else "int"
    wanted = as_floats(expected) if kind == "float" else expected
    fault = data_mismatch(tensor, {"kind": kind, "data": wanted}, tolerance)
    if fault:
        raise Failure(f"{name}: {fault}")


def as_floats(value: Any) -> Any:
    """Nested lists of numbers, whole ones too, as floats; bools are none."""
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return value if isinstance(value, bool) else float(number(value))


def same_sizes(got: list[int], expected: list[int], name: str = "the output") -> None:
    """Compare a shape."""
    if got != expected:
        raise Failure(f"{name}: expected the shape {expected}, got {got}")


def same_value(got: Any, expected: Any, tolerance: Tolerance, name: str = "the value") -> None:
    """Compare a tensor, or plain values: numbers, bools, lists and maps of them."""
    if isinstance(got, torch.Tensor):
        return same(got, expected, tolerance, name)
    plain = [*got.values()] if isinstance(got, dict) else listed(got)
    wanted = [*expected.values()] if isinstance(expected, dict) else expected
    keys = [*got] if isinstance(got, dict) else None, [*expected] if isinstance(expected, dict) else None
    if keys[0] != keys[1] or [type(it) for it in leaves(plain)] != [type(it) for it in leaves(wanted)]:
        raise Failure(f"{name}: expected {expected!r}, got {got!r}")
    if plain != wanted:
        raise Failure(f"{name}: expected {expected!r}, got {got!r}")
    return None


def listed(value: Any) -> Any:
    """Tuples as lists."""
    return [listed(item) for item in value] if isinstance(value, list | tuple) else value
