"""One record of a layer or a loss as a case: run it in a world and say whether it does what is expected.

Rules beyond the README of the format:

* `{"error": "panics"}` passes only if burnlike raises an error of its own. Wordings are burnlike's, so they are not
  compared. A config that must fail at `init` may be refused earlier, by the config; a call that must fail has a layer
  that can be built.
* Where a record doesn't say so, the layer is in evaluation mode.
* `reference_value` and `derived_expected`, the numbers that the formula gives, are compared as well.
* A record with gradients runs on backends that track.
* A record named in `deviations.py` must NOT give Burn's result.
"""

from collections.abc import Callable, Iterator
from typing import Any

from burnlike.errors import BurnlikeError

from ..cases import Outcome, deviating, must_fail
from ..compare import brief
from ..deviations import CHANGED_IN_0_22, DEVIATIONS
from ..problems import UnknownError
from .expectations import Failure, check
from .registry import CALLS, PROPERTIES, WITHOUT_INPUTS
from .results import Result
from .subject import Subject
from .worlds import World, worlds_on

ABOUT = {"source", "origin", "checked", "max_abs_diff", "note", "head_only", "since", "fan", "logits"}
CHECKED = {"id", "module", "config", "inputs", "call", "expected", "rtol", "atol"}
OPTIONAL = {"params", "args", "dtypes", "mode", "reduction", "setup", "reference_value", "derived_expected"}
OPTIONAL |= {"derived_tensor", "also", "also_via"}


def is_module(record: Any) -> bool:
    """Whether a record is about a layer or a loss."""
    return isinstance(record, dict) and "module" in record


def outcomes(record: dict[str, Any], device: str) -> Iterator[tuple[str, Outcome]]:
    """Run a record in each world on a device: its name, and what became of the record."""
    worlds = worlds_on(device)
    if not worlds:
        yield "", Outcome("skipped", "no CUDA device")
    call = record.get("call")
    for world in worlds[:1] if call in WITHOUT_INPUTS else worlds:
        if world.tracks or "backward" not in str(call):
            yield f" on {world.name}", run(record, world)


def run(record: dict[str, Any], world: World) -> Outcome:
    """Run one record in one world. Never raises."""
    try:
        check_keys(record)
        perform(Subject(as_of_0_22(record), world))
    except Failure as failure:
        return deviating(record) or Outcome("failed", str(failure))
    except UnknownError as unknown:
        return Outcome("failed", f"the runner does not know this: {unknown}")
    except BurnlikeError as error:
        return deviating(record) or Outcome("failed", f"{expecting(record)}, got {type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("failed", f"{expecting(record)}, got {type(error).__name__}: {error}")
    if record["id"] in DEVIATIONS:
        return Outcome("failed", "documented as a deviation, but it gives Burn's result")
    return Outcome("passed")


def expecting(record: dict[str, Any]) -> str:
    """The expectation in a message."""
    return f"expected {brief(record.get('expected'))}"


def check_keys(record: dict[str, Any]) -> None:
    """Refuse a record with an unknown key, or without a needed one."""
    if unknown := record.keys() - ABOUT - CHECKED - OPTIONAL:
        raise UnknownError(f"unknown key {sorted(unknown)[0]!r}")
    if missing := CHECKED - record.keys():
        raise UnknownError(f"the key {sorted(missing)[0]!r} is missing")
    if not isinstance(record["id"], str):
        raise UnknownError("'id' is a string")
    if not all(type(record[key]) in (int, float) and record[key] >= 0 for key in ("rtol", "atol")):
        raise UnknownError(f"tolerances rtol={record['rtol']!r}, atol={record['atol']!r}")


def as_of_0_22(record: dict[str, Any]) -> dict[str, Any]:
    """The record with what Burn 0.22 gives, where that is something else."""
    changed = CHANGED_IN_0_22.get(record["id"])
    return record if changed is None else {**record, "expected": changed[1]}


def perform(subject: Subject) -> None:
    """Run the record's call and compare what it gives."""
    record = subject.record
    if must_fail(record["expected"]):
        fails(subject)
    else:
        check(record, call_of(record)(subject))


def fails(subject: Subject) -> None:
    """Check that the call, no earlier step, raises an error of burnlike's own."""
    call = call_of(subject.record)
    if subject.record["call"] == "forward":
        subject.layer()
    try:
        call(subject)
    except BurnlikeError:
        return
    raise Failure("expected an error, got none")


def call_of(record: dict[str, Any]) -> Callable[[Subject], Result]:
    """What runs a record: for an expectation in words it checks that, too."""
    name, expected = record["call"], record["expected"]
    if not isinstance(expected, dict) or "property" not in expected:
        if name not in CALLS:
            raise UnknownError(f"unknown call {name!r}")
        return CALLS[name]
    text = expected["property"]
    if (name, text) not in PROPERTIES:
        raise UnknownError(f"unknown property {text!r} of {name!r}")
    return PROPERTIES[name, text]
