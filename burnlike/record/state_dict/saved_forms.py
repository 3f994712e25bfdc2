"""The form of parameters in a record, where it is not the tensor itself: what mappers make of it, or its parts.

A tensor that is made of others, as torchao's quantized ones are, is in a record as these, each by its name. Beside
them, among the values, stands under the parameter's path which class they make: `{"$parts": {"qdata": "Int8Tensor",
...}}`. It is only compared. Parts are stored and loaded in their own types.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ...errors import RecordError
from ...module import Param
from ...module.torch_objects.wrappers import is_distributed
from ..layout import join
from ..values import PARTS
from .own_code import entry_tensors


def expected_form(param: Param) -> tuple[torch.dtype, torch.Size] | None:
    """The type and shape that a record must have of a parameter with a load mapper; None if only mapping can tell."""
    present = param.tensor
    if param.mappers.save is None:
        return None
    try:
        saved = map_tensor(param, "save", torch.empty(present.shape, dtype=present.dtype, device="meta"))
    except RecordError:  # it looks at values
        return None
    return saved.dtype, saved.shape


@torch.no_grad()
def map_tensor(param: Param, which: str, tensor: Tensor) -> Tensor:
    """What the `save` or `load` mapper of a parameter makes of a tensor."""
    try:
        found = getattr(param.mappers, which)(tensor)
    except Exception as error:
        raise RecordError(f"the {which} mapper of '{param.path}' failed: {error}; nothing was changed") from error
    if not isinstance(found, Tensor):
        raise RecordError(
            f"the {which} mapper of '{param.path}' gave {type(found).__name__}, expected a torch.Tensor;"
            " nothing was changed"
        )
    return found.detach()


class TensorPart(nn.Module):
    """Holds a part, as a module does its buffer, with the path and the class of the parameter."""

    def __init__(self, param: Param, name: str, tensor: Tensor) -> None:
        super().__init__()
        self.path, self.name, self.of = param.path, name, type(param.tensor).__name__
        self.register_buffer("tensor", tensor.detach())


def tensor_part(param: Param) -> TensorPart | None:
    """The part that it is, if it is no parameter of a module."""
    holder = param.home[0]
    return holder if isinstance(holder, TensorPart) else None


def in_parts(params: Sequence[Param]) -> Sequence[Param]:
    """The parameters, with the parts, such as `layer.weight.scale`, in the place of each that is made of some.

    The same object where none is, so that nobody has to look for parts.
    """
    for param in params:
        if type(param.tensor) not in (Tensor, nn.Parameter):
            break
    else:
        return params
    parts: list[Param] = []
    for param in params:
        whole = param.tensor
        is_plain = type(whole) in (Tensor, nn.Parameter) or whole.is_nested or is_distributed(whole)
        if is_plain or not is_traceable_wrapper_subclass(whole) or param.mappers != (None, None):
            parts.append(param)
            continue
        for name, tensor in _tensors_in(whole):
            if tensor.is_meta:
                kind = type(whole).__name__
                raise RecordError(
                    f"'{param.path}' is a {kind} on the meta device, whose parts have no memory to load into"
                )
            owners = ((TensorPart(param, name, tensor), "tensor"),)
            aliases = tuple(join(alias, name) for alias in param.aliases)
            parts.append(Param(param.id, join(param.path, name), "state", owners, aliases))
    return parts if len(parts) > len(params) or any(map(tensor_part, parts)) else params


def _tensors_in(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    names: Iterable[str] = tensor.__tensor_flatten__()[0]  # pyright: ignore[reportAttributeAccessIssue]
    for name in names:
        part: Tensor = getattr(tensor, name)
        if is_traceable_wrapper_subclass(part):
            yield from ((join(name, below), it) for below, it in _tensors_in(part))
        else:
            yield name, part


def classes_of(found: Iterable[Param]) -> dict[str, Any]:
    """For the values of a record: path of a parameter -> the class that its parts make."""
    classes: dict[str, Any] = {}
    for part in filter(None, map(tensor_part, found)):
        classes.setdefault(part.path, {PARTS: {}})[PARTS][part.name] = part.of
    return classes


def part_names(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The name of each part among a record's tensors, and the class that it belongs to."""
    for key, value in values.items():
        if not isinstance(value, Mapping):
            continue
        if len(value) == 1 and isinstance(parts := value.get(PARTS), Mapping):
            yield from ((join(prefix, join(key, name)), str(it)) for name, it in parts.items())
        else:
            yield from part_names(value, join(prefix, key))


def kept_tensors(values: Mapping[str, Any]) -> set[str]:
    """The names of tensors that are stored in their own types: parts, and those of entries, whose use is not known."""
    return entry_tensors(values) | {name for name, _ in part_names(values)}
