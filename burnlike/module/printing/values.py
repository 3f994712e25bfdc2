"""The texts of a display: values in Rust's two ways, and the names, counts and texts of the parts of a tree."""

import ast
import dataclasses
import enum
import inspect
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from decimal import Decimal
from functools import cache
from itertools import islice
from os import PathLike, fspath
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from ..attributes.plain_attributes import USER_CONTAINER
from ..identity.field_metadata import fields_with, meta_of, ordered_fields
from ..identity.param_id import ParamId
from ..torch_objects.wrappers import base_tensor, container_of, own_class, unwrap
from ..transforms.mapping import kind_of
from ..transforms.placement import num_params

_MOST_ITEMS = 32
_LONGEST_TEXT = 200
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def display_text(value: Any) -> str:
    """`value` as Rust's Display shows it; what has no such form as `debug_text`."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str(value)
    if not isinstance(value, float):
        return debug_text(value)
    text = _shortest_decimal(value)  # Rust's `{}`: never an exponent, no `.0`
    return text if text in ("NaN", "inf", "-inf") else format(Decimal(text), "f").removesuffix(".0")


def debug_text(value: Any, above: tuple[int, ...] = ()) -> str:
    """`value` as Rust's Debug shows it, on one line; very long ones are cut.

    `above` are the ids of the collections that it lies in, for one may hold itself.
    """
    try:
        return _cased(value, above)
    except Exception:
        # A display shows a whole model: a value that can't be asked for its text must not hide the rest.
        return type(value).__name__


def type_text(module: nn.Module) -> str:
    """The name of the class that the program gave `module`."""
    return own_class(unwrap(module)).__name__


def tensor_text(tensor: Any, name: str = "Tensor") -> str:
    """Rank and shape of anything with a shape."""
    shape = list(tensor.shape)
    return f"{name} {{rank: {len(shape)}, shape: {shape}}}"


@cache
def optional_fields(cls: type) -> frozenset[str]:
    """The names that `cls` annotates with a type that may be None."""
    optional_of: dict[str, bool] = {}
    for base in reversed(cls.__mro__):
        optional_of |= {name: _is_optional(annotation) for name, annotation in inspect.get_annotations(base).items()}
    return frozenset(name for name, optional in optional_of.items() if optional)


def _is_optional(annotation: Any) -> bool:
    if not isinstance(annotation, str):
        return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)
    with suppress(SyntaxError):
        return _is_optional_source(ast.parse(annotation, mode="eval").body)
    return False


def _is_optional_source(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return any(_is_none(side) or _is_optional_source(side) for side in (left, right))
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inside):
            members = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            return name == "Optional" or (name == "Union" and any(map(_is_none, members)))
    return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _cased(value: Any, above: tuple[int, ...]) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "None", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _shortest_decimal(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, nn.Module):
        # Referred to, not held: what is held was registered by torch.
        return f"&{type_text(value)}"
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    if isinstance(value, torch.device | torch.dtype):
        return str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if type(value).__module__ == "numpy" and value.shape == ():
            return debug_text(value.item())
        return tensor_text(value, "Tensor" if isinstance(value, Tensor) else type(value).__name__)
    if isinstance(value, PathLike):
        return _quoted(str(fspath(value)))
    if id(value) in above:
        return ".."
    return _collection(value, (*above, id(value)))


def _collection(value: Any, above: tuple[int, ...]) -> str:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.repr]
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", None)
    else:
        names = getattr(type(value), "__struct_fields__", None)  # of a Config
    if names is not None:
        inside = _joined(f"{name}: {debug_text(getattr(value, name, None), above)}" for name in names)
        return f"{type(value).__name__} {{ {inside} }}" if inside else type(value).__name__
    if isinstance(value, list | torch.Size):
        return f"[{_joined(debug_text(item, above) for item in value)}]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({_joined(debug_text(item, above) for item in value)}{comma})"
    if isinstance(value, Mapping):
        return f"{{{_joined(f'{debug_text(key, above)}: {debug_text(item, above)}' for key, item in value.items())}}}"
    if isinstance(value, Set):
        if len(value) > _MOST_ITEMS:
            return f"{{{len(value)} items}}"
        # Sorted, for the order of a set of texts differs from one process to the next.
        return f"{{{_joined(sorted(debug_text(item, above) for item in value))}}}"
    text = " ".join(repr(value).split())
    # An address says nothing to a reader and makes texts differ.
    return type(value).__name__ if " at 0x" in text else _cut(text)


def _joined(items: Iterable[str]) -> str:
    shown = list(islice(items, _MOST_ITEMS + 1))
    return ", ".join([*shown[:_MOST_ITEMS], ".."] if len(shown) > _MOST_ITEMS else shown)


def _quoted(text: str) -> str:
    escaped = [_ESCAPES.get(it) or (it if it.isprintable() else f"\\u{{{ord(it):x}}}") for it in _cut(text)]
    return f'"{"".join(escaped)}"'


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}.."


def _shortest_decimal(value: float) -> str:
    """Rust's `{:?}`; both languages turn to exponents below 1e-4 and from 1e16 on."""
    text = float.__repr__(value)
    if text == "nan":
        return "NaN"
    digits, exponent, power = text.partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def top_text(module: nn.Module) -> str:
    """The text before the braces: the class, the variant of an enum, or the form of a sequence."""
    sequence = sequence_kind(module)
    if sequence:
        return sequence_text(sequence, len(module.__dict__.get(USER_CONTAINER, module)))
    kind = container_of(module)
    variant = next(iter(module._modules), None) if kind.startswith("Enum:") else None
    return variant or kind.partition(":")[2] or type_text(module)


