"""Expressions of Rust for the values of a graph, and the statements that they become."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .printing import statement, unique

OPEN, CLOSE = "\ue000", "\ue001"
"""Around the number of a value in a text, until it has a name."""
PART_OPEN, PART_CLOSE = "\ue002", "\ue003"
"""Around the path of a part of the module."""
_PATH = re.compile(r"\b(?:tensor|nn)(?:::[a-z]\w*)*::(\w+)")
_VALUE = re.compile(f"{OPEN}(\\d+){CLOSE}")
_PART = re.compile(f"{PART_OPEN}([^{PART_CLOSE}]*){PART_CLOSE}")


class Expr(str):
    """An expression of Rust."""

    __slots__ = ()

    @property
    def level(self) -> int:
        """0 for what a method can be called on as it is, 1 for a product, 2 for a sum."""
        depth, level = 0, int(self.startswith("-"))
        for before, character, after in zip(self, self[1:], self[2:], strict=False):
            depth += (before in "([{") - (before in ")]}")
            if depth == 0 and before == after == " " and character in "+-*/%":
                level = max(level, 2 if character in "+-" else 1)
        return level

    @property
    def is_value(self) -> bool:
        """True if it is the name of a value alone."""
        return _VALUE.fullmatch(self) is not None

    def dot(self, call: str) -> "Expr":
        return Expr(f"{self.within(0)}.{call}")

    def within(self, level: int) -> str:
        """The text as an operand of an operator of the level."""
        return self if self.level <= level else f"({self})"


def imported(text: str, needs: set[str]) -> str:
    """The text with names in place of paths such as `tensor::activation::relu`, which are added to `needs`."""

    def name(found: re.Match[str]) -> str:
        needs.add(f"burn::{found[0]}")
        return found[1]

    return _PATH.sub(name, text)


class Value(NamedTuple):
    """A tensor, or several, of a function.

    Attributes:
        number: stands for it in texts.
        name: it gets this one, if no other has it.
        is_parts: it is a struct whose fields are taken one by one.
    """

    number: int
    name: str
    is_parts: bool = False

    @property
    def expr(self) -> Expr:
        return Expr(f"{OPEN}{self.number}{CLOSE}")


@dataclass
class Statement:
    """`let` of one or several values; or what a function gives, where there is none.

    Attributes:
        borrows: it only reads sizes.
        head: what comes before the expression, in which values stand for their names.
        loop: the part whose items it is done for, and the value that goes through all.
    """

    values: list[Value]
    text: str
    borrows: bool = False
    head: str = ""
    loop: tuple[str, str] | None = None
    names: dict[int, str] = field(default_factory=dict)


def part(path: str) -> str:
    """What stands for `self.PATH` in a text."""
    return f"{PART_OPEN}{path}{PART_CLOSE}"


def numbers_in(text: str) -> list[int]:
    return [int(it) for it in _VALUE.findall(text)]


def with_parts(text: str, name_of: Callable[[str], str]) -> str:
    return _PART.sub(lambda found: name_of(found[1]), text)


def rolled(statements: Sequence[Statement], lengths: Mapping[str, int]) -> list[Statement]:
    """The statements with a loop in place of those that call the items of a list one after the other.

    Args:
        lengths: of the lists, by path.
    """
    result: list[Statement] = []
    rest = list(statements)
    while rest:
        count, loop = _loop_at(rest, lengths)
        if loop is None:
            result.append(rest.pop(0))
        else:
            result.append(loop)
            del rest[:count]
    return result


def _loop_at(statements: list[Statement], lengths: Mapping[str, int]) -> tuple[int, Statement | None]:
    first = statements[0]
    paths = _PART.findall(first.text)
    base, _, at = paths[0].rpartition(".") if len(paths) == 1 else ("", "", "")
    if at != "0" or lengths.get(base, 0) < 2 or len(first.values) != 1 or len(statements) < lengths[base]:
        return 0, None
    count = lengths[base]
    for through in dict.fromkeys(numbers_in(first.text)):
        forms, before = set[str](), through
        inner = {value.number for it in statements[: count - 1] for value in it.values}
        if any(inner & {*_all_numbers(it)} for it in statements[count:]):
            continue
        for place, it in enumerate(statements[:count]):
            if len(it.values) != 1 or it.borrows or it.head:
                break
            text = it.text.replace(part(f"{base}.{place}"), "layer")
            forms.add(text.replace(f"{OPEN}{before}{CLOSE}", "\ue004"))
            before = it.values[0].number
        else:
            form = forms.pop()
            if not forms and form.count("\ue004") == 1 and "layer.forward" in form:
                last = statements[count - 1].values[0]
                inner = form.replace("\ue004", last.expr)
                return count, Statement([last], f"{OPEN}{through}{CLOSE}", loop=(base, inner))
    return 0, None


def named(statements: list[Statement], taken: dict[int, str], sizes: set[str]) -> Iterator[Statement]:
    """Give each value a name, and see that all uses of a value but the last are of a clone.

    Args:
        taken: names of the arguments, by value.
        sizes: names of sizes.
    """
    last = {number: at for at, it in enumerate(statements) for number in _all_numbers(it)}
    names = dict(taken)
    parts = {it.number for one in statements for it in one.values if it.is_parts}
    for at, it in enumerate(statements):
        is_last = {number: last[number] == at and not it.borrows for number in _all_numbers(it)}
        before = dict(names)
        text = _cloned(it.text, before, is_last, parts)
        # A name may be given again when nothing needs the value that had it.
        for number in [number for number in names if last.get(number, -1) <= at]:
            del names[number]
        used = {*names.values()} | sizes
        for value in it.values:
            names[value.number] = unique(value.name, used) if value.number in last else "_"
        head = _VALUE.sub(lambda found: names[int(found[1])], it.head)
        loop = it.loop
        if loop is not None:
            inside = {number: number == it.values[0].number for number in numbers_in(loop[1])}
            loop = (loop[0], _cloned(loop[1], {**before, **names}, inside, parts))
        yield Statement(it.values, text, it.borrows, head, loop, dict(names))


def _all_numbers(it: Statement) -> list[int]:
    return numbers_in(it.text) + ([] if it.loop is None else numbers_in(it.loop[1]))


def _cloned(text: str, names: dict[int, str], is_last: dict[int, bool], parts: set[int]) -> str:
    left = {number: numbers_in(text).count(number) for number in numbers_in(text)}

    def write(found: re.Match[str]) -> str:
        number = int(found[1])
        left[number] -= 1
        is_moved = (left[number] == 0 and is_last[number]) or number in parts
        is_read = text[found.end() :].startswith((".dims()", ".device()", ".dtype()"))
        return names[number] if is_moved or is_read else f"{names[number]}.clone()"

    return _VALUE.sub(write, text)


def lines_of(it: Statement, indent: int, part_name: Callable[[str], str]) -> list[str]:
    """The statement's lines."""
    space, text = " " * indent, with_parts(it.text, part_name)
    if it.loop is not None:
        name = it.names[it.values[0].number]
        inner = statement(f"{name} = ", it.loop[1], ";", indent + 4)
        head = [f"{space}for layer in &{part_name(it.loop[0])} {{", *inner, f"{space}}}"]
        return [f"{space}let mut {name} = {text};", *head]
    if not it.values and not it.head:
        return statement("", text, "", indent)
    head = it.head or f"let {it.names[it.values[0].number]} = "
    return statement(head, text, ";", indent)
