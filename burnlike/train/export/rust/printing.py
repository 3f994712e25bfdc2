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
_OPENING = re.compile(r"[.\w:!&]*(?:::<[^(]*>)?[(\[]")
"""The beginning of a call or an array."""
_CLOSURE = "|_| "
WIDTH = 60
"""Columns of a call, of a chain of calls, or of an array, which rustfmt leaves on one line."""
_LINE = 100
_SMALL = 10
"""Columns of the items of an array of which rustfmt puts several on a line."""
_LITERAL = 18
"""Columns of the fields of a struct that rustfmt leaves on one line."""


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    """A name of a type."""
    parts = re.sub(r"\W", "_", name, flags=re.ASCII).split("_")
    camel = "".join(part[:1].upper() + part[1:] for part in parts)
    camel = camel.capitalize() if camel.isupper() and len(camel) > 2 else camel  # as clippy wants it
    return camel if camel[:1].isalpha() else f"Layer{camel}"


def identifier(name: str) -> str:
    """A name of a field or a variable."""
    rust_name = re.sub(r"__+", "_", re.sub(r"\W", "_", snake(name), flags=re.ASCII)).strip("_") or "x"
    return (
        f"{rust_name}_" if _KEYWORD.fullmatch(rust_name) else f"n{rust_name}" if rust_name[0].isdecimal() else rust_name
    )


def unique(name: str, taken: set[str]) -> str:
    """The name, or the first of `name_2`, `name_3`, ... that is not taken; it is taken then."""
    number, free_name = 2, name
    while free_name in taken:
        free_name, number = f"{name.rstrip('_')}_{number}" if name.islower() else f"{name}{number}", number + 1
    taken.add(free_name)
    return free_name


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


# Layout: rustfmt's own rules, for expressions that are written on one line


def statement(head: str, value: str, end: str, indent: int) -> list[str]:
    """Lines of `head value end`, such as `let x = `, an expression and `;`, at an indent."""
    space, lines = " " * indent, _laid_out(value, indent, indent + len(head), len(end))
    if head.endswith("= ") and (len(lines) > 1 or len(f"{space}{head}{value}{end}") > _LINE):
        below = _laid_out(value, indent + 4, indent + 4, len(end))
        fits = max(map(len, (below[0] + " " * (indent + 4), *below[1:-1], below[-1] + end))) <= _LINE
        opens = lines[0].endswith(("(", "[", "{")) and not below[0].endswith(("(", "[", "{"))
        if fits and (len(below) == 1 or len(lines) > len(below) + 1 or opens):
            head, lines = head.rstrip(), ["", f"{space}    {below[0]}", *below[1:]]
    return (
        [f"{space}{head}{lines[0]}", *lines[1:-1], f"{lines[-1]}{end}"] if lines[1:] else [f"{space}{head}{value}{end}"]
    )


def _laid_out(value: str, indent: int, column: int, after: int, *, is_whole: bool = True) -> list[str]:
    """The lines of an expression.

    Args:
        indent: of further lines, where they close.
        column: at which the expression begins.
        after: columns that follow it.
        is_whole: it may be one line, if it is short.
    """
    literal = re.match(r"([\w:]+) \{ (.*?) \}", value)
    if literal is not None and len(literal[2]) > _LITERAL:
        fields = [f"{' ' * (indent + 4)}{it}," for it in parts_of(literal[2])]
        return [f"{literal[1]} {{", *fields, f"{' ' * indent}}}", f"{' ' * indent}{value[literal.end() :]}"]
    if is_whole and _is_short(value) and column + len(value) + after <= _LINE:
        return [value]
    root, calls = chain_of(value)
    if calls:
        return _chain(root, calls, indent, column, after)
    opening = _OPENING.match(value)
    if opening is None or value[-1] not in ")]" or len(_words(value)) > 1:
        return [value]
    start, end, parts = opening[0], value[-1], parts_of(value[opening.end() : -1])
    if parts and parts[0].startswith(_CLOSURE):
        body = statement("", parts[0].removeprefix(_CLOSURE), "", indent + 4)
        return [f"{start}{_CLOSURE}{{", *body, f"{' ' * indent}}}{end}"]
    if len(parts) == 1 and _OPENING.match(parts[0]) and not chain_of(parts[0])[1] and len(_words(parts[0])) == 1:
        inner = _laid_out(parts[0], indent, column + len(start), after + 1, is_whole=False)
        return [f"{start}{inner[0]}", *inner[1:-1], f"{inner[-1]}{end}"]  # the last call alone is divided
    if end == "]" and all(len(part) <= _SMALL for part in parts):
        return [start, *filled(parts, indent + 4), f"{' ' * indent}{end}"]
    rows = [row for part in parts for row in statement("", part, ",", indent + 4)]
    return [start, *rows, f"{' ' * indent}{end}"]


