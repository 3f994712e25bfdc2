"""The tree of nodes that a config is read from: the file over its defaults, with options applied and references."""

import os
from collections.abc import Iterable

from burnlike.errors import Problem

from .defaults import with_defaults
from .document import parse
from .interpolation import interpolate
from .node import Node
from .overrides import apply
from .source_text import read_text


def tree_of(text: str, source: str, overrides: Iterable[str] = ()) -> tuple[Node, list[Problem]]:
    """The tree of a YAML text, and the mistakes that do not stop one from reading on.

    Args:
        source: what messages call the text; files under its `defaults:` are looked for beside it.
        overrides: `a.b=c` each; they are applied before references are put in, so that these see them.

    Raises:
        ConfigError: it is not YAML, or an option is none.
    """
    root, problems = parse(text, source)
    root = with_defaults(root, source, text, problems)
    root, of_references = interpolate(apply(root, overrides))
    return root, [*problems, *of_references]


def read_tree(path: "str | os.PathLike[str]", overrides: Iterable[str] = ()) -> Node:
    """The tree that `Config.load` reads a config from; it has the place of each value.

    Raises:
        ConfigIOError: the file can't be read.
        ConfigError: it is not YAML, or an option is none.
    """
    return tree_of(read_text(path), os.fspath(path), overrides)[0]
