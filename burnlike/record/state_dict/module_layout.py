"""The layout of a module's record: its fields in the order of declaration, as Burn's structs have them.

A class that knows better than its fields do defines `record_layout(self)`, which returns the layout of its part.

Layers of Burn 0.14 to 0.20 had other fields than those of 0.21 (the structs with `derive(Module)` of burn-core 0.14 to
0.18 and of burn-nn 0.19 to 0.21). Bincode has a field's form and no name, so a layout must be that of the version which
the file names.
"""

import inspect
import re
import types
from collections.abc import Mapping
from functools import cache, reduce
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from torch import Tensor, nn

from ...errors import RecordError
from ...module import ModuleEnum, Param
from ...module.containers.sequences import Container
from ...module.module import Module
from ...module.printing.values import shown_names
from ...module.torch_objects.wrappers import container_of, own_class, parametrizations_of, reparameterization_of, unwrap
from ...module.tree.traversal import field_names, slots_of
from ...tensor.core.base import TensorBase
from ..layout import WRITTEN, BurnVersion, Layout

_LSTM = ("batch_first", "reverse", "clip", "input_forget", "gate_activation", "cell_activation", "hidden_activation")
_CHANGES: tuple[tuple[BurnVersion, Mapping[str, Mapping[str, Layout | None]]], ...] = (
    (
        (0, 21),
        {
            "Lstm": {"clip": {"$option": "constant"}},
            "Gru": dict.fromkeys(("gate_activation", "hidden_activation", "clip")),
            **{layer: {"padding": "constant"} for layer in ("Conv1d", "Conv2d", "Conv3d", "DeformConv2d")},
        },
    ),
    ((0, 20), {"Lstm": dict.fromkeys(_LSTM), "BiLstm": {"batch_first": None}, "LayerNorm": {"beta": "param"}}),
    ((0, 17), {"Gru": {"reset_after": None}}),
)
"""Before which version, layer, field -> its layout then, None where it wasn't there."""

OLD_ACTIVATIONS = (
    *("Gelu", "PRelu", "Relu", "LeakyRelu", "SwiGlu", "Sigmoid", "Tanh", "HardSigmoid"),
    *("HardSwish", "Softplus"),  # not in 0.19
)
"""The variants of `Activation` before 0.21, in order."""


def changed_fields(cls: type, version: BurnVersion) -> dict[str, Layout | None]:
    """The fields of a layer that a version of Burn had in another form, with that form; None for those it had not."""
    if version >= (0, 21):
        return {}
    layers = {base.__name__ for base in cls.__mro__ if base.__module__.startswith("burnlike.nn.")}
    changed: dict[str, Layout | None] = {}
    for before, of_layers in _CHANGES:
        if version < before:
            for layer in layers & of_layers.keys():
                changed |= of_layers[layer]
    return changed


def constant_before(version: BurnVersion, value: Any, *, optional: bool) -> Layout:
    """The layout of a field that is not saved: before 0.21 an array, list or option had a constant for each item."""
    if version >= (0, 21):
        return "constant"
    if optional:
        return {"$option": "constant"}
    if isinstance(value, tuple | list):
        return {"$tuple" if isinstance(value, tuple) else "$vec": ["constant"] * len(value)}
    return "constant"


Holds = Literal["", "tensor", "module", "list"]

_HOOK = "record_layout"
_TENSORS = (Tensor, TensorBase, Param)


class FieldHint(NamedTuple):
    """An annotation: whether the field may be None, and what else it holds; empty for constants and the unknown."""

    optional: bool = False
    holds: Holds = ""


def hints_of(cls: type) -> dict[str, FieldHint]:
    """The annotations of `cls` and its bases by name, but for torch's."""
    hints: dict[str, FieldHint] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("torch."):
            continue
        try:
            annotations = inspect.get_annotations(base, eval_str=True)
        except Exception:  # whatever the evaluation of a user's annotation raises: a name that type checkers alone know
            annotations = inspect.get_annotations(base)
        hints |= {name: _hint(annotation) for name, annotation in annotations.items()}
    return hints


def variants_of(cls: type) -> list[str]:
    """The variants that a ModuleEnum's class annotates, in order."""
    enum_bases = ModuleEnum.__mro__
    bases = [base for base in reversed(cls.__mro__) if base not in enum_bases]
    return [name for base in bases for name in inspect.get_annotations(base) if not name.startswith("_")]


def _hint(annotation: Any) -> FieldHint:
    if isinstance(annotation, str):
        has_tensor = re.search(r"\b(Tensor|Parameter|Param|Buffer)\b", annotation) is not None
        is_list = re.match(r"(typing\.)?[lL]ist\[", annotation) is not None
        optional = re.search(r"\bNone\b|\bOptional\b", annotation) is not None
        return FieldHint(optional, ("list" if is_list else "tensor") if has_tensor else "")
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = [arg for arg in args if arg is not types.NoneType]
        holds: set[Holds] = {_hint(arg).holds for arg in rest}
        return FieldHint(len(rest) < len(args), holds.pop() if len(holds) == 1 else "")
    if origin is list:
        return FieldHint(holds="list" if args and _hint(args[0]).holds else "")
    if not isinstance(origin, type):
        return FieldHint()
    if issubclass(origin, _TENSORS):
        return FieldHint(holds="tensor")
    return FieldHint(holds="module" if issubclass(origin, nn.Module) else "")


