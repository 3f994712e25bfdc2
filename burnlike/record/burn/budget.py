"""How much memory a file may make its reader take. Imports no torch."""

from ...errors import RecordFormatError
from ..files.source import Source

CONTAINER, NUMBER, TEXT = 512, 48, 96
"""Bytes that a map or list, a number, and a text beside its characters take, with what the outline keeps of each."""

_LEAST_BYTES = 64 << 20  # 10,000 tensors that are all alike, and so take almost nothing in a gzipped file, need half
_BYTES_PER_STORED_BYTE = 128


class Budget:
    """What is left of the memory that the tree of a file may take; the values of tensors stay in the file.

    A compressed file of a megabyte may unpack to gigabytes of empty lists, and each of those takes fifty times the
    text that says so. A record of many small tensors takes about ten times its file, a gzipped one up to a hundred
    times if their values are alike. What is counted is about twice what is really taken.

    Args:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self._left = _LEAST_BYTES + _BYTES_PER_STORED_BYTE * source.stored_bytes
        self._path = source.path

    def take(self, count: int) -> None:
        """Take `count` bytes.

        Raises:
            RecordFormatError: no more is left.
        """
        self._left -= count
        if self._left < 0:
            raise RecordFormatError(
                f"{self._path}: what it holds beside tensors takes far more memory than a record of its size;"
                " it is damaged or made to do harm"
            )
