"""Each mistake of the list is reported once, where it is, and whatever else is in a file."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from torch import nn

from burnlike.config import ModuleConfig, apply_overrides
from burnlike.config.registry import imported
from burnlike.config.words import OTHER_FUNCTIONS, OUR_TYPES
from burnlike.errors import ConfigError
from burnlike.train.job.configs import TrainConfig

from .mistakes import MISTAKES, RUN, Mistake
from .samples import Box, Circle, Dot, Everything, Group, Shape


def test_the_list_is_long_and_its_config_right() -> None:
    assert len(MISTAKES) >= 100
    assert len({(mistake.text, mistake.overrides) for mistake in MISTAKES}) == len(MISTAKES)
    TrainConfig.from_yaml(RUN)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: f"{it.place} {it.path} {it.advice}")
def test_a_mistake_is_one_message_with_its_place_and_advice(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    root = TrainConfig if "training" in mistake.text or "trainig" in mistake.text else ModuleConfig
    with pytest.raises(ConfigError) as caught:
        root.from_yaml(mistake.text, "file.yaml", mistake.overrides)
    assert len(caught.value.problems) == 1, str(caught.value)
    (problem,) = caught.value.problems
    if mistake.place == "--set":
        assert problem.source == f"--set {mistake.overrides[0]}"
        assert problem.line == 0
    else:
        assert problem.source == "file.yaml"
        assert f"{problem.line}:{problem.column}" == mistake.place
    assert problem.path == mistake.path
    assert mistake.advice in problem.message


def test_no_layer_of_torch_is_told_another_function() -> None:
    known = {tag.casefold() for tag in imported(ModuleConfig)}
    for name in vars(nn):
        if not isinstance(cls := getattr(nn, name), type) or not issubclass(cls, nn.Module):
            continue
        plain = name.casefold()
        is_told = (
            plain.removeprefix("lazy") in known or OUR_TYPES.get(plain.removeprefix("lazy"), "").casefold() in known
        )
        assert is_told != (plain in OTHER_FUNCTIONS), name
        if plain in OTHER_FUNCTIONS:
            with pytest.raises(ConfigError, match=f"unknown type '{name}'; a ModuleConfig is due"):
                ModuleConfig.from_yaml(f"type: {name}")


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
