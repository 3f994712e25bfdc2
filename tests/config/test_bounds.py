"""Every number of every shipped config has an upper bound, which the schema shows and a message explains."""

import math
from typing import Annotated, Any

import msgspec.inspect as mi
import pytest

from burnlike.config import Config, Meta, field
from burnlike.config.bounds import Finite, Size, at_most
from burnlike.config.registry import fields_of, load_built_in
from burnlike.errors import ConfigError
from burnlike.module import LoraConfig
from burnlike.train import TrainConfig

MAY_BE_INFINITE = {"threshold", "p"}  # of a clipping, which then clips nothing; of a norm, then the largest value


def descendants(cls: type) -> set[type]:
    return {it for below in cls.__subclasses__() for it in (below, *descendants(below))}


def numbers_in(wanted: mi.Type) -> list[Any]:
    if isinstance(wanted, mi.Metadata):
        return numbers_in(wanted.type)
    if isinstance(wanted, mi.IntType | mi.FloatType):
        return [wanted]
    below = [getattr(wanted, name, ()) for name in ("types", "item_types")]
    below += [[it] for name in ("item_type", "value_type") if (it := getattr(wanted, name, None))]
    return [number for types in below for it in types for number in numbers_in(it)]


def fields() -> list[tuple[type[Config], str]]:
    load_built_in()
    shipped = sorted((it for it in descendants(Config) if it.__module__.startswith("burnlike.")), key=str)
    assert LoraConfig in shipped
    return [(cls, name) for cls in shipped for name, it in fields_of(cls).items() if numbers_in(it.type)]


@pytest.mark.parametrize(("cls", "name"), fields(), ids=lambda it: getattr(it, "__name__", it))
def test_every_number_has_an_upper_bound(cls: type[Config], name: str) -> None:
    if name not in MAY_BE_INFINITE:
        for number in numbers_in(fields_of(cls)[name].type):
            assert number.le is not None or number.lt is not None


class Tile(Config):
    rows: Size
    columns: Annotated[int, Meta(ge=2), at_most(64, "the kernel's tile")] | None = None
    offset: Finite = 0.0
    offsets: list[Annotated[int, Meta(ge=0), at_most(9, "the page")]] = field(default_factory=list)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rows: 2147483648",
            "f:1:7: rows: expected at most 2147483647 (matrix products of BLAS count rows and columns",
        ),
        ("rows: 0", "f:1:7: rows: expected an int >= 1, got 0"),
        ("rows: x", "f:1:7: rows: expected an int >= 1, got 'x' (a string)"),
        ("rows: 3e9", "f:1:7: rows: expected an int >= 1, got 3e9 (a float); write 3000000000"),
        ("{rows: 1, columns: 65}", "f:1:20: columns: expected at most 64 (the kernel's tile), got 65"),
        ("{rows: 1, columns: 1}", "f:1:20: columns: expected an int >= 2 or null, got 1"),
        ("{rows: 1, offset: 2e18}", "f:1:19: offset: expected at most 1e+18 (the product of two larger numbers"),
        ("{rows: 1, offset: -2e18}", "f:1:19: offset: expected at least -1e+18 (the product of two larger numbers"),
        ("{rows: 1, offset: .inf}", "f:1:19: offset: expected a finite number, got .inf"),
        ("{rows: 1, offset: -.inf}", "f:1:19: offset: expected a finite number, got -.inf"),
        ("{rows: 1, offset: x}", "f:1:19: offset: expected a finite number, got 'x' (a string)"),
        ("{rows: 1, offsets: [9, 10]}", "f:1:24: offsets.1: expected at most 9 (the page), got 10"),
    ],
)
def test_a_message_gives_the_reason_where_the_bound_is_exceeded(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tile.from_yaml(text, "f")
    assert str(caught.value).startswith(message)


HUGE = {
    "threads": "100000000000",
    "model.d_model": str(2**62),
    "training.steps_per_epoch": "1" + "0" * 300,
    "training.batch_size": str(2**63 - 1),
    "training.epochs": "9" * 399,
    "task.sample_length": str(2**40),
    "model.n_layers": str(10**6),
}


@pytest.mark.parametrize("path", HUGE)
def test_huge_numbers_are_mistakes_with_a_reason(path: str) -> None:
    with pytest.raises(ConfigError, match=rf"{path}: expected at most \d+ \(.*\), got \d+"):
        TrainConfig.load("configs/char_gpt.yaml", [f"{path}={HUGE[path]}"])


def test_the_largest_numbers_are_taken() -> None:
    assert Tile(rows=2**31 - 1, columns=64).rows == 2**31 - 1
    assert math.isfinite(TrainConfig.load("configs/char_gpt.yaml", ["model.theta=1e18"]).model.theta)
