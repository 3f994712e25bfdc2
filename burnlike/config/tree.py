"""The tree of nodes that a config is read from: the file over its `defaults:`, with options applied and references."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from burnlike._lazy import resolve
from burnlike.errors import ConfigError, ConfigIOError, Problem

from .document import MAX_BYTES, parse, read_text
from .interpolation import interpolate
from .node import MAX_VALUES, Entries, Location, Node, Tree, child, report
from .overrides import apply, merged
from .registry import TAG_FIELD
from .root_keys import without_extensions, without_inputs
from .shipped import shipped_configs
from .words import got

DEFAULTS = "defaults"
"""The key at the root."""
MODEL, FROM = "model", "from"
"""`model: {from: FILE}` in a training: the model of another file, under the other keys of this mapping."""
MAX_FILES = 64
"""Files that a config may be made of, each time that one is named counted."""

_MODULES = "burnlike.config.roles:ModuleConfig"
_EXPECTED_MODEL = "expected the path of a YAML file of a model, or the name of a shipped config"
_EXPECTED = "expected the path of a YAML file, the name of a shipped config, or a list of such"


def tree_of(text: str, source: str, overrides: Iterable[str] = ()) -> Tree:
    """The tree of a YAML text over the files under its `defaults:`, and with the model of the file that
    `model: {from: FILE}` names. Paths are relative to the folder of `source`.

    The `overrides`, `a.b=c` each, are applied before references are put in, so that these see them.
    """
    root, problems = parse(text, source)
    if root.is_map and (DEFAULTS in root.value or _model_file(root) is not None):
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
        if not node.is_map:
            return node
        upper = Entries(node.value)
        if (item := _model_file(node)) is not None:
            upper[MODEL] = upper[MODEL]._replace(value=self._with_model(upper[MODEL].value, item, source, above))
            node = node.with_value(upper)
        if DEFAULTS not in node.value:
            return node
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
        # Files within the limit may be named many times.
        if _size(result) > MAX_VALUES:
            self._stop(defaults.place, f"the files hold more than {MAX_VALUES} values together")
        return result

    def _with_model(self, model: Node, item: Node, source: str, above: tuple[str, ...]) -> Node:
        """The model of the file that `from` names, which may be one of a training, under the other keys beside it."""
        path, entries = f"{MODEL}.{FROM}", Entries(model.value)
        del entries[FROM]
        if not isinstance(item.value, str) or not item.value or "${" in item.value:
            return self._refuse(item, path, f"{_EXPECTED_MODEL}; got {got(item)}")
        root = self._file(item, path, source, (*above, source))
        if TAG_FIELD not in root.value and MODEL in root.value:
            root = root.value[MODEL].value
        elif not self.some_missing:
            root, problems = without_inputs(without_extensions(root), resolve(_MODULES))
            self.problems.extend(problems)
        return merged(root, model.with_value(entries))

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
            return self._refuse(item, path, f"{_shown(file)}: {error.problems[0].message}")
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


def _model_file(root: Node) -> Node | None:
    """The value of `from` in the `model` of a training; None where there is none."""
    model = child(root, MODEL) if TAG_FIELD not in root.value else None
    return None if model is None else child(model, FROM)


def _shown(path: str) -> str:
    """A path whole, on one line."""
    return path if path.isprintable() else repr(path)[1:-1]


def _size(node: Node) -> int:
    """Values of a tree, those that aliases repeat counted each time."""
    return 1 + sum(map(_size, node.parts))