def sequence_text(kind: str, count: int) -> str:
    """The text before the braces of a `Vec`, `Array`, `Tuple` or `Dict` of `count` items."""
    names = ", ".join(f"L{index}" for index in range(count)) if kind == "Tuple" else ""
    return {"Vec": f"Vec<0..{count}>", "Array": f"[0..{count}]", "Tuple": f"({names})"}.get(kind, kind)


def sequence_kind(module: nn.Module) -> str:
    """`Vec`, `Array`, `Tuple` or `Dict` for what only collects, which has no count of its own; else nothing."""
    kind = container_of(module)
    # A Sequential is a Vec to visitors, but it computes: it is shown by its name.
    return "" if ":" in kind or own_class(module) is nn.Sequential else kind


def shown_names(module: nn.Module, tensors_and_modules: dict[str, None]) -> Iterable[str]:
    """The fields to be shown, in order of declaration; constants whose place is not known come first."""
    parts = module.__dict__
    cls = own_class(module)
    # Tools put their own `forward` and other methods on a module: they are no fields.
    constants = [
        name
        for name, value in parts.items()
        if not name.startswith("_") and name != "training" and not (callable(value) and hasattr(cls, name))
    ]
    fields = ordered_fields(module)
    shown = {*constants, *tensors_and_modules}
    placed = [name for name in fields if name in shown]
    return dict.fromkeys([*(name for name in constants if name not in fields), *placed, *tensors_and_modules])


def param_text(tensor: Tensor, is_weight: bool, param_id: ParamId | None) -> str:
    """The text of a parameter or persistent buffer, of floats a running statistic; with the id if it is given."""
    kind = kind_of(tensor)
    if not is_weight and kind == "float":
        return "RunningState"
    # Those of torch's lazy layers have no shape before the first forward.
    start = "ParamTensor {uninitialized" if is_shapeless(tensor) else tensor_text(tensor, "ParamTensor")[:-1]
    text = f"{start}, kind: {kind}"
    return f"{text}}}" if param_id is None else f"{text}, id: {param_id}}}"


def count_params(module: nn.Module) -> int:
    """As `num_params`; 0 of a tree that holds itself, which is displayed to find out where."""
    with suppress(ModuleTreeError):
        return num_params(module)
    return 0


def missing_text(module: nn.Module, name: str) -> str:
    """The text for a tensor that should be there and is not; empty otherwise."""
    meta = meta_of(module, name)
    if not (meta.hole or meta.trainable is not None) or base_tensor(module, name) is not None:
        return ""
    return "Hole" if meta.hole else "Uninitialized"


def has_missing(module: nn.Module) -> bool:
    """True if a tensor of the tree is to be there and is not: then fields show what is left."""
    return any(
        missing_text(part, name) and part._modules.get(name) is None
        for part in module.modules()
        for name in fields_with(part, "meta")
    )
