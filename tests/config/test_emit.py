import math
import random

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from burnlike.config import Config
from burnlike.config.document import parse
from burnlike.config.emit import to_yaml

from .samples import Box, Circle, Color, Dot, Everything, Group, Sound
from .test_document import plain

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    [
        "no",
        "1e-4",
        "50_000",
        "0777",
        "~",
        "",
        " a",
        "a ",
        "a\nb\n",
        "\n",
        "- a",
        "a: b",
        "#a",
        "12:30:00",
        "<<",
        "=",
        "!x",
    ]
)
floats = st.floats(allow_nan=False)
keys = texts
data = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
boxes = st.builds(Box, width=st.integers(2, 64))
shapes = st.recursive(
    st.just(Dot()) | boxes | st.builds(Circle, radius=st.floats(0, exclude_min=True), name=texts),
    lambda inner: st.builds(Group, members=st.lists(inner, min_size=1, max_size=3), frame=st.none() | boxes),
    max_leaves=6,
)
everything = st.builds(
    Everything,
    count=st.integers(-(10**30), 10**30),
    ratio=floats,
    on=st.booleans(),
    text=texts,
    maybe=st.none() | st.integers(0),
    mode=st.sampled_from(["slow", "fast", 3]),
    color=st.sampled_from(list(Color)),
    sizes=st.lists(st.integers(), max_size=5),
    betas=st.tuples(floats, floats),
    tags=st.lists(texts, max_size=2),
    table=st.dictionaries(texts, floats, max_size=4),
    mixed=st.integers() | floats | texts | st.lists(st.integers(), max_size=3),
    anything=data,
    shape=shapes,
    box=st.none() | boxes,
)


def types_of(value):
    if isinstance(value, Config):
        return {name: types_of(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: types_of(item) for key, item in value.items()}
    return [types_of(item) for item in value] if isinstance(value, list | tuple) else type(value)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(everything)
def test_a_config_written_and_read_is_the_same(config):
    again = Everything.from_yaml(config.to_yaml())
    assert again == config
    assert types_of(again) == types_of(config)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(texts)
@example("\ufeff")
@example("\x85\u2028")
@example("a\tb\n c\n")
@example("\x00\x1b")
@example("9" * 500)
def test_any_string_survives(text):
    node, problems = parse(to_yaml({"a": text, "b": {text: [text]}}), "f")
    assert not problems
    assert plain(node) == {"a": text, "b": {text: [text]}}


def test_floats_survive_to_the_last_bit():
    numbers = random.Random(0)
    values = [math.ldexp(numbers.random(), numbers.randrange(-1070, 1023)) for _ in range(2000)]
    values += [0.1, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, -0.0]
    found = plain(parse(to_yaml(values), "f")[0])
    assert [value.hex() for value in found] == [value.hex() for value in values]
    assert math.isnan(plain(parse(to_yaml([math.nan]), "f")[0])[0])


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1e-5, "b": [1e300, 0.5, 3], "c": ["no", "on", "12:30:00", "2024-01-31", "1_0", "~", "0x1"]},
        {"no": {"1": "x", "true": None}, "empty": {}, "none": []},
    ],
)
def test_other_yaml_readers_see_the_same(value):
    assert yaml.safe_load(to_yaml(value)) == value


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.dictionaries(texts, data, max_size=5))
def test_a_reader_of_yaml_1_1_sees_the_same(value):
    assert yaml.safe_load(to_yaml(value)) == value


def test_the_text_is_for_people():
    config = Group(members=[Circle(radius=1e-4, name="1e-4"), Dot()], frame=Box(width=3))
    assert config.to_yaml() == (
        "type: Group\n"
        "members:\n"
        "  - type: Circle\n"
        "    radius: 0.0001\n"
        "    name: '1e-4'\n"
        "  - type: Dot\n"
        "frame:\n"
        "  type: Box\n"
        "  width: 3\n"
        "  height: 2\n"
    )
    assert to_yaml({"text": "two\nlines\n", "line": "one\n", "list": [1, 0.5], "u": "ä"}) == (
        'text: |\n  two\n  lines\nline: "one\\n"\nlist: [1, 0.5]\nu: ä\n'
    )


def test_a_value_used_twice_is_written_twice():
    sound = Sound().to_dict()
    assert "&" not in to_yaml({"a": sound, "b": sound})
