import enum
import math
from typing import Annotated, Literal

import pytest

from burnlike.config import Config, Meta
from burnlike.config.json_schema import json_schema
from burnlike.errors import ConfigError
from burnlike.module import LoraConfig
from burnlike.train import OutputConfig

from .samples import Box, Circle, Color, Dot, Everything, Group, Pair, Shape

SHAPES = "one of 'Box', 'Circle', 'Dot', 'Group'"

ONE_MISTAKE = {
    # the value
    "string for int": ("count: x", "1:8: count: expected an int, got 'x' (a string)"),
    "float for int": ("count: 3.0", "1:8: count: expected an int, got 3.0 (a float); write 3"),
    "exponent for int": ("count: 1e4", "1:8: count: expected an int, got 1e4 (a float); write 10000"),
    "half for int": ("count: 1.5", "1:8: count: expected an int, got 1.5 (a float)"),
    "bool for int": ("count: true", "1:8: count: expected an int, got true"),
    "null for int": ("count: null", "1:8: count: expected an int, got null"),
    "nothing for int": ("count:\nratio: 1", "1:7: count: expected an int, got nothing"),
    "quoted int": ("count: '3'", "1:8: count: expected an int, got '3' (a string); remove the quotes"),
    "list for int": ("count: [1, 2]", "1:8: count: expected an int, got a list of 2 items"),
    "mapping for int": ("count: {a: 1}", "1:8: count: expected an int, got a mapping"),
    "leading zero": (
        "count: 0123",
        "1:8: count: expected an int, got '0123' (a string); a leading zero is ambiguous, write 123 or 0o123",
    ),
    "bool for float": ("ratio: false", "1:8: ratio: expected a number, got false"),
    "infinity without a dot": ("ratio: -inf", "1:8: ratio: expected a number, got '-inf' (a string); write -.inf"),
    "int too large for float": ("ratio: 1" + "0" * 350, "1:8: ratio: expected a number, got 1"),
    "yes for bool": ("on: yes", "1:5: on: expected true or false, got 'yes' (a string); write true"),
    "off for bool": ("on: Off", "1:5: on: expected true or false, got 'Off' (a string); write false"),
    "int for bool": ("on: 1", "1:5: on: expected true or false, got 1 (an int)"),
    "int for string": ("text: 012.5", '1:7: text: expected a string, got 012.5 (a float); put it in quotes: "012.5"'),
    "bool for string": ("text: True", '1:7: text: expected a string, got True; put it in quotes: "True"'),
    "null for string": ("text: ~", '1:7: text: expected a string, got null; put it in quotes: "~"'),
    "string out of pattern": (
        "code: aB",
        "1:7: code: expected a string of 2 to 4 characters matching /^[a-z]+$/, got 'aB'",
    ),
    "string too long": (
        "code: abcde",
        "1:7: code: expected a string of 2 to 4 characters matching /^[a-z]+$/, got 'abcde'",
    ),
    "out of range": ("maybe: -1", "1:8: maybe: expected an int >= 0 or null, got -1"),
    "None for null": ("maybe: None", "1:8: maybe: expected an int >= 0 or null, got 'None' (a string); write null"),
    "no such choice": (
        "mode: fst",
        "1:7: mode: expected one of 3, 'fast', 'slow', got 'fst'; did you mean 'fast'?",
    ),
    "choice of another type": ("mode: 3.0", "1:7: mode: expected one of 3, 'fast', 'slow', got 3.0 (a float)"),
    "no such member": ("color: gren", "1:8: color: expected 'red' or 'green', got 'gren'; did you mean 'green'?"),
    "name of a member": ("color: RED", "1:8: color: expected 'red' or 'green', got 'RED'; did you mean 'red'?"),
    "scalar for list": ("sizes: 3", "1:8: sizes: expected a list (each an int), got 3 (an int); write [3]"),
    "wrong item": ("sizes: [1, x]", "1:12: sizes.1: expected an int, got 'x' (a string)"),
    "tuple too short": (
        "betas: [0.9]",
        "1:8: betas: expected a list of 2 items (a number, a number), got a list of 1 item",
    ),
    "list too long": (
        "tags: [a, b, c]",
        "1:7: tags: expected a list of at most 2 items (each a string), got a list of 3 items",
    ),
    "wrong value of a table": ("table: {a: x}", "1:12: table.a: expected a number, got 'x' (a string)"),
    "list for table": ("table: [1]", "1:8: table: expected a mapping (each value a number), got a list of 1 item"),
    "wrong item in a union": ("mixed: [x]", "1:9: mixed.0: expected an int, got 'x' (a string)"),
    "nothing of a union": (
        "mixed: true",
        "1:8: mixed: expected an int or a number or a string or a list (each an int), got true",
    ),
    # keys
    "unknown key": ("cuont: 3", "1:1: cuont: unknown key 'cuont'; did you mean 'count'?"),
    "unknown key like none": (
        "box: {width: 3, zzz: 1}",
        "1:17: box.zzz: unknown key 'zzz'; Box has width, height",
    ),
    "key that is there already": (
        "{box: {width: 3, widht: 1}}",
        "1:18: box.widht: unknown key 'widht'; Box has width, height",
    ),
    "unprintable key": (
        '"a\\nb": 1',
        "1:1: a\\nb: unknown key 'a\\nb'; Everything has count, ratio, on, text, code, maybe, mode, color, sizes, "
        "betas, tags, table, mixed, anything, shape, box",
    ),
    "missing key": ("box: {}", "1:6: box: missing key 'width'; expected an int from 1 to 64"),
    # types
    "no type": ("shape: {radius: 1}", f"1:8: shape: missing key 'type'; expected {SHAPES}"),
    "unknown type": (
        "shape: {type: Circel}",
        "1:15: shape.type: unknown type 'Circel'; did you mean 'Circle'? "
        "A class of your own comes in by --import MODULE",
    ),
    "unknown type like none": (
        "shape: {type: Zzz}",
        f"1:15: shape.type: unknown type 'Zzz'; a Shape is due: {SHAPES}; "
        "a class of your own comes in by --import MODULE",
    ),
    "type of another role": (
        "shape: {type: Sound}",
        f"1:15: shape.type: 'Sound' is a type of Other; a Shape is due: {SHAPES}",
    ),
    "number as type": ("shape: {type: 3}", f"1:15: shape.type: expected {SHAPES}, got 3 (an int)"),
    "type without mapping": (
        "shape: Dot",
        f"1:8: shape: expected a mapping with `type:` ({SHAPES}), got 'Dot' (a string); write {{type: Dot}}",
    ),
    "another class where one is due": (
        "box: {type: Circle, radius: 1}",
        "1:13: box.type: 'Circle' is a type of Shape; a Box is due: 'Box'",
    ),
    "scalar for a class": (
        "box: 3",
        "1:6: box: expected a mapping with keys of Box (width, height) or null, got 3 (an int)",
    ),
    # rules across fields
    "rule": ("box:\n  height: 4\n  width: 2\n", "2:11: box.height: expected at most width (2), got 4"),
    "rule about a default": ("box:\n  width: 1\n", "2:3: box.height: expected at most width (1), got 2"),
    "list as root": (
        "- 1",
        "1:1: expected a mapping with keys of Everything (count, ratio, on, text, code, maybe, mode, color, sizes, "
        "betas, tags, table, mixed, anything, shape, box), got a list of 1 item",
    ),
}


