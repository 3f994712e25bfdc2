"""One record of a file as a case: run it on a backend and say whether the result is the expected one.

Rules beyond the README of the format:

* `{"error": "panics"}` passes only if burnlike raises a TensorError; every other exception is a failure. `message` is
  Burn's wording, burnlike has its own, so it is not compared.
* In a record that must fail, the operation itself raises, not one that calculates its operands.
* In a program that must fail, the last statement has to raise (or the backward pass of `loss`), no earlier one.
* `via: operator` runs the method and Python's operator; both must give the expected result.
* A quantized operand is the Float tensor that it dequantizes to.
* A result has the backend's element type of its kind unless the record names element types.
* A record named in `deviations.py` must NOT give Burn's result: the documented difference has to be there.
"""

import re
from dataclasses import dataclass
from typing import Any

from burnlike import Backend, Tensor
from burnlike.errors import TensorError

from .calls import apply, evaluate, operands, operate, perform
from .compare import Tolerance, inexact, mismatch, shape_fits, shown
from .deviations import DEVIATIONS
from .problems import UnknownError
from .program import Program
from .values import check_value

ABOUT = {
    "id",
    "family",
    "since",
    "checked",
    "check",
    "source",
    "rtol",
    "atol",
    "at_head",
    "torch_max_err",
    "note",
    "partial",
    "chain",
    "via",
    "duplicate_of",
    "expected_from",
    "random_concretised",
    "derived",
    "ignored_in_burn",
    "message",
}
OP_KEYS = ABOUT | {"op", "self", "args", "kwargs", "kind", "expected", "expected_len"}
PROGRAM_KEYS = ABOUT | {"program", "inputs", "expected_grads", "loss_shape", "expected"}
NAMES_DTYPES = re.compile(r"[\"'.](f64|f32|f16|bf16|[iu](64|32|16|8)|dtype|default)\b|DType")


@dataclass
class Outcome:
    """What became of a case.

    Attributes:
        verdict: `passed` or `failed`.
        reason: of a failure.
    """

    verdict: str
    reason: str = ""


class Failure(Exception):
    """The result is not the expected one."""


