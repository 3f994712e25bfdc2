"""Expressions of Rust for the values of a graph, and the statements that they become."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .printing import statement, unique

# Characters for private use stand in texts around what gets its name later.
_VALUE = re.compile("\ue000(\\d+):(\\w+)\ue001")
_PART = re.compile("\ue002([^\ue003]*)\ue003")
_CALL = re.compile("\ue004(\\d+)\ue005")
_THROUGH = "\ue006"
"""The value that goes through a loop."""
_PATH = re.compile(r"\b(?:tensor|nn)(?:::[a-z]\w*)*::(\w+)")


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


class Value(NamedTuple):
    """A tensor, or several, of a function.

    Attributes:
        name: it gets this one, if no other has it.
        is_parts: it is a struct whose fields are taken one by one.
    """

    number: int
    name: str
    is_parts: bool = False

    @property
    def expr(self) -> Expr:
        return Expr(f"\ue000{self.number}:{self.name}\ue001")


@dataclass
class Statement:
    """`let` of one or several values; or what a function gives, where there is none.

    Attributes:
        borrows: it only reads sizes.
        head: what comes before the expression, in which values stand for their names.
        loop: the part whose items it is done for, and the value that goes through all.
        names: of values, when they are known.
    """

    values: list[Value]
    text: str
    borrows: bool = False
    head: str = ""
    loop: tuple[str, str] | None = None
    names: dict[int, str] = field(default_factory=dict)

    def numbers(self) -> list[int]:
        return numbers_in(self.text + (self.loop[1] if self.loop else ""))


def part(path: str) -> str:
    """The mark of `self.PATH` in a text."""
    return f"\ue002{path}\ue003"


def part_in(text: str) -> str:
    """The path of the part that a text begins with, or nothing."""
    match = _PART.match(text)
    return match[1] if match else ""


def call_mark(number: int) -> str:
    """The mark of the name of a function."""
    return f"\ue004{number}\ue005"


def with_calls(text: str, names: Mapping[int, str]) -> str:
    return _CALL.sub(lambda match: names[int(match[1])], text)


def numbers_in(text: str) -> list[int]:
    """The numbers of the values in a text."""
    return [int(it[1]) for it in _VALUE.finditer(text)]


def words_of(text: str) -> list[str]:
    """The words of an expression, but for names of values."""
    return re.findall(r"\w+", _VALUE.sub("", text))


def width_of(text: str) -> int:
    """Columns of an expression, with a clone of each value."""
    text = _PART.sub(r"self.\1", _CALL.sub("forward", text))
    return len(_VALUE.sub(lambda match: f"{match[2]}.clone()", text))


def imported(text: str, needs: set[str]) -> str:
    """The text with names in place of paths such as `tensor::activation::relu`, which are added to `needs`."""

    def name(match: re.Match[str]) -> str:
        needs.add(f"burn::{match[0]}")
        return match[1]

    return _PATH.sub(name, text)


def rolled(statements: Sequence[Statement], lengths: Mapping[str, int]) -> list[Statement]:
    """The statements with a loop in place of those that call the items of a list one after the other.

    Args:
        lengths: of the lists, by path.
    """
    result: list[Statement] = []
    rest = list(statements)
    while rest:
        paths = _PART.findall(rest[0].text)
        base, _, at = paths[0].rpartition(".") if len(paths) == 1 else ("", "", "")
        count = lengths.get(base, 0) if at == "0" else 0
        loop = _loop(rest[:count], rest[count:], base) if 1 < count <= len(rest) else None
        result.append(loop or rest[0])
        del rest[: count if loop else 1]
    return result


def _loop(statements: list[Statement], later: list[Statement], base: str) -> Statement | None:
    """A loop in place of statements that do the same with each item of the list, and pass one value on."""
    if any(len(it.values) != 1 or it.borrows or it.head for it in statements):
        return None
    last = statements[-1].values[0]
    inner = {it.values[0].number for it in statements[:-1]}
    if inner & {number for it in later for number in it.numbers()}:
        return None
    for through in dict.fromkeys(it[0] for it in _VALUE.finditer(statements[0].text)):
        before = [through, *(it.values[0].expr for it in statements)]
        forms = {
            it.text.replace(part(f"{base}.{place}"), "layer").replace(before[place], _THROUGH)
            for place, it in enumerate(statements)
        }
        form = forms.pop()
        if not forms and form.count(_THROUGH) == 1 and "layer.forward" in form:
            return Statement([last], through, loop=(base, form.replace(_THROUGH, last.expr)))
    return None


def named(statements: list[Statement], taken: dict[int, str], sizes: set[str]) -> Iterator[Statement]:
    """Give each value a name, and see that all uses of a value but the last are of a clone.

    Args:
        taken: names of the arguments, by value.
        sizes: names of sizes.
    """
    last = {number: at for at, each in enumerate(statements) for number in each.numbers()}
    parts = {value.number for each in statements for value in each.values if value.is_parts}
    names = dict(taken)
    for at, line in enumerate(statements):
        moved = {number for number in line.numbers() if last[number] == at and not line.borrows}
        text, before = _cloned(line.text, names, moved, parts), names
        # A name may be given again when nothing needs the value that had it.
        names = {number: name for number, name in names.items() if last.get(number, -1) > at}
        used = {*names.values()} | sizes
        if line.loop is not None:  # what each turn needs keeps its name
            used |= {before[number] for number in numbers_in(line.loop[1]) if number in before}
        for value in line.values:
            names[value.number] = unique(value.name, used) if value.number in last else "_"
        head, loop = _cloned(line.head, names, {*names}, parts), line.loop
        if loop is not None:
            loop = (loop[0], _cloned(loop[1], {**before, **names}, {line.values[0].number}, parts))
        yield Statement(line.values, text, line.borrows, head, loop, dict(names))


def _cloned(text: str, names: dict[int, str], moved: set[int], parts: set[int]) -> str:
    left = numbers_in(text)

    def write(match: re.Match[str]) -> str:
        number = int(match[1])
        left.remove(number)
        is_moved = (number not in left and number in moved) or number in parts
        is_read = text[match.end() :].startswith((".dims()", ".device()", ".dtype()"))
        return names[number] if is_moved or is_read else f"{names[number]}.clone()"

    return _VALUE.sub(write, text)


def lines_of(line: Statement, indent: int, part_name: Callable[[str], str]) -> list[str]:
    """The statement's lines."""
    space, text = " " * indent, _PART.sub(lambda match: part_name(match[1]), line.text)
    if line.loop is not None:
        name = line.names[line.values[0].number]
        inner = statement(f"{name} = ", line.loop[1], ";", indent + 4)
        head = [f"{space}for layer in &{part_name(line.loop[0])} {{", *inner, f"{space}}}"]
        return [f"{space}let mut {name} = {text};", *head]
    if not line.values and not line.head:
        return statement("", text, "", indent)
    return statement(line.head or f"let {line.names[line.values[0].number]} = ", text, ";", indent)
