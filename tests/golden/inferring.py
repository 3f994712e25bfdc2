"""Finding the layout of a bincode file from the same record in a format with names."""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

Layout = Any
Tree = Any


def infer(tree: Tree, data: bytes) -> Layout | None:
    """Find the layout of a bincode file from the same record in a format with names.

    What a tree leaves open is tried against the bytes: what is there may be an option, a list may have its length in
    front, a map with one capitalized key may be an enum. The ids and the tensors' bytes decide.

    Args:
        tree: the item: maps, lists, plain values and None; bytes of tensors as bytes or lists of numbers.
        data: the file, not compressed.

    Returns:
        The layout; None if the tree does not explain the bytes.
    """
    matcher = _Matcher(data)
    try:
        start = matcher.after_envelope()
        return next((layout for layout, end in matcher.match(tree, start) if end == len(data)), None)
    except (IndexError, struct.error):
        return None


class _Matcher:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def after_envelope(self) -> int:
        """Where the item begins: behind five texts."""
        position = 0
        for _ in range(5):
            count, position = self._number(position)
            position += count
        return position

    def match(self, tree: Tree, at: int) -> Iterator[tuple[Layout, int]]:
        """Each layout that explains `tree` at byte `at`, with the place behind it."""
        if tree is None:
            is_byte = self.data[at : at + 1] == b"\0"
            yield ("constant", at + 1) if is_byte else ("unit", at)
            return
        yield from self._plain(tree, at)
        if self.data[at : at + 1] == b"\1":
            yield from (({"$option": below}, end) for below, end in self._plain(tree, at + 1))

    def _plain(self, tree: Tree, at: int) -> Iterator[tuple[Layout, int]]:
        if isinstance(tree, Mapping):
            yield from self._map(tree, at)
        elif isinstance(tree, list | tuple):
            count, behind = self._number(at)
            if count == len(tree):
                yield from (({"$vec": below}, end) for below, end in self._items(list(tree), behind))
            yield from (({"$tuple": below}, end) for below, end in self._items(list(tree), at))
        else:
            for kind, encoded in _scalars(tree):
                if self._has(at, encoded):
                    yield kind, at + len(encoded)

    def _map(self, tree: Mapping[str, Tree], at: int) -> Iterator[tuple[Layout, int]]:
        if tree.keys() == {"id", "param"}:
            label = _text(tree["id"])
            if self._has(at, label):
                yield from (("param", end) for _, end in self._tensor(tree["param"], at + len(label)))
        elif tree.keys() == {"bytes", "shape", "dtype"}:
            yield from self._tensor(tree, at)
        elif tree and all(_is_state(below) for below in tree.values()):
            yield from self._states(tree, at)
        else:
            names = list(tree)
            for below, end in self._items(list(tree.values()), at):
                yield dict(zip(names, below, strict=True)), end
            if len(names) == 1 and names[0][:1].isupper():
                index, behind = self._number(at)
                unknown = [[f"?{number}", "constant"] for number in range(index)]
                for below, end in self.match(tree[names[0]], behind) if index < 64 else ():
                    yield {"$enum": [*unknown, [names[0], below]]}, end

    def _items(self, trees: list[Tree], at: int) -> Iterator[tuple[list[Layout], int]]:
        """Each way to explain one tree behind the other; lists may be longer than Python's stack is deep."""
        if not trees:
            yield [], at
            return
        found: list[Layout] = []
        tried = [self.match(trees[0], at)]
        while tried:
            step = next(tried[-1], None)
            if step is None:
                tried.pop()
                continue
            found[len(tried) - 1 :] = [step[0]]
            if len(found) == len(trees):
                yield list(found), step[1]
            else:
                tried.append(self.match(trees[len(found)], step[1]))

    def _states(self, tree: Mapping[str, Tree], at: int) -> Iterator[tuple[Layout, int]]:
        """A map's order differs from file to file: the bytes say it."""
        count, at = self._number(at)
        layouts: dict[str, Layout] = {}
        for _ in range(count if count == len(tree) else 0):
            length, begin = self._number(at)
            name = self.data[begin : begin + length].decode("ascii", "replace")
            if name not in tree:
                return
            ((rank, state),) = tree[name]["V1"].items()
            head = bytes([0, int(rank[4:])])
            if not self._has(begin + length, head):
                return
            found = next(self.match(state, begin + length + 2), None)
            if found is None:
                return
            layouts[name], at = {"$state": found[0], "rank": head[1]}, found[1]
        if layouts:
            yield layouts, at

    def _tensor(self, tensor: Mapping[str, Any], at: int) -> Iterator[tuple[Layout, int]]:
        content = bytes(tensor["bytes"])
        shape = b"".join(map(_encoded, tensor["shape"]))
        expected = _encoded(len(content)) + content + _encoded(len(tensor["shape"])) + shape
        if self._has(at, expected):
            yield "tensor", at + len(expected) + (2 if isinstance(tensor["dtype"], Mapping) else 1)

    def _has(self, at: int, expected: bytes) -> bool:
        return self.data[at : at + len(expected)] == expected

    def _number(self, at: int) -> tuple[int, int]:
        if at >= len(self.data):
            return -1, at
        first = self.data[at]
        form = {251: "<H", 252: "<I", 253: "<Q"}.get(first)
        if form is None:
            return first, at + 1
        return struct.unpack_from(form, self.data, at + 1)[0], at + 1 + struct.calcsize(form)


def _is_state(tree: Tree) -> bool:
    ranked = tree.get("V1") if isinstance(tree, Mapping) and len(tree) == 1 else None
    return isinstance(ranked, Mapping) and len(ranked) == 1 and next(iter(ranked)).startswith("Rank")


def _encoded(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    for tag, form, limit in ((251, "<H", 1 << 16), (252, "<I", 1 << 32)):
        if number < limit:
            return bytes([tag]) + struct.pack(form, number)
    return b"\xfd" + struct.pack("<Q", number)


def _text(text: str) -> bytes:
    return _encoded(len(text.encode())) + text.encode()


def _scalars(value: Any) -> list[tuple[str, bytes]]:
    """Each type that a plain value may have, with its bytes."""
    if isinstance(value, bool):
        return [("bool", bytes([value]))]
    if isinstance(value, str):
        return [("str", _text(value))]
    doubles = [("f64", struct.pack("<d", value)), ("f32", struct.pack("<f", value))]
    if isinstance(value, float):
        return doubles
    signed = ("i64", _encoded(value * 2 if value >= 0 else -value * 2 - 1))
    return [*([("usize", _encoded(value))] if value >= 0 else []), signed, *doubles]
