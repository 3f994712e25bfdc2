"""Holding a module without owning it."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.module import Module, clone, constant, map as map_module, params, valid as valid_of
from burnlike.module.attributes.plain_attributes import MarkedConstant
from burnlike.record import Record

from ..cases import case


class Student(Module):
    def __init__(self, teacher: nn.Module) -> None:
        super().__init__()
        self.teacher = constant(teacher)
        self.layer = nn.Linear(2, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) - self.teacher(x)


class Child(Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.parent = constant(parent)
        self.weight = nn.Parameter(torch.ones(2))


class Parent(Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((2,), 3.0))
        self.children_ = [Child(self), Child(self)]


def test_a_teacher_is_neither_child_visited_saved_nor_optimized() -> None:
    teacher = nn.Linear(2, 2)
    student = Student(teacher)
    assert student.teacher is teacher
    assert [param.path for param in params(student)] == ["layer.weight"]
    assert [name for name, _ in student.named_parameters()] == ["layer.weight"]
    assert list(student.state_dict()) == ["layer.weight"]
    assert list(dict(student.named_modules())) == ["", "layer"]
    assert list(Record.from_module(student).tensors) == ["layer.weight"]
    assert student.num_params() == 4
    assert student.forward(torch.ones(2)).shape == (2,)


def test_a_teacher_is_neither_moved_nor_put_into_another_mode() -> None:
    teacher = nn.Linear(2, 2)
    student = Student(teacher).to(torch.float64).no_grad().train(False)
    assert student.layer.weight.dtype == torch.float64
    assert teacher.weight.dtype == torch.float32
    assert teacher.weight.requires_grad
    assert teacher.training


def test_a_tensor_that_is_a_constant_is_not_moved() -> None:
    table = torch.ones(2)
    student = Student(nn.Identity())
    student.table = constant(table)
    assert student.half().table is table


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "clone": lambda module: module.clone(),
    "map": lambda module: module.map(lambda param: param.tensor.clone()),
    "valid": lambda module: module.valid(),
    "fork": lambda module: module.fork("cpu"),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_shares_the_teacher(copied: Callable[[Any], Any]) -> None:
    student = Student(nn.Linear(2, 2))
    new = copied(student)
    assert new.teacher is student.teacher
    assert new.layer is not student.layer
    assert copied(new).teacher is student.teacher


@pytest.mark.parametrize("copied", [*COPIES.values(), lambda m: pickle.loads(pickle.dumps(m))], ids=[*COPIES, "pickle"])
def test_a_reference_upwards_refers_to_the_copied_parent(copied: Callable[[Any], Any]) -> None:
    parent = Parent()
    assert [param.path for param in params(parent)] == ["scale", "children_.0.weight", "children_.1.weight"]
    new = copied(parent)
    assert new is not parent
    assert all(child.parent is new for child in new.children_)
    assert all(child.parent is parent for child in parent.children_)


class Distillation(Module):
    def __init__(self, teacher_first: bool) -> None:
        super().__init__()
        teacher = nn.Sequential(nn.Linear(2, 2))
        student = Student(teacher)
        self.parts = [teacher, student] if teacher_first else [student, teacher]

    def both(self) -> tuple[Any, Any]:
        student = next(part for part in self.parts if isinstance(part, Student))
        return student, next(part for part in self.parts if part is not student)


@pytest.mark.parametrize("teacher_first", [True, False])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_teacher_that_is_copied_too_is_the_one_referred_to(copied: Callable[[Any], Any], teacher_first: bool) -> None:
    original = Distillation(teacher_first)
    student, teacher = copied(original).both()
    assert student.teacher is teacher
    assert teacher is not original.both()[1]


@pytest.mark.parametrize("teacher_first", [True, False])
@pytest.mark.parametrize("copied", [clone, valid_of, lambda m: map_module(m, lambda p: p.tensor + 1)])
def test_a_plain_root_makes_no_difference(copied: Callable[[Any], Any], teacher_first: bool) -> None:
    teacher = nn.Linear(2, 2)
    parts = [teacher, Student(teacher)] if teacher_first else [Student(teacher), teacher]
    new = copied(nn.Sequential(*parts))
    first, second = new if teacher_first else reversed(new)
    assert second.teacher is first
    assert first is not teacher


def test_pickle_keeps_what_is_referred_to() -> None:
    student = Student(nn.Linear(2, 2))
    new = pickle.loads(pickle.dumps(student))
    assert torch.equal(new(torch.ones(2)), student(torch.ones(2)))
    assert [param.path for param in params(new)] == ["layer.weight"]


def test_a_field_that_was_a_reference_becomes_a_child_and_back() -> None:
    teacher = nn.Linear(2, 2, bias=False)
    student = Student(teacher)
    student.teacher = teacher
    assert [param.path for param in params(student)] == ["teacher.weight", "layer.weight"]
    assert copy.deepcopy(student).teacher is not teacher
    student.teacher = constant(teacher)
    assert [param.path for param in params(student)] == ["layer.weight"]
    assert copy.deepcopy(student).teacher is teacher
    student.teacher = [1]
    assert copy.deepcopy(student).teacher is not student.teacher


def test_a_parameter_that_is_referred_to_is_owned_elsewhere() -> None:
    student = Student(nn.Identity())
    student.tied = constant(student.layer.weight)
    assert student.tied is student.layer.weight
    assert [name for name, _ in student.named_parameters(remove_duplicate=False)] == ["layer.weight"]
    new = copy.deepcopy(student)
    assert new.tied is new.layer.weight
    mapped = student.map(lambda param: param.tensor + 1)
    assert mapped.tied is mapped.layer.weight


def test_on_a_plain_module_the_mark_says_what_to_do() -> None:
    module = nn.Module()
    module.teacher = constant(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"constant\(Linear\) was called, but only marks the Linear: assign it to"):
        module.teacher(torch.ones(2))
    with pytest.raises(AttributeError, match="was asked for 'weight', but only marks the Linear"):
        _ = module.teacher.weight
    assert isinstance(copy.deepcopy(module).teacher, MarkedConstant)
    assert isinstance(pickle.loads(pickle.dumps(module)).teacher, MarkedConstant)


class Phantom(Module):
    """Nothing at all."""


class Optional_(Module):
    def __init__(self, value: int | None) -> None:
        super().__init__()
        self.value = value


@case("constant/empty_module_with_phantom")
def test_a_module_without_state_has_none() -> None:
    module = Phantom()
    assert (module.num_params(), params(module), module.state_dict()) == (0, [], {})
    assert not Record.from_module(module).tensors


@case("constant/option_record", "constant/option_none_record")
@pytest.mark.parametrize("recorded", [42, None])
def test_a_record_leaves_constants_alone(recorded: int | None, tmp_path: Path) -> None:
    Optional_(recorded).save(tmp_path / "constant")
    module = Optional_(42)
    module.load(tmp_path / "constant")
    assert module.value == 42
