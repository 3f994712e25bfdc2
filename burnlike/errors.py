"""Every exception that burnlike raises on purpose.

Each is also the built-in exception that fits, so code that catches `ValueError` or `OSError` keeps working. A message
says what was expected, what came, where, and what to do. The command line prints it without a traceback.
"""


class BurnlikeError(Exception):
    """Base of all errors of this package: bad input or a bad environment, never a bug."""


class ConfigError(BurnlikeError, ValueError):
    """A YAML file or a config value is wrong; the message has one line per mistake, each with its place."""


class DataError(BurnlikeError, ValueError):
    """A data set or corpus can't be used: empty, too short, or not readable as what it should be."""


class ShapeError(BurnlikeError, ValueError):
    """A tensor has another shape than the operation needs."""


class DTypeError(BurnlikeError, TypeError):
    """A tensor has an element type that the operation does not take."""


class DeviceError(BurnlikeError, RuntimeError):
    """A device does not exist, is not supported, or two tensors are on different ones."""


class NativeError(BurnlikeError, RuntimeError):
    """The native library is missing, stale, or was asked for something that this machine lacks."""


class DuplicateParamIdError(BurnlikeError, ValueError):
    """Two different tensors of one module tree carry the same ParamId."""


class RecordError(BurnlikeError):
    """Base of all errors about records and their files."""


class RecordIOError(RecordError, OSError):
    """A record's file can't be found, read or written (missing, no permission, disk full)."""


class RecordFormatError(RecordError, ValueError):
    """A record's file is damaged, truncated, or not of a known format or version."""


class RecordMismatchError(RecordError, ValueError):
    """A record does not fit the module or optimizer it is loaded into; nothing was changed."""


class PrecisionError(RecordError, ValueError):
    """A value can't be written in the precision asked for without being lost; nothing was written."""


class CheckpointError(BurnlikeError, ValueError):
    """A run directory holds no usable checkpoint, or one of another program."""


def nearest(name: str, known: "list[str] | tuple[str, ...] | set[str]") -> str:
    """The hint `; did you mean 'x'?` for the known name nearest to `name`, or an empty string where none is near."""
    import difflib

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
