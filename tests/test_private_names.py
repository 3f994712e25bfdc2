"""Private names of torch are used in `burnlike/_torch_compat` alone.

A private name is refused where it is imported from torch, and where it is asked of an object (`tensor._version`, also
by `getattr`) in a file that does not define it itself. What `_torch_compat` uses is refused in texts too.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "burnlike"
COMPAT = PACKAGE / "_torch_compat"

ALLOWED = {
    **dict.fromkeys(
        ["_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"],
        "the dicts of a module; torch has no public way to write to them, and each walk reads them",
    ),
    "_load_from_state_dict": "torch documents it for subclasses to override",
    "_save_to_state_dict": "likewise",
    "_step_supports_amp_scaling": "what GradScaler asks of an optimizer that unscales by itself",
    **dict.fromkeys(["_asdict", "_fields", "_replace"], "public methods of named tuples"),
    **dict.fromkeys(["_at_fork_reinit", "_current_frames", "_getframe", "_inheriting", "_slotnames"], "Python's own"),
    **dict.fromkeys(
        ["_attn_implementation", "_attn_implementation_internal"],
        "transformers' own: which kind of attention a model's parts compute, with and without those within it",
    ),
    "_from_config": "transformers' own: its auto classes make a model of a class, a type and a kind of attention by it",
    **dict.fromkeys(
        ["_apply_gate", "_experts_implementation", "_is_expert_parallel"],
        "transformers' own: by these it chooses how the experts of a mixture compute",
    ),
    "_actions": "of Python's own argparse, which has no public list of a parser's options",
    **dict.fromkeys(["_Stop", "_file_read", "_file_readline"], "of Python's own unpickler"),
}
READS_FILES = PACKAGE / "record" / "torch_files"
"""It imports no torch; the names are those that torch writes into files."""


def is_private(name: str) -> bool:
    """Whether `name`, or a part of it between dots, is for torch's own use."""
    return any(part.startswith("_") and not part.startswith("__") and part != "_" for part in name.split("."))


KINDS = (
    ast.Attribute,
    ast.Call,
    ast.ClassDef,
    ast.Constant,
    ast.FunctionDef,
    ast.Import,
    ast.ImportFrom,
    ast.Name,
    ast.arg,
)
"""Kinds of nodes that are looked at: the other half of the tree is not kept."""


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(it for it in ast.walk(ast.parse(path.read_text())) if isinstance(it, KINDS))


def files() -> list[Path]:
    """All of burnlike but `_torch_compat`."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != COMPAT)


def asked(node: ast.AST) -> list[str]:
    """The name that is asked of an object here."""
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return [name]
    return []


def text(node: ast.AST) -> list[str]:
    """The text that is written here."""
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@cache
def defined(path: Path) -> frozenset[str]:
    """The names that a file gives to something."""
    names: set[str] = set()
    for node in nodes_of(path):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store())
            ):
                names.add(name)
    return frozenset(names)


@cache
def ours() -> frozenset[str]:
    """The names that any file of burnlike gives to something."""
    return frozenset().union(*map(defined, files()))


@cache
def of_torch() -> frozenset[str]:
    """The private names that `_torch_compat` uses, which no other file may write down either."""
    found = {name for path in COMPAT.glob("*.py") for node in nodes_of(path) for name in (*asked(node), *text(node))}
    private = frozenset(name for name in found if name.isidentifier() and is_private(name))
    return private - ALLOWED.keys() - {"_C"}  # as our own library is called, too


def imported(node: ast.AST) -> list[str]:
    """What is imported from torch here."""
    match node:
        case ast.ImportFrom(module=str(module), names=aliases, level=0):
            found = [f"{module}.{alias.name}" for alias in aliases]
        case ast.Import(names=aliases):
            found = [alias.name for alias in aliases]
        case _:
            found = []
    return [name for name in found if name.split(".")[0] == "torch"]


def wrong(path: Path) -> Iterator[str]:
    """Where a file uses private names of torch."""
    known, refused = ours() | defined(path), frozenset() if path.parent == READS_FILES else of_torch() - defined(path)
    for node in nodes_of(path):
        names = [*imported(node), *(name for name in asked(node) if name not in known)]
        names += [name for name in (*asked(node), *text(node)) if name in refused]
        names += [name for name in text(node) if name.startswith("torch.") and path.parent != READS_FILES]
        for name in dict.fromkeys(names):
            if is_private(name) and name not in ALLOWED and not name.startswith("_burnlike_"):
                yield f"{path}:{node.lineno}: {name}"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow
def test_private_names_of_torch_are_in_one_place() -> None:
    found = [line for path in files() for line in wrong(path)]
    assert not found, "private names of torch belong in burnlike/_torch_compat:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "from torch.utils import _pytree",
        "from torch.utils._pytree import tree_map",
        "import torch._dynamo",
        "torch._C._are_functorch_transforms_active()",
        "torch._foreach_add_(a, b)",
        "a._version",
        "optimizer._opt_called = True",
        "function._dynamo_marked_constant = True",
        "self._base",
        "tensor.untyped_storage()._cdata",
        "getattr(a, '_backward_hooks')",
        "a.__dict__['_forward_hooks']",
        "sys.modules['torch._dynamo']",
    ],
)
def test_a_private_name_elsewhere_is_found(line: str, tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(f"import torch\n{line}\n")
    assert [found.split(":")[1] for found in wrong(path)][:1] == ["2"]
