"""What is noted of an operation on tensors without values (`deferred.py`), and where its tensors lie."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.pytree import tree_leaves, tree_map


class Place:
    """Where a fake tensor is in its memory: the tensor itself may get another one, as by `parameter.data = ...`."""

    def __init__(self, tensor: Tensor) -> None:
        self.memory = tensor.untyped_storage()  # held, so that no other gets its address
        self.storage = storage_of(tensor)
        self.dtype, self.shape, self.offset = tensor.dtype, tensor.shape, tensor.storage_offset()
        self.stride = tensor.stride()

    @property
    def form(self) -> tuple[Any, ...]:
        return self.dtype, self.shape, self.stride, self.offset

    def of(self, values: Tensor) -> bool:
        """Whether a tensor lies in its memory as this one does."""
        return (values.dtype, values.shape, values.stride(), values.storage_offset()) == self.form


class Operation(NamedTuple):
    """A call of an operator, with its results, and the state of the generator that it drew from.

    In the places of fake tensors are `Place`s.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: Any
    state: Tensor | None


def named(schema: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments of a schema that were given, with their values."""
    if schema is None:  # of what reads
        return
    for number, argument in enumerate(schema.arguments):
        if number < len(args):
            yield argument, args[number]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def placed(tree: Any) -> Any:
    return tree_map(lambda leaf: Place(leaf) if is_fake(leaf) else leaf, tree)


def inputs_of(operation: Operation) -> list[Place]:
    return [it for it in tree_leaves((operation.args, operation.kwargs)) if isinstance(it, Place)]


def storage_of(tensor: Tensor) -> int:
    return StorageWeakRef(tensor.untyped_storage()).cdata
