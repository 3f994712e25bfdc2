"""What structs of Rust consist of, and names that Rust takes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_KEYWORD = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|device|do|dyn|else|enum|extern|false|final|fn|for|gen|"
    "if|impl|in|let|loop|macro|match|mod|move|mut|override|priv|pub|ref|return|self|static|struct|super|trait|true|try|"
    "type|typeof|unsafe|unsized|use|virtual|where|while|yield"
)


class Kind(NamedTuple):
    """A tensor of the flow: how many dimensions it has, and whether it is of integers."""

    rank: int
    is_int: bool

    def __str__(self) -> str:
        return f"Tensor<{self.rank}{', Int' if self.is_int else ''}>"


class Flow(NamedTuple):
    """What a module was called with and what it gave; None for an output that is no tensor and no tuple of such."""

    inputs: Sequence[Kind]
    output: Kind | tuple[Kind, ...] | None


Flows = Mapping[str, Flow]
"""Of each module, by its path."""


class Part(NamedTuple):
    """A part of a struct: its type and what makes it, or neither for an operation; and the expression of a call."""

    type: str
    init: str
    call: Callable[[str, Sequence[str]], str]


class Struct(NamedTuple):
    """A struct of Rust."""

    name: str
    fields: Sequence[tuple[str, Part]]
    forward: Sequence[str]


def transposed(field: str, x: str, rank: int) -> str:
    """x @ transpose(weight) of an Embedding."""
    return f"{x}.matmul({field}.weight.val().transpose().unsqueeze::<{rank}>())"


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def identifier(name: str) -> str:
    """A name that Rust takes."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII).lower()
    return f"{found}_" if _KEYWORD.fullmatch(found) or found[:1].isdecimal() or not found.strip("_") else found
