"""The tree of nodes that a config is read from: the file over its `defaults:`, with options applied and references."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from burnlike.errors import ConfigError, ConfigIOError, Problem, nearest

from .document import MAX_BYTES, parse, read_text
from .interpolation import interpolate
from .node import MAX_VALUES, Entries, Location, Node, Tree, report
from .overrides import apply, merged
from .shipped import shipped_configs
from .words import got

DEFAULTS = "defaults"
"""The key at the root."""
MAX_FILES = 64
"""Files that a config may be made of, each time that one is named counted."""

_EXPECTED = "expected the path of a YAML file, the name of a shipped config, or a list of such"


def tree_of(text: str, source: str, overrides: Iterable[str] = ()) -> Tree:
    """The tree of a YAML text over the files under its `defaults:`, whose paths are relative to the folder of `source`.

    The `overrides`, `a.b=c` each, are applied before references are put in, so that these see them.
    """
    root, problems = parse(text, source)
    if root.is_map and DEFAULTS in root.value:
        files = _Files(problems, MAX_BYTES - len(text), MAX_FILES - 1)
        root = files.completed(root, source, ())
        if files.some_missing:  # what a config lacks can't be told then, so nothing is read on
            raise ConfigError.of(problems)
    root, reference_problems = interpolate(apply(root, overrides))
    return Tree(root, [*problems, *reference_problems])


def read_tree(path: "str | os.PathLike[str]", overrides: Iterable[str] = ()) -> Tree:
    """The tree of a file, from which `Config.load` reads a config."""
    return tree_of(read_text(path), os.fspath(path), overrides)


@dataclass
class _Files:
    """The files of one config, each read when its turn comes, and how many of them and characters may still be read.

    They are merged in order, then the file itself: mappings key by key, all else is replaced. Where a `type` changes,
    keys of the type before that the new one lacks are dropped when the tree is read.
    """

    problems: list[Problem]
    characters: int
    files: int
    some_missing: bool = False

    def completed(self, node: Node, source: str, above: tuple[str, ...]) -> Node:
        """The tree of the file `source` over those that it names; `above` are the files that led to it, in order."""
        if not node.is_map or DEFAULTS not in node.value:
            return node
        upper = Entries(node.value)
        defaults: Node = upper.pop(DEFAULTS).value
        chain = (*above, source)
        base = Node(Entries(), node.place)
        for index, item in enumerate(defaults.value if defaults.is_list else [defaults]):
            path = f"{DEFAULTS}.{index}" if defaults.is_list else DEFAULTS
            if not isinstance(item.value, str) or not item.value:
                self._refuse(item, path, f"{_EXPECTED}; got {got(item)}")
            elif "${" in item.value:
                self._refuse(item, path, f"{_EXPECTED}; `${{...}}` can't be used here")
            else:
                base = merged(base, self._file(item, path, source, chain))
        result = merged(base, node.with_value(upper))
        if _size(result) > MAX_VALUES:
            self._stop(defaults.place, f"the files hold more than {MAX_VALUES} values together")
        return result

    def _file(self, item: Node, path: str, source: str, chain: tuple[str, ...]) -> Node:
        """The tree of the file that an item names; an empty mapping if it is refused."""
        file = os.path.join(os.path.dirname(source), item.value)
        if not os.path.lexists(file):
            file = str(shipped_configs().get(item.value, file))
        if os.path.realpath(file) in map(os.path.realpath, chain):
            way = " -> ".join(map(_shown, [*chain, file]))
            return self._refuse(item, path, f"a file can't have itself under its defaults: {way}")
        self.files -= 1
        if self.files < 0:
            self._stop(item.place, f"a config is made of at most {MAX_FILES} files")
        try:
            text = read_text(file)
        except ConfigIOError as error:
            reason = error.problems[0].message
            if os.path.basename(item.value) == item.value and not os.path.lexists(file):  # a bare name
                with_ending = os.path.lexists(f"{file}.yaml")
                hint = (
                    f"; did you mean '{item.value}.yaml'?" if with_ending else nearest(item.value, [*shipped_configs()])
                )
                reason = f"no such file{hint}" if hint else reason
            return self._refuse(item, path, f"{_shown(file)}: {reason}")
        self.characters -= len(text)
        if self.characters < 0:
            self._stop(item.place, f"the files are larger than {MAX_BYTES // 2**20} MiB together")
        try:
            node, problems = parse(text, file)
        except ConfigError as error:
            raise ConfigError.of([*self.problems, *error.problems]) from error
        self.problems.extend(problems)
        if not node.is_map:
            return self._refuse(node, "", f"expected a mapping of `key: value`, got {got(node)}")
        return self.completed(node, file, chain)

    def _refuse(self, node: Node, path: str, message: str) -> Node:
        report(self.problems, node.place, path, message)
        self.some_missing = True
        return Node(Entries(), node.place)

    def _stop(self, place: Location, message: str) -> None:
        report(self.problems, place, DEFAULTS, message)
        raise ConfigError.of(self.problems)


def _shown(path: str) -> str:
    """A path whole, on one line."""
    return path if path.isprintable() else repr(path)[1:-1]


def _size(node: Node) -> int:
    """Values of a tree, those that aliases repeat counted each time."""
    return 1 + sum(map(_size, node.parts))
