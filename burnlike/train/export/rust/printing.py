"""Text of Rust, laid out as rustfmt does: names, numbers, statements and calls."""

import math
import re
from collections.abc import Sequence

_KEYWORD = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|device|do|dyn|else|enum|extern|false|final|fn|for|gen|"
    "if|impl|in|let|loop|macro|mapper|match|mod|move|mut|override|priv|pub|ref|return|self|static|struct|super|trait|"
    "true|try|type|typeof|unsafe|unsized|use|virtual|where|while|yield"
)
"""Words that no name may be: Rust's, `device`, the argument of `new`, and `mapper`, which Burn's derive uses."""
_CONSTANTS = {
    math.pi: "PI", math.tau: "TAU", math.e: "E", math.sqrt(2): "SQRT_2", math.sqrt(0.5): "FRAC_1_SQRT_2",
    math.log(2): "LN_2", math.log(10): "LN_10", math.log2(math.e): "LOG2_E", math.log10(math.e): "LOG10_E",
    math.log2(10): "LOG2_10", math.log10(2): "LOG10_2", math.pi / 2: "FRAC_PI_2", math.pi / 3: "FRAC_PI_3",
    math.pi / 4: "FRAC_PI_4", math.pi / 6: "FRAC_PI_6", math.pi / 8: "FRAC_PI_8", 1 / math.pi: "FRAC_1_PI",
    2 / math.pi: "FRAC_2_PI", 2 / math.sqrt(math.pi): "FRAC_2_SQRT_PI",
}  # fmt: skip
WIDTH = 60
"""Columns of a call, of a chain of calls, or of an array, which rustfmt leaves on one line."""
_LINE = 100
_LITERAL = 18
"""Columns of the fields of a struct that rustfmt leaves on one line."""


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    """A name of a type."""
    parts = re.sub(r"\W", "_", name, flags=re.ASCII).split("_")
    found = "".join(part[:1].upper() + part[1:] for part in parts)
    found = found.capitalize() if found.isupper() and len(found) > 2 else found  # as clippy wants it
    return found if found[:1].isalpha() else f"Layer{found}"


def identifier(name: str) -> str:
    """A name of a field or a variable."""
    found = re.sub(r"__+", "_", re.sub(r"\W", "_", snake(name), flags=re.ASCII)).strip("_") or "x"
    return f"{found}_" if _KEYWORD.fullmatch(found) else f"n{found}" if found[0].isdecimal() else found


def unique(name: str, taken: set[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, ... that is not taken; it is taken then."""
    number, found = 2, name
    while found in taken:
        found, number = f"{name.rstrip('_')}_{number}" if name.islower() else f"{name}{number}", number + 1
    taken.add(found)
    return found


def number(value: float) -> str:
    """A number of floating point. Those that clippy takes for a rounded constant of Rust's are written as that."""
    if math.isinf(value):
        return "f64::NEG_INFINITY" if value < 0 else "f64::INFINITY"
    if math.isnan(value):
        return "f64::NAN"
    for constant, name in _CONSTANTS.items():
        if math.isclose(abs(value), constant, rel_tol=1e-9):
            return f"{'-' * (value < 0)}std::f64::consts::{name}"
    text = repr(float(value))
    mantissa, _, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def statement(head: str, value: str, end: str, indent: int) -> list[str]:
    """Lines of `head value end`, such as `let x = `, an expression and `;`, at an indent."""
    space = " " * indent
    flat = f"{space}{head}{value}{end}"
    literal = re.match(r"([\w:]+) \{ (.*?) \}", value)
    if literal is not None and len(literal[2]) <= _LITERAL:
        literal = None
    if literal is None and len(flat) <= _LINE and _is_short(value):
        return [flat]
    if head.endswith("= ") and literal is None and _is_short(value) and len(space) + 4 + len(value + end) <= _LINE:
        return [f"{space}{head[:-1]}", f"{space}    {value}{end}"]
    if literal is not None:
        rows = [f"{space}{head}{literal[1]} {{", *(f"{space}    {it}," for it in parts_of(literal[2])), f"{space}}}"]
        return [*rows, f"{space}{value[literal.end() :]}{end}"]
    root, calls = chain_of(value)
    if not head and calls and len(root) <= 4 and len(calls) > 1:
        root, calls = root + calls[0], calls[1:]
    if calls and _is_short(calls[-1]) and len(space) + 4 + len(calls[-1]) <= _LINE:
        rows = statement(head, root, "", indent)
        deeper = indent + 4 * (len(rows) == 1)
        for call in calls:
            rows += statement("", call, "", deeper)
        return [*rows[:-1], f"{rows[-1]}{end}"]
    prefix = root + "".join(calls[:-1])
    call = calls[-1] if calls else value
    opening = re.match(r"[.\w:!]*(?:::<[^(]*>)?[(\[]", call)
    if opening is None or call[-1] not in ")]":
        return [flat]
    start = f"{head}{prefix if calls else ''}{opening[0]}"
    parts = parts_of(call[opening.end() : -1])
    if len(parts) == 1 and re.match(r"[\w:!]+[(\[]", parts[0]) and not chain_of(parts[0])[1]:
        return statement(start, parts[0], f"{call[-1]}{end}", indent)  # the last call alone is divided
    rows = [f"{space}{start}"]
    for part in parts:
        rows += statement("", part, ",", indent + 4)
    return [*rows, f"{space}{call[-1]}{end}"]


def _is_short(value: str) -> bool:
    """True if rustfmt leaves the expression on one line: no call has too long arguments, no chain is too long."""
    for operand in _OPERATOR.split(value) if value[:1] not in "([|" else [value]:
        _, calls = chain_of(operand)
        if len(calls) > 1 and len(operand) > WIDTH:
            return False
    starts: list[int] = []
    for at, character in enumerate(value):
        if character in "([":
            starts.append(at)
        elif character in ")]" and at - starts.pop() - 1 > WIDTH:
            return False
    return True


_OPERATOR = re.compile(r" [-+*/%] (?![^(\[]*[)\]])")


def chain_of(value: str) -> tuple[str, list[str]]:
    """The root of a chain of fields and calls, up to its last index, and each `.name` and `.name(...)`."""
    cuts, depth = list[int](), 0
    for at, character in enumerate(value):
        before, after = value[at - 1 : at], value[at + 1 : at + 2]
        if depth == 0 and character == "[" and (before.isalnum() or before in ")]_"):
            cuts.clear()
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == "." and at and before != "." and (after.isalpha() or before in ")]"):
            cuts.append(at)
        if depth == 0 and character == " ":
            return value, []
    if not cuts:
        return value, []
    return value[: cuts[0]], [value[a:b] for a, b in zip(cuts, [*cuts[1:], len(value)], strict=True)]


def parts_of(text: str) -> Sequence[str]:
    """The parts of `a, b, c`, with commas within brackets left alone."""
    found, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if depth == 0 and character == ",":
            found.append(text[start:at].strip())
            start = at + 1
    return [it for it in (*found, text[start:].strip()) if it]


def head_of(text: str) -> str:
    """A function whose first line is divided if it is too long."""
    head, _, body = text.partition("\n")
    if len(head) <= _LINE:
        return text
    name, _, rest = head.partition("(")
    arguments, _, result = rest.partition(") -> ")
    return "\n".join([f"{name}(", *(f"        {it}," for it in parts_of(arguments)), f"    ) -> {result}", body])
