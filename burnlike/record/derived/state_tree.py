"""What `state_dict()` methods give, as tensors and plain values, and back exactly: nothing in it is code.

Beside numbers, texts, bools, None, lists and maps there are tensors, NumPy arrays, tuples, counters, and maps whose
keys are no texts: each a map with one key that begins with `$`.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ...errors import RecordError, RecordFormatError
from ..layout import join
from ..values import MAX_DEPTH
from .arrays import is_array, tensor_of

_TENSOR, _ARRAY, _TUPLE, _ITEMS, _COUNTER = "$tensor", "$array", "$tuple", "$items", "$counter"


def encode_tree(tree: Any, name: str, tensors: dict[str, Tensor], depth: int = 0) -> Any:
    """The tree as plain values that name its tensors.

    Args:
        tree: what is to be stored.
        name: where it will be, for the names of its tensors and for messages.
        tensors: gets them; not copied.
        depth: levels above it.

    Raises:
        RecordError: it holds an object that can't be stored without code.
    """
    if depth > MAX_DEPTH // 2:
        raise RecordError(f"'{name[:80]}' is nested too deeply, or holds itself; flatten it")
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    if isinstance(tree, Tensor):
        name = _free(name, tensors)
        tensors[name] = tree.detach()
        return {_TENSOR: name}
    if isinstance(tree, list):
        return [encode_tree(item, join(name, index), tensors, depth + 1) for index, item in enumerate(tree)]
    if isinstance(tree, tuple):
        return {_TUPLE: encode_tree(list(tree), name, tensors, depth + 1)}
    if isinstance(tree, Mapping):
        if all(type(key) is str and not key.startswith("$") for key in tree) and not isinstance(tree, Counter):
            return {key: encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()}
        keys = [encode_tree(key, f"{name}.keys", tensors, depth + 1) for key in tree]
        items = [encode_tree(item, join(name, key), tensors, depth + 1) for key, item in tree.items()]
        pairs = [[key, item] for key, item in zip(keys, items, strict=True)]
        return {_COUNTER if isinstance(tree, Counter) else _ITEMS: pairs}
    return _encode_other(tree, name, tensors)


def _encode_other(tree: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tree, numpy.number | numpy.bool):
        return tree.item()
    if is_array(tree):
        name = _free(name, tensors)
        tensors[name] = tensor_of(tree.copy(), f"'{name}'")
        return {_ARRAY: name}
    for kind in (bool, int, float, str):
        if isinstance(tree, kind):
            return kind(tree)
    raise RecordError(
        f"'{name}': expected tensors, arrays, numbers, texts, bools, None, lists, tuples and maps, got"
        f" {type(tree).__name__}, which can't be stored without code; leave it out and make it anew"
    )


def _free(name: str, tensors: Mapping[str, Tensor]) -> str:
    """The name, with a number where it is another tensor's."""
    if name not in tensors:
        return name
    return next(found for number in range(1, len(tensors) + 2) if (found := f"{name}~{number}") not in tensors)


def decode_tree(values: Any, tensors: Mapping[str, Tensor], source: str) -> Any:
    """The tree that `encode_tree` made the values of; each tensor is read once.

    Raises:
        RecordFormatError: it is damaged.
    """
    if isinstance(values, list):
        return [decode_tree(item, tensors, source) for item in values]
    if not isinstance(values, Mapping):
        return values
    tag, content = next(iter(values.items()), ("", None))
    if len(values) != 1 or not tag.startswith("$"):
        return {key: decode_tree(item, tensors, source) for key, item in values.items()}
    if tag in (_TENSOR, _ARRAY) and isinstance(content, str) and content in tensors:
        return tensors[content] if tag == _TENSOR else tensors[content].numpy()
    if tag == _TUPLE and isinstance(content, list):
        return tuple(decode_tree(content, tensors, source))
    if tag in (_ITEMS, _COUNTER) and isinstance(content, list):
        try:
            found = dict(decode_tree(content, tensors, source))
        except (TypeError, ValueError) as error:
            raise RecordFormatError(f"{source}: a map of the state is damaged ({error})") from error
        return Counter(found) if tag == _COUNTER else found
    raise RecordFormatError(f"{source}: a part of the state is damaged: {tag} {content!r:.60}")
