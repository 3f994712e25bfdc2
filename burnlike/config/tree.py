"""The tree of nodes that a config is read from: the file over its defaults, with options applied and references."""

import os
from collections.abc import Iterable

from .defaults import with_defaults
from .document import parse
from .interpolation import interpolate
from .node import Tree
from .overrides import apply
from .source_text import read_text


def tree_of(text: str, source: str, overrides: Iterable[str] = ()) -> Tree:
    """The tree of a YAML text.

    Args:
        source: what messages call the text; files under its `defaults:` are looked for beside it.
        overrides: `a.b=c` each; they are applied before references are put in, so that these see them.

    Raises:
        ConfigError: it is not YAML, or an option is none.
    """
    root, problems = parse(text, source)
    root = with_defaults(root, source, text, problems)
    root, of_references = interpolate(apply(root, overrides))
    return Tree(root, [*problems, *of_references])


def read_tree(path: "str | os.PathLike[str]", overrides: Iterable[str] = ()) -> Tree:
    """The tree of a file, from which `Config.load` reads a config.

    Raises:
        ConfigIOError: the file can't be read.
        ConfigError: it is not YAML, or an option is none.
    """
    return tree_of(read_text(path), os.fspath(path), overrides)