def layout_of(module: nn.Module, version: BurnVersion = WRITTEN) -> Layout:
    """The layout of the record of `module`, for formats that nest or carry no names; see `burnlike.record.layout`.

    - Parameters and persistent buffers are `param`, other modules are structs, lists and tuples of them `$vec` and
      `$tuple`, dicts structs, a `ModuleEnum` is an `$enum` of the variants that its class annotates, in that order.
    - What else a burnlike Module has as a field is a `constant`, but for names that begin with `_`. Of other modules
      only parameters, persistent buffers and children count.
    - A module that has no place for a tensor is a `constant`, as Burn's dropouts and activations are.
    - A field is an `$option` if the class annotates it so (`bias: Tensor | None`), or if it is None in place of a
      tensor. An empty list is a `$vec` if it is annotated as one of modules or tensors.
    - A class that defines `record_layout(self)` tells the layout of its part itself.
    - Older versions of Burn, from 0.14 on, had other fields, and lists of constants: `version=(0, 16)` is for theirs.
    - A tied tensor is at each of its places; wrappers (DDP, `torch.compile`, ...) are looked through.

    RecordError refuses reparameterized tensors and names that begin with `$`, ModuleTreeError what holds itself.
    """
    slots_of(module)
    return _LayoutMaker(version).of(module)


class _LayoutMaker:
    def __init__(self, version: BurnVersion) -> None:
        self._hints_of = cache(hints_of)
        self._version = version

    def of(self, module: nn.Module) -> Layout:
        module = unwrap(module)
        cls = own_class(module)
        if hasattr(cls, _HOOK):
            return getattr(module, _HOOK)()
        if isinstance(module, Container):
            names = [*module._names()]
        else:
            fields = field_names(module)
            names = [*(shown_names(module, dict.fromkeys(fields)) if isinstance(module, Module) else fields)]
        kind = container_of(module)
        if kind == "Vec" and names == [str(index) for index in range(len(names))]:
            return {"$vec": self._items(module, names)}
        if kind in ("Tuple", "Array"):
            return {"$tuple": self._items(module, names)}
        if isinstance(module, ModuleEnum):
            return self._enum(module)
        hints = self._hints_of(cls)
        is_empty = kind.startswith("Struct:") and not (module._parameters or module._buffers or module._modules)
        # What has no place for a tensor; Burn makes a struct of what holds a tensor that isn't saved, too.
        if is_empty and not any(
            isinstance(getattr(module, name), Tensor | TensorBase) or hints.get(name, FieldHint()).holds
            for name in names
        ):
            return "constant"
        layouts: dict[str, Layout] = {}
        for name in names:
            if name.startswith("$"):
                raise RecordError(f"the field '{name}' of {type(module).__name__} can't begin with $ in a layout")
            if (below := self._field(module, name, hints.get(name, FieldHint()))) is not None:
                layouts[name] = below
        for slot in slots_of(module) if len(parametrizations_of(module)) > 0 else ():
            if slot.path.startswith("parametrizations."):  # a tensor that torch's parametrizations moved
                *above, last = slot.path.split(".")
                reduce(lambda tree, name: tree.setdefault(name, {}), above, layouts)[last] = "param"
        changed = changed_fields(cls, self._version)
        return {
            name: changed.get(name, below) for name, below in layouts.items() if changed.get(name, below) is not None
        }

    def _items(self, module: nn.Module, names: list[str]) -> list[Layout]:
        return [self._field(module, name, FieldHint()) or "constant" for name in names]

    def _field(self, module: nn.Module, name: str, hint: FieldHint) -> Layout | None:
        """The layout of one field, None for what has no place."""
        if name in parametrizations_of(module):
            if reparameterization_of(module, name) is not None:
                raise RecordError(
                    f"'{name}' of {type(module).__name__} is reparameterized, for which formats that nest have no"
                    " place; call burnlike.module.materialize(module) before, or save as safetensors"
                )
            return None
        is_saved = name not in module._non_persistent_buffers_set
        there: Layout | None = None
        if (child := module._modules.get(name)) is not None:
            there = self.of(child)
        elif module._parameters.get(name) is not None or (module._buffers.get(name) is not None and is_saved):
            there = "param"
        if there is not None:
            return {"$option": there} if hint.optional else there
        if getattr(module, name, None) is None and is_saved:
            if name in module._parameters or name in module._buffers or hint.holds == "tensor":
                return {"$option": "param"}
            if name in module._modules or hint.holds == "module":
                return {"$option": "constant", "some": False}
        elif hint.holds == "list" and isinstance(value := getattr(module, name), list) and not value:
            return {"$vec": []}
        if not isinstance(module, Module) or name.startswith("_"):
            return None
        return constant_before(self._version, getattr(module, name, None), optional=hint.optional)

    def _enum(self, module: ModuleEnum) -> Layout:
        variant_layout = self._field(module, module.variant, FieldHint()) or "constant"
        names = variants_of(own_class(module))
        if self._version < WRITTEN and own_class(module).__qualname__ == "Activation":
            names = [name for name in names if name in OLD_ACTIVATIONS]
        if module.variant not in names:  # it can't be known which number it has
            return {"$named": {"$enum": [[module.variant, variant_layout]], "is": module.variant}}
        return {
            "$enum": [[name, variant_layout if name == module.variant else "constant"] for name in names],
            "is": module.variant,
        }
