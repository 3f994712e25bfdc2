"""Whatever is in a file, it is read as a config or refused with places and paths that hold."""

import contextlib

from hypothesis import example, given, settings, strategies as st

from burnlike.config import apply_overrides
from burnlike.errors import ConfigError

from .samples import Box, Circle, Dot, Everything, Group, Shape

KEYS = [
    *Everything.__struct_fields__,
    "type",
    "width",
    "radius",
    "members",
    "frame",
    "zzz",
    "<<",
    "'no'",
    "1",
    "~",
    "defaults",
]
VALUES = [
    *("1", "-1", "1.5", "x", "no", "null", "", "[]", "{}", "[1, x]", "{a: 1}", "'1'", "1e999", "0777", "Circle", "*a"),
    *(
        "&a {width: 2}",
        "&a [1]",
        "!!python/name:x y",
        "!x",
        "|",
        ">-",
        "[",
        "{",
        "'",
        '"\\',
        "@",
        "- 1",
        "{type: Circle}",
        "${count}",
        "'${sizes[0]} ${on}'",
        "{width: '${zzz.count}'}",
        "${",
        "$${count}",
        "${anything}",
        "${env:HOME}",
        "nowhere.yaml",
    ),
    *("{type: Box, width: 3}", "{type: Group, members: [{type: Dot}, {type: Zzz}]}", "{<<: *a}", "? x", "\t"),
]


def check(cls, text):
    try:
        config = cls.from_yaml(text, "f")
    except ConfigError as error:
        check_message(error, text)
    else:
        assert isinstance(config, cls)
        assert cls.from_yaml(config.to_yaml()) == config


def check_message(error, text):
    lines = 2 + sum(text.count(end) for end in "\n\r\x85\u2028\u2029")
    assert error.problems
    assert len(str(error).split("\n")) == len(error.problems), "one line a mistake"
    for problem in error.problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert str(problem).isprintable()


lines = st.builds(
    lambda indent, dash, key, value: f"{' ' * indent}{dash}{key}: {value}",
    st.sampled_from([0, 0, 0, 2, 4]),
    st.sampled_from(["", "", "- "]),
    st.sampled_from(KEYS),
    st.sampled_from(VALUES),
)


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.lists(lines, max_size=8).map("\n".join))
def test_random_lines(text):
    check(Everything, text)
    check(Shape, text)


@settings(derandomize=True, max_examples=500, deadline=None)
@given(
    st.text(
        st.sampled_from("ab:- \n\t[]{},&*!|>'\"%@`#?~.0179e+_<=\\\r\u2028\x85\ud800\0") | st.characters(), max_size=40
    )
)
@example("a: \u2028 b\n\u2028c")
@example("\ufeffcount: 1")
@example("&a a: *a")
@example("*a")
@example("? ? ? a")
@example("%TAG ! tag:x,2000:\n---\n!y {}")
def test_random_characters(text):
    check(Everything, text)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.data())
def test_a_right_file_with_some_characters_changed(data):
    text = list(Group(members=[Circle(radius=0.5), Box(width=9), Dot()], frame=Box(width=2)).to_yaml())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(
            st.sampled_from(["", " ", "\n", ":", "-", "[", "{", "'", "x", "0", "\t", "#", "&", "*"])
        )
    check(Shape, "".join(text))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            "{}{}={}".format,
            st.sampled_from(KEYS),
            st.sampled_from(["", ".0", ".type", ".a.b"]),
            st.sampled_from(VALUES),
        )
    )
)
def test_random_overrides(overrides):
    with contextlib.suppress(ConfigError):
        assert isinstance(apply_overrides(Everything(), overrides), Everything)
