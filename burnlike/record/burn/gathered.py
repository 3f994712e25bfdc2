"""The tensors found while a file is read, with their ids; one that comes twice is tied. Imports no torch."""

from math import prod
from typing import Any

from ...errors import RecordFormatError
from ...module.param_id import ParamId
from ..outline import StoredTensor, byte_count


class Gathered:
    """What has been read so far.

    Args:
        source_path: what messages call the file.
        reason: what they say must be the matter with it.

    Attributes:
        entries: the tensors by path, in the file's order.
        ids: ParamId of those that are parameters.
        aliases: path at which a tensor comes again -> where it came first.
    """

    def __init__(self, source_path: str, reason: str = "it is damaged or no record of Burn's") -> None:
        self.entries: dict[str, StoredTensor] = {}
        self.ids: dict[str, ParamId] = {}
        self.aliases: dict[str, str] = {}
        self._names: dict[ParamId, str] = {}
        self._source_path, self._reason = source_path, reason

    def param(self, id_text: Any, tensor: StoredTensor) -> None:
        """Note a parameter; one whose id came before is the same tensor again.

        Raises:
            RecordFormatError: the id is none, or the values are not those that came before with it.
        """
        path = tensor.name
        try:
            param_id = ParamId.parse(id_text)
        except (ValueError, TypeError, AttributeError) as error:
            raise self.wrong(path, f"the id {id_text!r:.60} ({error})") from error
        first = self._names.setdefault(param_id, path)
        if first == path:
            self.entries[path] = tensor
            self.ids[path] = param_id
        elif same_values(self.entries[first], tensor):
            self.aliases[path] = first
        else:
            raise self.wrong(path, f"the ParamId of '{first}' ({param_id}), but other values")

    def tensor(self, tensor: StoredTensor) -> None:
        """Note a tensor without an id."""
        self.entries[tensor.name] = tensor

    def check_bytes(self, path: str, count: int, dtype: str, shape: list[int]) -> None:
        """Check that a tensor has as many bytes as its dtype and shape need.

        Raises:
            RecordFormatError: it has not.
        """
        if prod(shape) > count or byte_count(dtype, shape) != count:
            raise self.wrong(path, f"{count} bytes for {dtype} {shape[:16]}")

    def wrong(self, path: str, what: str) -> RecordFormatError:
        """The error that the part at `path` is as it can't be."""
        return RecordFormatError(f"{self._source_path}: '{path}' has {what}; {self._reason}")


def same_values(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether two tensors of a file have the same dtype, shape and bytes."""
    if (one.dtype, one.shape, one.stored_as) != (other.dtype, other.shape, other.stored_as):
        return False
    step = 1 << 20
    for begin in range(0, one.stored_bytes, step):
        first, second = bytearray(min(step, one.stored_bytes - begin)), bytearray(min(step, one.stored_bytes - begin))
        one.read_into(begin, memoryview(first))
        other.read_into(begin, memoryview(second))
        if first != second:
            return False
    return True
