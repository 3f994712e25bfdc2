"""Every exception that burnlike raises on purpose.

Each is also the built-in exception that fits, so code that catches `ValueError` or `OSError` keeps working. A message
says what was expected, what came, where, and what to do. The command line prints it without a traceback.
"""

import heapq
import os.path
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

_MOST_COMPARED = 100


class BurnlikeError(Exception):
    """Base of all errors of this package: bad input or a bad environment, never a bug."""


class Problem(NamedTuple):
    """One mistake in a config and its place; as text `source:line:column: path: message`.

    The path has dotted keys from the root of the config, as in `model.layers.0.d_input`; the source is a file, the
    `--set` option, or the class whose instance was made. Lines and columns begin at 1; 0 where the source has none.
    """

    message: str
    path: str = ""
    source: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ConfigError(BurnlikeError, ValueError):
    """A YAML file or a config value is wrong; the message has one line per mistake, each with its place.

    `problems` has the mistakes one by one, in the same order; empty where there is no place to name.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """The error that reports `problems`, sorted by their place: file by file, then those without lines."""
        problems = list(problems)
        files = list(dict.fromkeys(problem.source for problem in problems))
        problems.sort(key=lambda it: (not it.line, files.index(it.source) if it.line else 0, it.line, it.column))
        return cls("\n".join(map(str, problems)), problems)


class ConfigIOError(ConfigError, OSError):
    """A config's file can't be found, read or written."""


class DataError(BurnlikeError, ValueError):
    """A data set or corpus can't be used: empty, too short, or not readable as what it should be."""


class TableError(DataError):
    """A table can't be read as its config says; the message's further lines are the YAML with which it can."""


class BatchSizeError(DataError):
    """A training can't go on where it was stopped, as its steps would take another number of items."""


class ShapeError(BurnlikeError, ValueError):
    """A tensor has another shape than the operation needs."""


class DTypeError(BurnlikeError, TypeError):
    """A tensor has an element type that the operation does not take."""


class NoCounterpartError(BurnlikeError, ValueError):
    """A layer, or one of its options, exists only in torch or only in burnlike; nothing was converted.

    `problems` has, of the conversion of a whole module, the path of each such layer and what is wrong with it.
    """

    problems: "tuple[tuple[str, str], ...]" = ()


class DeviceError(BurnlikeError, RuntimeError):
    """A device does not exist, is not supported, or two tensors are on different ones."""


class ArgumentError(BurnlikeError, ValueError):
    """A number or a list given to an operation is outside of what it takes."""


class TableIndexError(ArgumentError, IndexError):
    """An index, such as the number of a token, has no row in its table."""


class TargetError(BurnlikeError, IndexError, ValueError):
    """A target of a loss or metric is no class or no count, or a length exceeds its sequence."""


class AutodiffError(BurnlikeError, RuntimeError):
    """A derivative that does not exist was asked for, or a write would make autograd lose track of a tensor."""


class TorchVersionError(BurnlikeError, ImportError):
    """The installed torch is older than burnlike needs."""


class MissingPackageError(BurnlikeError, ModuleNotFoundError):
    """A package is not installed that burnlike needs for what was asked; the message names the extra that brings it."""


class NativeError(BurnlikeError, RuntimeError):
    """The native library is missing, stale, or was asked for something that this machine lacks."""


class DuplicateParamIdError(BurnlikeError, ValueError):
    """Two different tensors of one module tree carry the same ParamId."""


class ModuleTreeError(BurnlikeError, ValueError):
    """A module tree can't be walked, changed or put together as asked; it is as it was."""


class MapperError(ModuleTreeError, TypeError):
    """A visitor or mapper is none, or a mapper returned what can't stand in the tensor's place; nothing was changed."""


class ParamPathError(ModuleTreeError, KeyError):
    """There is no parameter at a path; the message names the nearest one."""

    __str__ = Exception.__str__


class EmptyParamError(ModuleTreeError):
    """A parameter without data was used or written: a hole that a partition left, or one not yet initialized."""


class StructureMismatchError(ModuleTreeError):
    """Modules that are to be put or mapped together differ in class, fields or hyperparameters."""


