"""Keys at the root of a file that are no fields: `x-...` for anchors, and the `inputs:` of a file of a model alone."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from burnlike._dtypes import DTYPES, other_name
from burnlike.errors import Problem

from .node import Entries, Node, child
from .registry import TAG_FIELD, ConfigType, fields_of, lookup, type_in
from .words import got, show_text

EXTENSION = "x-"
"""How the names of keys begin that a config may have for anchors alone."""
INPUTS = "inputs"

_FORM = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?:(?P<dtype>\w+)(?::|(?P<bracket>\[)))?"
    r"(?P<shape>(?:\d{1,10}(?:,\s*\d{1,10})*)?)(?(bracket)\])"
)
DTYPE_NAMES = [dtype.torch for dtype in DTYPES if dtype.torch]
_EXPECTED = "expected sizes, [8, 3, 32, 32], or a text such as 'int64:8,128'; a list or a mapping of such for several"


class Input(NamedTuple):
    """A tensor that a model is called with, its dtype by torch's name; without a name it is given by its order."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        return f"{name}{self.dtype}:{','.join(map(str, self.shape))}"


def parsed_input(text: str) -> Input | str:
    """The input that a text such as `tokens=int64:8,128` describes, or what is wrong with it."""
    match = _FORM.fullmatch(text.strip())
    if not match:
        return f"expected [NAME=][DTYPE:]SIZES, such as tokens=int64:8,128 or int64[8,128], got {show_text(text)!r}"
    dtype = match["dtype"] or "float32"
    dtype = dtype if dtype in DTYPE_NAMES else other_name(dtype) or ""
    if dtype not in DTYPE_NAMES:
        return f"{show_text(text)!r}: unknown element type; there are {', '.join(DTYPE_NAMES)}"
    return Input(tuple(int(size) for size in match["shape"].split(",") if size), dtype, match["name"] or "")


def without_extensions(root: Node) -> Node:
    """The root of a config without the keys that begin with `x-`."""
    extensions = [key for key in root.value if key.startswith(EXTENSION)] if root.is_map else []
    if not extensions:
        return root
    return root.with_value(Entries({key: entry for key, entry in root.value.items() if key not in extensions}))


def without_inputs(root: Node, role: ConfigType) -> tuple[Node, list[Problem]]:
    """The root of a model's config without its `inputs:`, and what is wrong with these; a graph keeps their names."""
    inputs = _inputs_node(root, role)
    if inputs is None:
        return root, []
    problems = [it for it in _read(inputs) if isinstance(it, Problem)]
    entries = Entries(root.value)
    if INPUTS in _fields(root, role):
        names = [Node(key, entry.place) for key, entry in inputs.value.items()]
        entries[INPUTS] = entries[INPUTS]._replace(value=inputs.with_value(names))
    else:
        del entries[INPUTS]
    return root.with_value(entries), problems


def inputs_of(root: Node, role: ConfigType) -> list[Input]:
    """The `inputs:` of a model's file; empty where there are none."""
    inputs = _inputs_node(root, role)
    return [] if inputs is None else [it for it in _read(inputs) if isinstance(it, Input)]


def _inputs_node(root: Node, role: ConfigType) -> Node | None:
    """The value of `inputs:` that has shapes: not the names of a graph's inputs, nor a field of another class."""
    if not root.is_map or INPUTS not in root.value:
        return None
    inputs = root.value[INPUTS].value
    if INPUTS in _fields(root, role) and not (type_in(root) == "Graph" and inputs.is_map):
        return None
    return inputs


def _fields(root: Node, role: ConfigType) -> dict[str, object]:
    tag = child(root, TAG_FIELD)
    cls = lookup(role, tag.value) if tag and isinstance(tag.value, str) else None
    return {} if cls is None and tag is not None else dict(fields_of(cls or role))


def _read(inputs: Node) -> Iterator[Input | Problem]:
    if inputs.is_map:
        for name, entry in inputs.value.items():
            result = _one(entry.value, f"{INPUTS}.{name}")
            yield result._replace(name=name) if isinstance(result, Input) else result
    elif inputs.is_list and not all(type(it.value) is int for it in inputs.value):
        yield from (_one(item, f"{INPUTS}.{index}") for index, item in enumerate(inputs.value))
    else:
        yield _one(inputs, INPUTS)


def _one(node: Node, path: str) -> Input | Problem:
    if node.is_list and all(type(it.value) is int and 0 <= it.value < 10**10 for it in node.value):
        return Input(tuple(it.value for it in node.value))
    if not isinstance(node.value, str):
        return node.place.problem(path, f"{_EXPECTED}; got {got(node)}")
    result = parsed_input(node.value)
    return result if isinstance(result, Input) else node.place.problem(path, result)
