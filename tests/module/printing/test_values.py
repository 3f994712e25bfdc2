"""Constants of modules as text: every kind of value, and those that may be None."""

import dataclasses
import enum
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import pytest
import torch
from torch import nn

from burnlike import nn as layers
from burnlike.module import DisplaySettings, Module, display

from ..fields import Chosen, Fields


class Padding(enum.Enum):
    VALID = 1


class Mode(enum.StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Options:
    ratio: float
    hidden: int = dataclasses.field(default=1, repr=False)


class Point(NamedTuple):
    x: int
    y: float


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Nameless: ...


@pytest.mark.parametrize(
    ("value", "debug", "plain"),
    [
        (1.0, "1.0", "1"),
        (1e-5, "1e-5", "0.00001"),
        (0.1, "0.1", "0.1"),
        (1e-4, "0.0001", "0.0001"),
        (1.5e-7, "1.5e-7", "0.00000015"),
        (10000.0, "10000.0", "10000"),
        (1e16, "1e16", "10000000000000000"),
        (1e15, "1000000000000000.0", "1000000000000000"),
        (-0.0, "-0.0", "-0"),
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-inf", "-inf"),
        (np.float64(0.5), "0.5", "0.5"),
        (np.float32(0.5), "0.5", "0.5"),
        (7, "7", "7"),
        (True, "true", "true"),
        (None, "None", "None"),
        ('a "b"\n\\\x7fü', '"a \\"b\\"\\n\\\\\\u{7f}ü"', 'a "b"\n\\\x7fü'),
        ("x" * 300, f'"{"x" * 200}.."', "x" * 300),
        ([1, 1], "[1, 1]", "[1, 1]"),
        ((1, 2.0), "(1, 2.0)", "(1, 2.0)"),
        ((1,), "(1,)", "(1,)"),
        (torch.Size([2, 3]), "[2, 3]", "[2, 3]"),
        ({"a": 1e-5}, '{"a": 1e-5}', '{"a": 1e-5}'),
        ({"b", "a"}, '{"a", "b"}', '{"a", "b"}'),
        (set(range(100)), "{100 items}", "{100 items}"),
        (list(range(40)), f"[{', '.join(map(str, range(32)))}, ..]", f"[{', '.join(map(str, range(32)))}, ..]"),
        (Padding.VALID, "VALID", "VALID"),
        (Mode.FAST, "FAST", "FAST"),
        (Options(1.0), "Options { ratio: 1.0 }", "Options { ratio: 1.0 }"),
        (Point(1, 2.0), "Point { x: 1, y: 2.0 }", "Point { x: 1, y: 2.0 }"),
        (layers.Zeros(), "Zeros", "Zeros"),
        (layers.Uniform(min=0.0, max=1.0), "Uniform { min: 0.0, max: 1.0 }", "Uniform { min: 0.0, max: 1.0 }"),
        (torch.float32, "torch.float32", "torch.float32"),
        (torch.device("cpu"), "cpu", "cpu"),
        (Path("a/b"), '"a/b"', '"a/b"'),
        (torch.zeros(2, 3), "Tensor {rank: 2, shape: [2, 3]}", "Tensor {rank: 2, shape: [2, 3]}"),
        (np.zeros((2, 3)), "ndarray {rank: 2, shape: [2, 3]}", "ndarray {rank: 2, shape: [2, 3]}"),
        (torch.nn.functional.relu, "relu", "relu"),
        (functools.partial(print, 1), "functools.partial(<built-in function print>, 1)", None),
        (nn.Linear, "Linear", "Linear"),
        (Nameless(), "Nameless", "Nameless"),
        (Broken(), "Broken", "Broken"),
        ([Broken(), 1], "[Broken, 1]", "[Broken, 1]"),
        (b"ab", "b'ab'", "b'ab'"),
    ],
    ids=lambda value: str(type(value).__name__) if not isinstance(value, str | float) else repr(value)[:20],
)
def test_constants(value: Any, debug: str, plain: str | None) -> None:
    assert display(Fields(a=value), DisplaySettings(new_line_after_attribute=False)) == f"Fields {{a: {debug}}}"
    single = Chosen(lambda content: content.add_single(value))
    if plain is not None and not isinstance(value, torch.Tensor):
        assert display(single) == plain


def test_a_list_that_holds_itself_has_an_end() -> None:
    module = nn.Identity()
    module.items = [1]  # pyright: ignore[reportAttributeAccessIssue]
    module.items.append(module.items)  # pyright: ignore
    assert display(module) == "Identity {\n  items: [1, ..]\n}"


class Optionals(Module):
    union: int | None = None
    optional: Optional[int]  # noqa: UP045 - the older form is in users' programs
    text: "int | None"
    undefined: "NotImported | None"  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
    function: Callable[[], None]
    sure: int


class Inherited(Optionals):
    other: str | None


def test_a_value_that_may_be_none_is_shown_as_some() -> None:
    module = Inherited()
    for name in ("union", "optional", "text", "undefined", "function", "sure", "other"):
        setattr(module, name, 3)
    module.optional = None
    assert display(module, DisplaySettings(new_line_after_attribute=False)) == (
        "Inherited {union: Some(3), optional: None, text: Some(3), undefined: Some(3), function: 3, sure: 3, "
        "other: Some(3)}"
    )