def filled(items: Sequence[str], indent: int = 4) -> list[str]:
    """The items, as many on a line as there is room for."""
    rows = [" " * (indent - 1)]
    for at, item in enumerate(items, 1):
        is_all = at == len(items) and len(rows) == 1  # rustfmt leaves the last comma out of account then
        if len(rows[-1]) + len(item) + 2 > _LINE - 1 + is_all:
            rows.append(" " * (indent - 1))
        rows[-1] += f" {item},"
    return rows


def _chain(root: str, calls: list[str], indent: int, column: int, after: int) -> list[str]:
    """A chain of calls: on one line but for the arguments of the last, or each call on a line of its own."""
    budget = _LINE if len(calls) == 1 else WIDTH
    while column == indent and len(root) <= 4 and len(calls) > 1:
        root, calls = root + calls[0], calls[1:]
    *before, last = calls
    prefix = root + "".join(before)
    first = _laid_out(root, indent, column, 0)
    deeper = indent + 4 * (len(first) == 1)
    below = _laid_out(last, deeper, deeper, after)
    if _is_short(prefix) and len(prefix) < budget:
        beside = _laid_out(last, indent, column + len(prefix), after)
        first_line = len(prefix + beside[0])
        if first_line <= min(budget, _LINE - column) and (len(beside) >= 5 or len(below) >= len(beside)):
            return [f"{prefix}{beside[0]}", *beside[1:]]
    rows = [row for call in before for row in statement("", call, "", deeper)]
    return [*first, *rows, f"{' ' * deeper}{below[0]}", *below[1:]]


def _is_short(value: str) -> bool:
    """True if rustfmt leaves the expression on one line: no call has too long arguments, no chain is too long."""
    for operand in _words(value):
        if len(chain_of(operand)[1]) > 1 and len(operand) > WIDTH:
            return False
    starts: list[int] = []
    for at, character in enumerate(value):
        if character in "([":
            starts.append(at)
        elif character in ")]":
            start = starts.pop() + 1
            if at - start > WIDTH and (character == "]" or not _is_wide(value[start:at])):
                return False
    return True


def _is_wide(value: str) -> bool:
    """True for arguments that may be wider than others: a closure alone, a chain of one call, or a sum."""
    body = value.removeprefix(_CLOSURE)
    is_one = body != value or bool(chain_of(value)[1]) or len(_words(value)) > 1
    return len(parts_of(value)) == 1 and is_one and _is_short(body)


def _words(value: str) -> list[str]:
    """The parts that spaces outside of brackets divide: the operands of a sum and their operators."""
    words, depth, start = list[str](), 0, 0
    for at, character in enumerate(value):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == " ":
            words.append(value[start:at])
            start = at + 1
    return [*words, value[start:]]


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
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{<") - (character in ")]}>")
        if depth == 0 and character == ",":
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def head_of(text: str) -> str:
    """A function whose first line is divided if it is too long."""
    head, _, body = text.partition("\n")
    name, _, rest = head.partition("(")
    arguments, _, result = rest.partition(") -> ")
    items = parts_of(result.removesuffix(" {")[1:-1]) if result.startswith("(") else []
    if len(", ".join(items)) > WIDTH:
        result = "\n".join(["(", *(f"        {item}," for item in items), "    ) {"])
    elif len(head) <= _LINE:
        return text
    return "\n".join([f"{name}(", *(f"        {it}," for it in parts_of(arguments)), f"    ) -> {result}", body])