def name_of(record: Any, index: int) -> str:
    """The id of a record, or its number."""
    found = record.get("id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else f"record {index}"


def is_program(record: Any) -> bool:
    """Whether a record is of the second schema."""
    return isinstance(record, dict) and "program" in record


def run(record: Any, backend: Backend) -> Outcome:
    """Run one record on one backend. Never raises."""
    try:
        check_record(record)
        if is_program(record):
            run_program(record, backend)
        else:
            run_operation(record, backend)
    except Failure as failure:
        return deviating(record) or Outcome("failed", str(failure))
    except UnknownError as unknown:
        return Outcome("failed", f"the runner does not know this: {unknown}")
    except TensorError as error:
        return deviating(record) or Outcome("failed", f"expected {wanted(record)}, got {type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("failed", f"expected {wanted(record)}, got {type(error).__name__}: {error}")
    if record["id"] in DEVIATIONS:
        return Outcome("failed", "documented as a deviation, but it gives Burn's result")
    return Outcome("passed")


def deviating(record: dict[str, Any]) -> Outcome | None:
    """A pass for a record that by design does not give Burn's result."""
    reason = DEVIATIONS.get(record["id"])
    return None if reason is None else Outcome("passed", f"deviates as documented: {reason}")


def check_record(record: Any) -> None:
    """Refuse a record of neither schema, with an unknown key, or without a needed one."""
    if not isinstance(record, dict) or not ("op" in record or "program" in record):
        raise UnknownError("a record of neither schema: no 'op' and no 'program'")
    known = PROGRAM_KEYS if is_program(record) else OP_KEYS
    unknown = record.keys() - known
    if unknown:
        raise UnknownError(f"unknown key {sorted(unknown)[0]!r}")
    needed = ("id", "program", "inputs") if is_program(record) else ("id", "op", "self", "args", "expected")
    for key in needed:
        if key not in record:
            raise UnknownError(f"the key {key!r} is missing")
    if record.get("via", "operator") != "operator":
        raise UnknownError(f"unknown flag via: {record['via']!r}")
    if not isinstance(record["id"], str) or not isinstance(record.get("args", []), list):
        raise UnknownError("'id' is a string and 'args' a list")


def wanted(record: dict[str, Any]) -> str:
    """The expectation in a message."""
    text = str(record.get("expected", record.get("expected_grads")))
    return text if len(text) < 300 else text[:300] + " ..."


def must_fail(expected: Any) -> bool:
    """Whether an error is expected."""
    if not isinstance(expected, dict) or "error" not in expected:
        return False
    if expected["error"] != "panics" or expected.keys() - {"error", "message"}:
        raise UnknownError(f"unknown expectation {expected!r}")
    return True


def tolerance_of(record: dict[str, Any], loose: bool) -> Tolerance:
    """The record's tolerances."""
    rtol, atol = record.get("rtol", 0.0), record.get("atol", 0.0)
    if not all(isinstance(it, int | float) and not isinstance(it, bool) and it >= 0 for it in (rtol, atol)):
        raise UnknownError(f"tolerances rtol={rtol!r}, atol={atol!r}")
    return Tolerance(rtol, atol, loose)


def ops_in(node: Any) -> set[str]:
    """Every operation that a record names."""
    if isinstance(node, list):
        return set().union(*map(ops_in, node))
    if not isinstance(node, dict):
        return set()
    own = {node["op"]} if isinstance(node.get("op"), str) else set()
    return own.union(*map(ops_in, node.values()))


def run_operation(record: dict[str, Any], backend: Backend) -> None:
    """A record of the first schema."""
    expected = record["expected"]
    call = {key: record[key] for key in ("op", "self", "args", "kwargs", "kind") if key in record}
    if must_fail(expected):
        try:
            receiver, args = operands(call, backend)
        except TensorError as error:
            raise Failure(f"expected a TensorError of {record['op']}, but an operand of it raised: {error}") from error
        try:
            got = apply(call, receiver, args, backend)
        except TensorError:
            return
        if not isinstance(got, TensorError):  # the `try_` forms return it
            raise Failure(f"expected a TensorError, got {shown(got)}")
        return
    check_result(record, call, perform(call, backend))
    if "via" in record:
        check_result(record, call, operate(call, backend))


def check_result(record: dict[str, Any], call: dict[str, Any], got: Any) -> None:
    """Compare what an operation returned with the record."""
    expected = record["expected"]
    if isinstance(expected, list) and isinstance(got, list | tuple):
        length = record.get("expected_len", None if record.get("partial") else len(expected))
        if length is not None and len(got) != length:
            raise Failure(f"expected {length} results, got {len(got)}")
    strict = not NAMES_DTYPES.search(str(call))
    tolerance = tolerance_of(record, any(map(inexact, ops_in(call))))
    fault = mismatch(got, expected, tolerance, strict_dtype=strict)
    if fault:
        raise Failure(fault)


def run_program(record: dict[str, Any], backend: Backend) -> None:
    """A record of the second schema, on a backend that tracks."""
    inputs = {name: input_of(value, backend) for name, value in record["inputs"].items()}
    program = Program(record["program"], inputs, backend)
    failing = must_fail(record.get("expected"))
    for statement in program.statements[:-1]:
        program.run(statement)
    try:
        program.run(program.statements[-1])
        loss = program.names.get("loss")
        gradients = None if failing and not isinstance(loss, Tensor) else loss_of(loss, record).backward()
    except TensorError:
        if failing:
            return
        raise
    if failing:
        raise Failure("expected a TensorError of the last statement, got none")
    tolerance = tolerance_of(record, loose=True)
    if not isinstance(record.get("expected_grads"), dict):
        raise UnknownError("'expected_grads' is missing")
    for name, expected in record["expected_grads"].items():
        if name not in program.names:
            raise UnknownError(f"a gradient of the unknown name {name!r}")
        fault = gradient_mismatch(program.names[name].grad(gradients), expected, tolerance)
        if fault:
            raise Failure(f"gradient of {name}: {fault}")


def input_of(value: Any, backend: Backend) -> Any:
    """An input, tracked if it says so."""
    made = evaluate(value, backend)
    tracked = value.get("requires_grad", False)
    if not isinstance(tracked, bool):
        raise UnknownError(f"requires_grad: {tracked!r}")
    return made.require_grad() if tracked else made


def loss_of(loss: Any, record: dict[str, Any]) -> Any:
    """The value to differentiate, of the expected shape."""
    if not isinstance(loss, Tensor):
        raise UnknownError("the program assigns no tensor to 'loss'")
    shape = record.get("loss_shape")
    if shape is not None and not shape_fits(list(loss.inner.shape), shape):
        raise Failure(f"expected a loss of shape {shape}, got {shown(loss)}")
    return loss


def gradient_mismatch(got: Any, expected: Any, tolerance: Tolerance) -> str | None:
    """A gradient against nested lists, a value without kind, or null for none."""
    if expected is None:
        return None if got is None else f"expected none, got {shown(got)}"
    if got is None:
        return "expected one, got none"
    form = {"data": expected} if isinstance(expected, list) else expected
    if not isinstance(form, dict):
        raise UnknownError(f"unknown form of gradient {expected!r}")
    form = {"kind": "float", **form}
    check_value(form)
    return mismatch(got, form, tolerance)