def mistakes(cls: type[Config], text: str, **options) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        cls.from_yaml(text, "f.yaml", **options)
    return str(caught.value).split("\n")


@pytest.mark.parametrize("case", ONE_MISTAKE)
def test_one_mistake_is_one_line(case):
    text, expected = ONE_MISTAKE[case]
    (line,) = mistakes(Everything, text)
    if case == "int too large for float":
        assert line.startswith(f"f.yaml:{expected}")
        assert len(line) < 150
    else:
        assert line == f"f.yaml:{expected}"


def test_five_different_mistakes_are_five_lines_in_the_order_of_the_file():
    text = "\n".join(
        [
            "first: {type: Group, members: [{type: Box, width: 99}]}",
            "second_vlaue: 3",
            "first: {type: Dot}",
            "third: !!python/name:os.system x",
        ]
    )
    assert mistakes(Pair, text) == [
        "f.yaml:1:51: first.members.0.width: expected an int from 1 to 64, got 99",
        "f.yaml:2:1: second_vlaue: unknown key 'second_vlaue'; did you mean 'second_value'?",
        "f.yaml:3:1: first: duplicate key 'first'; it stands first in line 1: remove one",
        "f.yaml:4:1: third: unknown key 'third'; Pair has first, second_value",
        "f.yaml:4:8: third: the tag !!python/name:os.system is not allowed: a config is plain data, so write the value "
        "without it",
    ]


