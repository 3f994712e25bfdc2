"""Values of a graph in Rust: their kinds, ranks and types, and the names that the program's source gives them."""

import linecache
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from .printing import identifier, number
from .tracing import is_item

_LIBRARIES = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
"""Where the lines of a trace say nothing of the user's program."""
_ASSIGNED = re.compile(r"\s*(?:return\b|([\w, ]+?)\s*(?:[-+*/]?=)(?!=))")
_NAMES = {
    **dict.fromkeys(("matmul", "bmm", "mm"), "product"),
    **dict.fromkeys(("mul", "div"), "scaled"),
    **dict.fromkeys(("softmax", "_softmax"), "weights"),
    **dict.fromkeys(("alias", "clone"), "x"),
    "add": "sum", "scaled_dot_product_attention": "context", "_unsafe_view": "view", "masked_fill": "masked",
    "bitwise_not": "inverse", "_to_copy": "cast",
}  # fmt: skip
"""Names of operations' results, where the operation's own name is none."""


def value_of(x: Any) -> Any:
    """The tensor, or the number, of a node; anything else is itself."""
    return x.meta["val"] if isinstance(x, fx.Node) else x


def kind_of(x: Any) -> str:
    """The kind of Burn's tensor, or of a number."""
    value = value_of(x)
    if isinstance(value, Tensor):
        is_real = value.is_floating_point() or value.is_complex()
        return "Bool" if value.dtype == torch.bool else "Float" if is_real else "Int"
    return "Bool" if isinstance(value, bool) else "Float" if isinstance(value, float) else "Int"


def rank_of(x: Any) -> int:
    """The number of dimensions in Rust, where a single number has one."""
    return max(value_of(x).dim(), 1)


def type_of(x: Any) -> str:
    kind = kind_of(x)
    return f"Tensor<{rank_of(x)}{'' if kind == 'Float' else f', {kind}'}>"


def literal(value: Any) -> str:
    """A number of Python's."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else number(value)


def name_of(node: fx.Node) -> str:
    """A name for the value: that which the program's source gives it, or else the operation's."""
    frames = _frames(node)
    place: Any = node.args[1] if is_item(node) else 0
    if frames:
        later = [user for user in node.users if _frames(user)[-1:] == frames[-1:] and not is_item(user)]
        assigned = _ASSIGNED.match(linecache.getline(*frames[-1]))
        if assigned is not None and not later:
            names = [it.strip() for it in (assigned[1] or "output").split(",")]
            if len(names) == 1 or (is_item(node) and isinstance(place, int) and place < len(names)):
                return identifier(names[place if len(names) > 1 else 0])
    source = node.args[0] if is_item(node) and isinstance(node.args[0], fx.Node) else node
    if str(source.target).startswith("burnlike_rust"):
        names = [it for it in str(source.args[0]).partition("#")[0].split(".") if not it.isdecimal()]
        return identifier(names[-1]) if names else "x"
    name = re.sub(r"_\d+$", "", source.name)
    return identifier(_NAMES.get(name, name)) if source.op == "call_function" else "x"


def source_line(node: fx.Node) -> str:
    """The line of the program's source, in brackets; empty if it is not known."""
    frames = _frames(node)
    if not frames:
        return ""
    file, line = frames[-1]
    return f" (line {line} of {file.rpartition('/')[2]}: {linecache.getline(file, line).strip()})"


def _frames(node: fx.Node) -> list[tuple[str, int]]:
    places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return [(file, int(line)) for file, line in places if not file.startswith(_LIBRARIES)]
