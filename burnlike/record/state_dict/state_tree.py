"""Turns the results of `state_dict()` into tensors and plain values and back exactly, without code.

What is no plain value is a map with one key that begins with `$`: tensors, NumPy arrays, bytes, tuples, sets, counters,
maps whose keys are no texts, and torch's dtypes, devices and quantized tensors.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.tensors import quantized_tensor
from ...errors import RecordError, RecordFormatError
from ..layout import join
from ..metadata import MAX_DEPTH
from ..precision import plain

_TENSOR, _ARRAY, _TUPLE, _ITEMS, _COUNTER = "$tensor", "$array", "$tuple", "$items", "$counter"
_SET, _BYTES, _DTYPE, _DEVICE, _QUANTIZED = "$set", "$bytes", "$dtype", "$device", "$quantized"

TENSOR_TAGS = (_TENSOR, _ARRAY, _BYTES)  # their content is the name of a tensor


def encode_tree(tree: Any, name: str, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """The tree, which will be at `name`, as plain values that name its tensors, which go to `tensors`, not copied."""
    if depth > MAX_DEPTH // 2:
        raise RecordError(f"'{name[:80]}' is nested too deeply, or holds itself; flatten it")
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if isinstance(tree, Tensor):
        if tree.is_quantized:
            return {_QUANTIZED: encode_tree(_quantized_parts(tree.detach(), name), name, tensors, depth + 1)}
        return {_TENSOR: _put(tree.detach(), name, tensors)}
    if isinstance(tree, list):
        return [encode_tree(item, join(name, index), tensors, depth + 1) for index, item in enumerate(tree)]
    if isinstance(tree, tuple):
        return {_TUPLE: encode_tree(list(tree), name, tensors, depth + 1)}
    if isinstance(tree, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in tree) and not isinstance(tree, Counter):
            return {key: encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()}
        keys = [encode_tree(key, f"{name}.keys", tensors, depth + 1) for key in tree]
        items = [encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()]
        pairs = [*map(list, zip(keys, items, strict=True))]
        return {_COUNTER if isinstance(tree, Counter) else _ITEMS: pairs}
    return _encode_other(tree, name, tensors)


def _encode_other(tree: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if is_array(tree):
        return {_ARRAY: _put(tensor_of(tree.copy(), f"'{name}'"), name, tensors)}
    if isinstance(tree, bytes | bytearray):
        return {_BYTES: _put(torch.tensor(list(tree), dtype=torch.uint8), name, tensors)}
    if isinstance(tree, torch.dtype):
        return {_DTYPE: plain(tree)}
    if isinstance(tree, torch.device):
        return {_DEVICE: str(tree)}
    if isinstance(tree, set):
        return {_SET: encode_tree([*tree], name, tensors, 1)}
    if (plain_value := plain_of(tree)) is not None:
        return plain_value
    raise RecordError(
        f"'{name}': expected tensors, arrays, numbers, texts, bools, None, lists, tuples and maps, got"
        f" {type(tree).__name__}, which can't be stored without code; leave it out and make it anew"
    )


def _put(tensor: Tensor, name: str, tensors: dict[str, Tensor]) -> str:
    """The name that the tensor gets: with a number where it is another tensor's."""
    if name in tensors:
        name = next(
            candidate for number in range(1, len(tensors) + 2) if (candidate := f"{name}~{number}") not in tensors
        )
    tensors[name] = tensor
    return name


def _quantized_parts(tensor: Tensor, name: str) -> dict[str, Any]:
    if tensor.dtype not in (torch.qint8, torch.quint8, torch.qint32):
        raise RecordError(f"'{name}': a quantized tensor of {plain(tensor.dtype)} can't be stored; dequantize() it")
    parts: dict[str, Any] = {"values": tensor.int_repr()}
    if tensor.qscheme() == torch.per_tensor_affine:
        return {**parts, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    channels = {"scale": tensor.q_per_channel_scales(), "zero_point": tensor.q_per_channel_zero_points()}
    return {**parts, **channels, "axis": tensor.q_per_channel_axis()}


def decode_tree(values: Any, tensors: Mapping[str, Tensor], source: str) -> Any:
    """The tree that `encode_tree` made the values of; each tensor is read once."""
    if isinstance(values, list):
        return [decode_tree(item, tensors, source) for item in values]
    if not isinstance(values, Mapping):
        return values
    tag, content = next(iter(values.items()), ("", None))
    if len(values) != 1 or not tag.startswith("$"):
        return {key: decode_tree(item, tensors, source) for key, item in values.items()}
    if tag in TENSOR_TAGS and isinstance(content, str) and content in tensors:
        tensor = tensors[content]
        return tensor if tag == _TENSOR else tensor.numpy() if tag == _ARRAY else bytes(tensor.tolist())
    if tag in _DECODERS and (isinstance(content, list) or tag not in (_TUPLE, _ITEMS, _COUNTER)):
        try:
            return _DECODERS[tag](decode_tree(content, tensors, source))
        except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
            raise RecordFormatError(f"{source}: a part of the state is damaged: {tag} ({error})") from error
    raise RecordFormatError(f"{source}: a part of the state is damaged: {tag} {content!r:.60}")


def _dtype(name: str) -> torch.dtype:
    torch_object = getattr(torch, name)
    if not isinstance(torch_object, torch.dtype):
        raise ValueError(f"{name} is no dtype")
    return torch_object


_DECODERS: dict[str, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _ITEMS: dict,
    _COUNTER: lambda it: Counter(dict(it)),
    _SET: set,
    _DTYPE: _dtype,
    _DEVICE: torch.device,
    _QUANTIZED: lambda it: quantized_tensor(it["values"], it["scale"], it["zero_point"], it.get("axis")),
}


def plain_of(value: Any) -> bool | int | float | str | None:
    """The plain value that a value of a subclass, or a number of NumPy, is; None for anything else."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.number | numpy.bool) else None


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def tensor_of(array: Any, place: str) -> Tensor:
    """The array as a tensor that shares its memory, where torch can: not if it is read-only or runs backwards."""
    shared = array.flags.writeable and all(step >= 0 for step in array.strides)
    try:
        return torch.from_numpy(array if shared else array.copy())
    except (TypeError, ValueError) as error:
        raise RecordError(f"{place} can't become a tensor: {error}") from error
