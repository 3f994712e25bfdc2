"""A model as a tree of text: names, types, shapes of parameters, counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Branch:
    """A module in the tree: the name of its class, its children by name, and the elements of its parameters, each once.

    `tensors` are its own parameters and saved buffers: name and shape, or the path of the one that it is.
    """

    type: str
    tensors: tuple[str, ...]
    children: tuple[tuple[str, "Branch"], ...]
    count: int


def branch_of(module: "nn.Module") -> Branch:
    """The tree of a module."""
    return _branch(module, "", {}, {})


def _branch(module: "nn.Module", path: str, tensors: dict[int, str], modules: dict[int, str]) -> Branch:
    """The branch at `path`; `tensors` and `modules` have the first path of each that was met, by its address."""
    lines = []
    for name, tensor in (*module.named_parameters("", False), *module.named_buffers("", False)):
        if name in module._non_persistent_buffers_set:
            continue
        first = tensors.setdefault(id(tensor), f"{path}{name}")
        lines.append(f"{name} {list(tensor.shape)}" if first == f"{path}{name}" else f"{name} = {first}")
    children = []
    for name, child in module._modules.items():
        if child is None:
            continue
        count = sum(parameter.numel() for parameter in child.parameters())
        first = modules.setdefault(id(child), f"{path}{name}")
        # Modules without parameters, as one activation that many layers share, are no ties worth a line.
        if first == f"{path}{name}" or not count:
            below = _branch(child, f"{path}{name}.", tensors, modules)
        else:
            below = Branch(f"{type(child).__name__} = {first}", (), (), count)
        children.append((name, below))
    return Branch(type(module).__name__, tuple(lines), tuple(children), sum(it.numel() for it in module.parameters()))


def tree_lines(tree: Branch, depth: int | None = None) -> Iterator[str]:
    """The tree as lines, `depth` levels below the model, None for all; equal children in a row: `0..11: 12 x Block`."""
    yield _label("", tree)
    yield from _lines(tree, "", depth)


def _lines(tree: Branch, margin: str, depth: int | None) -> Iterator[str]:
    if depth is not None and depth <= 0:
        return
    groups = grouped(tree.children)
    for place, (name, child, times) in enumerate(groups):
        last = place == len(groups) - 1
        yield f"{margin}{'└─ ' if last else '├─ '}{_label(name, child, times)}"
        yield from _lines(child, f"{margin}{'   ' if last else '│  '}", None if depth is None else depth - 1)


def grouped(children: tuple[tuple[str, Branch], ...]) -> list[tuple[str, Branch, int]]:
    """The children, equal ones in a row that are numbered as one: the name, the branch, and how many there are."""
    groups: list[tuple[str, Branch, int]] = []
    for name, child in children:
        if groups and name.isdecimal() and groups[-1][0].isdecimal() and groups[-1][1] == child:
            groups[-1] = (groups[-1][0], child, groups[-1][2] + 1)
        else:
            groups.append((name, child, 1))
    return [(name if times == 1 else f"{name}..{int(name) + times - 1}", child, times) for name, child, times in groups]


def _label(name: str, tree: Branch, times: int = 1) -> str:
    label = f"{name}: " if name else ""
    label += f"{times} x {tree.type}" if times > 1 else tree.type
    label += f"  {', '.join(tree.tensors)}" if tree.tensors else ""
    if not tree.count or (times == 1 and len(tree.tensors) == 1 and not tree.children):
        return label
    return f"{label}  ({tree.count:,} parameters{' each' * (times > 1)})"