def test_a_misspelled_required_key_is_not_also_missing_but_others_are():
    assert mistakes(Pair, "frst: {type: Dot}") == [
        "f.yaml:1:1: frst: unknown key 'frst'; did you mean 'first'?",
        "f.yaml:1:1: missing key 'second_value'; expected an int >= 0",
    ]


def test_a_missing_key_says_which_types_are_allowed():
    assert mistakes(Pair, "second_value: 1") == [
        f"f.yaml:1:1: missing key 'first'; expected a mapping with `type:` ({SHAPES})"
    ]


def test_a_mistake_that_an_alias_repeats_is_reported_for_each_path():
    text = "first: {type: Group, members: [&a {type: Box, width: 0}, *a]}\nsecond_value: 1"
    assert [line.split(": ")[1] for line in mistakes(Pair, text)] == [
        "first.members.0.width",
        "first.members.1.width",
    ]


def test_reading_stops_after_a_bounded_number_of_mistakes():
    for text in ("\n".join(f"key{i}: 1" for i in range(5000)), "count: 1\n" * 5000, "a: !x 1\n" * 150):
        lines = mistakes(Everything, text)
        assert len(lines) == 201
        assert lines[-1].endswith(": stopped after 200 mistakes")


def test_values_of_every_type():
    text = """
count: 50_000
ratio: 1
on: true
text: no
code: abc
maybe: 0
mode: 3
color: green
sizes: [1, 0x10]
betas: [1, .5]
tags: ["1", x]
table: {no: 1, b: -.inf}
mixed: 1.0
anything: {a: [1, null, {b: x}]}
shape: {type: Group, members: [{type: Dot}, {type: Circle, radius: 1e-4}], frame: {width: 2}}
box: {type: Box, width: 3}
"""
    config = Everything.from_yaml(text)
    assert config == Everything(
        count=50000,
        ratio=1.0,
        on=True,
        text="no",
        code="abc",
        maybe=0,
        mode=3,
        color=Color.GREEN,
        sizes=[1, 16],
        betas=(1.0, 0.5),
        tags=("1", "x"),
        table={"no": 1.0, "b": -math.inf},
        mixed=1.0,
        anything={"a": [1, None, {"b": "x"}]},
        shape=Group(members=[Dot(), Circle(radius=1e-4)], frame=Box(width=2)),
        box=Box(width=3),
    )
    assert type(config.ratio) is float
    assert type(config.mixed) is float
    assert type(config.betas[0]) is float
    assert type(Everything.from_yaml("mixed: 1").mixed) is int
    assert type(Everything.from_yaml("mixed: '1'").mixed) is str


def test_the_root_may_be_a_role_and_then_needs_a_type():
    assert Shape.from_yaml("{type: Circle, radius: 2}") == Circle(radius=2)
    assert mistakes(Shape, "radius: 2") == [f"f.yaml:1:1: missing key 'type'; expected {SHAPES}"]


def test_a_tagged_root_may_leave_its_type_out():
    assert Circle.from_yaml("radius: 2") == Circle.from_yaml("{type: Circle, radius: 2}")
    assert mistakes(Circle, "type: Dot") == ["f.yaml:1:7: type: 'Dot' is a type of Shape; a Circle is due: 'Circle'"]