class ConflictError(ModuleTreeError):
    """Two parts of a module that are to be put together both have a parameter, or give it different ids."""


class MissingParamError(ModuleTreeError):
    """No part of a module that is to be put together has a parameter."""


class TracedLeakError(ModuleTreeError):
    """A module leaves a transform with a plain field that is a tensor of that transform."""


class RecordError(BurnlikeError):
    """Base of all errors about records and their files."""


class RecordIOError(RecordError, OSError):
    """A record's file can't be found, read or written (missing, no permission, disk full)."""


class SavePendingError(RecordError, TimeoutError):
    """A save in the background is still going on."""


class RecordFormatError(RecordError, ValueError):
    """A record's file is damaged, truncated, or not of a known format or version."""


class RecordPathError(RecordError, AttributeError, KeyError):
    """A record has nothing at a path; the message names what is there."""

    __str__ = Exception.__str__


class RecordMismatchError(RecordError, ValueError):
    """A record does not fit the module or optimizer it is loaded into; nothing was changed.

    `report` says what does not fit, a `burnlike.record.LoadReport`; None where the record is not one for a module.
    """

    report: "object | None" = None


class PrecisionError(RecordError, ValueError):
    """A value can't be written in the precision asked for without being lost; nothing was written."""


class CheckpointError(BurnlikeError, ValueError):
    """A run directory holds no usable checkpoint, or one of another program."""


class RunDirError(BurnlikeError, OSError):
    """A run directory can't be made, locked or written, or holds something that must not be overwritten."""


class TrainingError(BurnlikeError, ArithmeticError):
    """Training can't go on: the loss is no finite number."""


class TensorError(BurnlikeError):
    """A tensor operation can't be done as asked; nothing was changed. The message has Burn's form.

    Made of the operation as Burn writes it (`Add`, `Swap Dims`), and of the reasons: what was expected, what came.
    There is no `__init__`: torch.compile shows an exception's arguments only where it can follow how it is made.
    """

    @property
    def operation(self) -> str:
        """Such as `Swap Dims`."""
        return self.args[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The problems, each with what was expected and what came."""
        return self.args[1:]

    def __str__(self) -> str:
        listed = "".join(f"\n    {number}. {reason}" for number, reason in enumerate(self.reasons, 1))
        return f"=== Tensor Operation Error ===\n  Operation: '{self.operation}'\n  Reason:{listed}\n"


class TensorValueError(TensorError, ValueError):
    """A shape, a dimension, an index or a number does not fit the operation."""


class TensorTypeError(TensorError, TypeError):
    """A tensor has another kind, rank, element type or backend than the operation takes."""


class TensorAttributeError(TensorError, AttributeError):
    """A tensor has no method of this name."""


class BackendError(BurnlikeError, TypeError):
    """A backend is not complete, or a dtype is not one of its element types."""


def nearest(name: str, names: "list[str] | tuple[str, ...] | set[str]") -> str:
    """The hint `; did you mean 'x'?` for the known name nearest to `name`, or an empty string where none is near."""
    close = nearest_name(name, names)
    return f"; did you mean '{close}'?" if close else ""


def nearest_name(name: str, names: "list[str] | tuple[str, ...] | set[str]", *, likeness: float = 0.6) -> str | None:
    """The known name nearest to `name`, None where none is as alike as `likeness`, of 0 to 1 for the same.

    Capital letters count little: `adamw` means AdamW and not Adam.
    """
    import difflib

    candidates = list(names)
    if len(candidates) > _MOST_COMPARED:  # comparing takes long: of thousands, those that begin and end alike
        candidates = heapq.nlargest(_MOST_COMPARED, candidates, key=lambda other: _alike_at_the_ends(name, other))
    folded: dict[str, list[str]] = {}
    for other in candidates:
        folded.setdefault(other.casefold(), []).append(other)
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=likeness)
    return difflib.get_close_matches(name, folded[matches[0]], n=1, cutoff=0)[0] if matches else None


def _alike_at_the_ends(*names: str) -> int:
    ends = [name.casefold() for name in names], [name.casefold()[::-1] for name in names]
    return sum(len(os.path.commonprefix(pair)) for pair in ends)  # noqa: RUF071, characters are meant
