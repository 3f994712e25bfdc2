"""What a filter may be, and how it is asked."""

import re
from typing import Any

import pytest
import torch

from burnlike import ParamGroup, mlax
from burnlike.errors import ArgumentError, ParamPathError

from .samples import FROZEN, PATHS, TRAINABLE, Bar, paths


def test_26_a_predicate_with_side_effects_is_asked_once() -> None:
    m = Bar()
    answers: list[bool] = []

    def alternating(param: mlax.Parameter) -> bool:
        answers.append(len(answers) % 2 == 0)
        return answers[-1]

    yes, no = m.partition(alternating)
    assert len(answers) == 6
    assert paths(yes) == PATHS[0::2]
    assert paths(no) == PATHS[1::2]


@pytest.mark.parametrize("answer", [1, "x", [0], torch.tensor([True])])
def test_27_what_is_true_selects(answer: Any) -> None:
    assert paths(Bar().filter(lambda p: answer if p.path == "a" else None)) == ["a"]


def test_27_a_tensor_of_several_values_is_no_answer() -> None:
    with pytest.raises(TypeError, match=r"shape \[3, 4\] for 'a'"):
        Bar().filter(lambda p: p.data > 0)


def test_28_a_parameter_with_several_tensors_is_asked_about_once() -> None:
    met: list[Any] = []
    Bar().filter(lambda p: met.append(p.data))
    assert len(met) == 6
    assert met[2] == [1, 2, 3]


def test_29_filters_of_all_kinds() -> None:
    m = Bar()
    cases: list[tuple[Any, list[str]]] = [
        (ParamGroup.from_path("f.w"), ["f.w"]),
        (ParamGroup.from_path("c"), ["c"]),
        (ParamGroup.from_paths(("a", "c.1")), ["a", "c"]),
        (ParamGroup.ids_from_module(m).exclude(ParamGroup.from_regex("w")), ["a", "b", "c", "g.1"]),
        (ParamGroup.from_ids([m.c.id]), ["c"]),
        ({m.a.id, m.c.id}, ["a", "c"]),
        (re.compile(r"\.w$"), ["f.w", "g.0.w"]),
        (..., PATHS),
        (True, PATHS),
        (False, []),
        (mlax.Not(mlax.is_trainable), FROZEN),
        (mlax.All(mlax.is_trainable, mlax.Not("A")), ["f.w", "g.0.w"]),
        (mlax.Any("A", ParamGroup.from_path("g.1")), ["a", "g.1"]),
        ("A", ["a"]),
        ("weight", ["a", "b", "f.w", "g.0.w", "g.1"]),
        ("state", ["c"]),
    ]
    for f, expected in cases:
        assert paths(m.filter(f)) == expected
    assert paths(m.filter(lambda path, p: path.startswith("g") and p.trainable, with_path=True)) == ["g.0.w"]
    with pytest.raises(ParamPathError, match=r"'f.x'"):
        m.filter(ParamGroup.from_path("f.x"))
    with pytest.raises(ParamPathError, match=r"'f.x'"):
        m.filter(ParamGroup.from_paths(("c", "f.x")))
    with pytest.raises(TypeError, match=r"set of ParamIds.*'a'"):
        m.filter({"a"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"expected a filter.*got int"):
        m.filter(3)  # pyright: ignore[reportArgumentType]


def test_29_split_into_several_parts() -> None:
    m = Bar()
    parts = m.split("A", mlax.is_trainable, ...)
    assert [paths(part) for part in parts] == [["a"], ["f.w", "g.0.w"], FROZEN]
    assert paths(parts[2].combine(*parts[:2], strict=True)) == PATHS
    with pytest.raises(ArgumentError, match=r"'b', 'c', 'g.1'.*`...`"):
        m.split("A", mlax.is_trainable)
    assert [paths(part) for part in m.split(mlax.is_trainable, mlax.is_non_trainable)] == [TRAINABLE, FROZEN]


def test_29_a_filter_compares_with_other_trees() -> None:
    m, other = Bar(), Bar()
    other.a.data = m.a.data
    assert paths(m.filter(lambda p, q: p.path == "a" and torch.equal(p.data, q.data), other)) == ["a"]
    same, different = m.partition(lambda p, q: True, other.partition()[0])
    assert paths(same) == TRAINABLE
    assert paths(different) == FROZEN


def test_30_the_intent_counts_not_what_is_tracked_now() -> None:
    m = Bar()
    assert paths(m.valid().filter(mlax.is_trainable)) == paths(m.filter(mlax.is_trainable)) == TRAINABLE
    assert not any(leaf.requires_grad for leaf in m.valid().leaves())
    m.freeze(ParamGroup.from_path("a"))
    assert paths(m.valid().filter(mlax.is_trainable)) == ["f.w", "g.0.w"]