class Kind(enum.Enum):
    BF16 = "bfloat16"


class Stored(Config):
    precision: Literal["bfloat16", "float16", "float32", "auto"] = "auto"
    short: Literal["f64", "i8"] | None = None
    kind: Kind | None = None
    mode: Literal["half", "fast"] = "fast"


def test_element_types_have_two_names_everywhere():
    for name in ("bfloat16", "bf16"):
        assert Stored(precision=name).precision == Stored.from_yaml(f"precision: {name}").precision == "bfloat16"
        assert Stored.from_yaml("{}", overrides=[f"kind={name}"]).kind is Kind.BF16
    assert Stored(short="float64").short == "f64"
    assert Stored.from_yaml("short: int8").short == "i8"
    assert OutputConfig(precision="f32").precision == "float32"
    assert LoraConfig(rank=1, alpha=1, dtype="f16").dtype == "float16"
    with pytest.raises(
        ConfigError, match="precision: expected one of 'auto', 'bfloat16', 'float16', 'float32', got 'f64'"
    ):
        Stored(precision="f64")
    with pytest.raises(ConfigError, match="mode: expected 'fast' or 'half', got 'f16'"):
        Stored(mode="f16")
    schema = json_schema(Stored)["definitions"]["Stored"]["properties"]
    assert sorted(schema["precision"]["anyOf"][0]["enum"]) == sorted(
        ["bfloat16", "bf16", "float16", "f16", "float32", "f32", "auto"]
    )


class Rated(Config):
    rate: float = 1
    window: tuple[float, float] = (0, 1)
    names: list[str] = []  # noqa: RUF012 - msgspec makes one for each
    depth: int = -1


class Deep(Config):
    depth: Annotated[int, Meta(ge=1)] = 0


def test_a_default_has_exactly_the_type_of_the_field() -> None:
    """Of a config from a file, whose values are not checked again, and of one that a program makes."""
    for config in (Rated.from_yaml("depth: 3"), Rated(depth=3), Rated(rate=1, window=(0, 1), depth=3)):
        assert repr(config) == "Rated(rate=1.0, window=(0.0, 1.0), names=[], depth=3)"
    assert Rated().names is not Rated().names
    assert Rated.from_yaml("{}").names is not Rated.from_yaml("{}").names


def test_a_default_that_does_not_fit_is_a_mistake_of_each_config_without_that_key() -> None:
    for _ in range(2):
        assert mistakes(Deep, "{}") == ["f.yaml:1:1: depth: expected an int >= 1, got 0"]
        with pytest.raises(ConfigError, match=r"^Deep: depth: expected an int >= 1, got 0$"):
            Deep()
    assert Deep.from_yaml("depth: 1") == Deep(depth=1)


def test_configs_that_are_made_while_a_file_is_read_check_themselves() -> None:
    """`__post_init__` leaves out only the fields of the struct that the reader makes."""
    copies = []

    class Inner(Config):
        size: Annotated[int, Meta(ge=1)] = 1

    class Outer(Config):
        size: Annotated[int, Meta(ge=1)]

        def validate(self):
            with pytest.raises(ConfigError, match="Inner: size: expected an int >= 1, got 0"):
                Inner(size=0)
            return ()

        def __post_init__(self):
            super().__post_init__()
            if self.size == 2:
                with pytest.raises(ConfigError, match="Outer: size: expected an int >= 1, got 0"):
                    self.replace(size=0)
                copies.append(self.replace(size=3))

    assert Outer.from_yaml("size: 2").size == 2
    assert [copy.size for copy in copies] == [3]
    with pytest.raises(ConfigError, match="Outer: size: expected an int >= 1, got 0"):
        Outer(size=0)


def test_an_error_of_a_rule_without_a_place_has_that_of_the_mapping() -> None:
    class Ruled(Config):
        size: int = 1

        def validate(self):
            raise ConfigError("two classes have the type 'X'")

    assert mistakes(Ruled, "size: 2") == ["f.yaml:1:1: two classes have the type 'X'"]
