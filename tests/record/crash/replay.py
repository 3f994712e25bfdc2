"""Power loss: the files that a disk may have after it, from the journal of what was written and synced before.

What was synced is there. Of what was not, each write of a file may be there or not, and of each directory the first of
its changes: file systems keep the order of these.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple


class NothingMore(Random):
    """Draws by which a loss of power takes all that was not synced."""

    def random(self) -> float:
        return 1.0

    def randint(self, a: int, b: int) -> int:
        return a


class Change(NamedTuple):
    """A line of the journal, see `shim.c`."""

    operation: str
    inode: int
    place: int
    path: str
    target: str
    data: bytes


def read_journal(file: Path) -> list[Change]:
    """The changes in their order."""
    text, at, found = file.read_bytes(), 0, []
    while at < len(text):
        end = text.index(b"\n", at)
        operation, *numbers = text[at:end].decode().split()
        inode, place, count, first, second = map(int, numbers)
        paths, at = text[end + 1 : end + 1 + first + second], end + 1 + first + second + count
        path = paths[:first].decode().removesuffix(" (deleted)")
        found.append(Change(operation, inode, place, path, paths[first:].decode(), text[at - count : at]))
    return found


@dataclass
class Node:
    """A file or a directory.

    Attributes:
        content: of a file that was there before.
        names: of a directory, as they are without a loss of power.
        changes: number of the change -> a write `(place, bytes)` or a length of a file; a name of a directory with the
            node that has it from there on, or None.
        syncs: the numbers of the changes that were synced up to there.
    """

    content: bytes | None = None
    names: dict[str, "Node"] = field(default_factory=dict)
    changes: list[tuple[int, object]] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)
    before: dict[str, "Node"] = field(default_factory=dict)


class Disk:
    """A folder, and what became of it."""

    def __init__(self, folder: Path) -> None:
        """Take what is in the folder now."""
        self._folder = folder
        self._root = self._taken(folder)
        self.count = 0

    def _taken(self, path: Path) -> Node:
        if path.is_file():
            return Node(content=path.read_bytes())
        node = Node(names={it.name: self._taken(it) for it in path.iterdir()})
        node.before = dict(node.names)
        return node

    def play(self, journal: list[Change]) -> None:
        """Note what was changed."""
        self.count = len(journal)
        for number, change in enumerate(journal):
            self._play(number, change)

    def _node(self, path: str) -> Node | None:
        node: Node | None = self._root
        for part in Path(path).relative_to(self._folder).parts:
            node = None if node is None else node.names.get(part)
        return node

    def _name(self, number: int, path: str, node: Node | None) -> None:
        parent, name = self._node(os.path.dirname(path)), os.path.basename(path)
        assert parent is not None, path
        parent.names.pop(name, None)
        if node is not None:
            parent.names[name] = node
        parent.changes.append((number, (name, node)))

    def _play(self, number: int, change: Change) -> None:
        node = self._node(change.path)
        if change.operation in "CW" and node is None:
            self._name(number, change.path, node := Node(content=b""))
        match change.operation:
            case "M":
                self._name(number, change.path, Node())
            case "U":
                self._name(number, change.path, None)
            case "R":
                self._name(number, change.target, node)
                self._name(number, change.path, None)
            case "X":
                other = self._node(change.target)
                self._name(number, change.target, node)
                self._name(number, change.path, other)
            case "L":
                self._name(number, change.target, node)
            case "S" if node is not None:
                node.syncs.append(number)
            case "W" if node is not None:
                node.changes.append((number, (change.place, change.data)))
            case "T" if node is not None:
                node.changes.append((number, change.place))
            case "C" if node is not None and change.place:
                node.changes.append((number, 0))
            case _:
                pass

    def after_loss(self, at: int, random: Random, folder: Path) -> None:
        """Write to a new folder what may be there if power is lost before change number `at`."""
        folder.mkdir()
        self._write(self._root, at, random, folder)

    def _write(self, node: Node, at: int, random: Random, path: Path) -> None:
        synced = max((it for it in node.syncs if it < at), default=-1)
        past = [it for it in node.changes if it[0] < at]
        sure = [it for it in past if it[0] < synced]
        rest = past[len(sure) :]
        if node.content is not None:
            content = bytearray(node.content)
            for _, change in [*sure, *(it for it in rest if random.random() < 0.5)]:
                if isinstance(change, int):
                    content[change:] = bytes(max(0, change - len(content)))
                else:
                    place, data = change  # type: ignore[misc]
                    content[len(content) :] = bytes(max(0, place - len(content)))
                    content[place : place + len(data)] = data
            path.write_bytes(content)
            return
        names = dict(node.before)
        for _, change in [*sure, *rest[: random.randint(0, len(rest))]]:
            name, found = change  # type: ignore[misc]
            names.pop(name, None)
            if found is not None:
                names[name] = found
        for name, found in names.items():
            if found.content is None:
                (path / name).mkdir()
            self._write(found, at, random, path / name)
