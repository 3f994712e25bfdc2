"""The time and memory that opening a file may take: one budget for all readers. Imports no torch.

Time is counted in steps of about 0.1 microseconds of one core, not by a clock: a file that is refused on one machine is
refused on all. What a step and a byte are taken for is measured; `tests/record/fuzz/test_attacks.py` holds both to it.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Self

from ...errors import ArgumentError, RecordFormatError

STEPS_PER_SECOND = 10_000_000

MAX_DEPTH = 128
"""Levels that what is in a file may be nested; not adjustable, as Python's stack is not."""

MAX_DIMENSIONS = 64
"""Dimensions of a tensor: as many as torch computes with."""

MAX_NAME = 4096
"""Characters of a tensor's name, or of the path of a value."""

MAX_HEADER_BYTES = 100_000_000
"""Longer headers of safetensors files are refused, here and by the safetensors library; longer indices, too."""

CONTAINER, NUMBER, TEXT = 240, 32, 64
"""Bytes that a map or list, a number, and a text beside its characters take, with what the outline keeps of each."""


class TensorCost(NamedTuple):
    """The bytes of memory and steps of time that the readers of a format count for one tensor with a long name."""

    memory: float
    steps: float
    file_bytes: int
    """The least that a tensor with values takes in a file."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The time and memory after which a file is refused as damaged or hostile. Use it in a `with` statement.

    The defaults are far above what records need that people make. A file that is larger than they allow, and that you
    trust, is opened with higher ones. They count for whatever is opened within the `with`, by any function and in this
    thread; reading the values of tensors is not limited, nor is what a format needs to find a tensor that has some.

    Attributes:
        seconds: of one core, for a file of any size.
        bytes_per_second: a longer file gets a second more for each of so many of its bytes.
        memory_bytes: for a file of any size.
        memory_per_byte: bytes of memory for each byte that is not a tensor's: names, places, plain values.

    Raises:
        ArgumentError: one of them is not positive.

    Example:
        >>> import io, torch
        >>> from burnlike.record import ReadLimits, Record, SafetensorsRecorder
        >>> data = SafetensorsRecorder().to_bytes(Record({"weight": torch.ones(2)}))
        >>> with ReadLimits(seconds=60, memory_bytes=8 << 30):
        ...     record = SafetensorsRecorder().from_bytes(data)
    """

    seconds: float = 2.0
    bytes_per_second: float = 20e6
    memory_bytes: float = 64 << 20
    memory_per_byte: float = 4.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ArgumentError(f"ReadLimits: expected a positive {name}, got {getattr(self, name)!r}")

    def times(self, factor: float) -> "ReadLimits":
        """Limits that are `factor` times as high."""
        more = {name: getattr(self, name) * factor for name in ("seconds", "memory_bytes", "memory_per_byte")}
        return ReadLimits(bytes_per_second=self.bytes_per_second / factor, **more)

    def __enter__(self) -> Self:
        _limits.set((*_limits.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _limits.set(_limits.get()[:-1])


_limits: ContextVar[tuple[ReadLimits, ...]] = ContextVar("burnlike.ReadLimits", default=(ReadLimits(),))


class Budget:
    """The time and memory that are left for opening a file, or a set of files."""

    def __init__(self, path: str) -> None:
        limits = _limits.get()[-1]
        self._path = path
        self._steps = STEPS_PER_SECOND * limits.seconds
        self._steps_per_byte = STEPS_PER_SECOND / limits.bytes_per_second
        self._memory: float = limits.memory_bytes
        self._memory_per_byte = limits.memory_per_byte
        self._tensor_bytes = 0
        self._header_counts = True
        self._opened = False
        self.files = 0

    def add_file(self, size: int) -> None:
        """Grant the time for a file of `size` bytes."""
        self.files += 1
        self._steps += self._steps_per_byte * size
        self._tensor_bytes += size

    def add_header(self, size: int) -> None:
        """Grant the memory for `size` bytes that are not the values of tensors."""
        self._memory += self._memory_per_byte * size

    def compressed(self, size: int) -> None:
        """Grant the memory for a file of `size` bytes that is compressed: what is unpacked from it justifies none."""
        if self._header_counts:
            self.add_header(size)
            self._memory_per_byte, self._header_counts = 0.0, False

    def add_tensor(self, cost: TensorCost) -> None:
        """Grant what a tensor that has values costs; to no more of them than there are bytes for in the file.

        So a file of any number of tensors opens, while what is no tensor can't hide among them.
        """
        if self._tensor_bytes >= cost.file_bytes:
            self._tensor_bytes -= cost.file_bytes
            self._memory += cost.memory
            self._steps += cost.steps

    def take(self, memory: float, steps: float, size: int = 0) -> None:
        """Take bytes of memory and steps of time for a part; first grant memory for its `size` in the file.

        The values of tensors are no such parts, and a size counts only where no `add_header` granted for it.
        """
        if self._opened:
            return
        self._memory += self._memory_per_byte * size - memory
        self._steps -= steps
        if self._memory < 0 or self._steps < 0:
            what = "memory" if self._memory < 0 else "time"
            raise RecordFormatError(
                f"{self._path}: what it holds beside tensors takes far more {what} than a record of its size; it is"
                " damaged or made to do harm. If you trust it, open it with higher limits: burnlike.record.ReadLimits,"
                " or --limits on the command line"
            )

    def end(self) -> None:
        """The file is open: what is done from now on is not counted."""
        self._opened = True

    def has(self, memory: float, steps: float) -> bool:
        return self._opened or (memory <= self._memory and steps <= self._steps)
