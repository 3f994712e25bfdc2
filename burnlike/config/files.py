"""Writing a small file so that it is never seen half written."""

import contextlib
import os
import tempfile


def replace_file(path: "str | os.PathLike[str]", data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file in the same directory.

    A link is followed, so that the file that it names is replaced; the mode of a file that was there is kept.

    Raises:
        OSError: nothing was changed.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(21, "Is a directory", os.fspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)[:100]}.", dir=os.path.dirname(target))
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode(target))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(target))


def _mode(target: str) -> int:
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_directory(path: str) -> None:
    """Make the new name durable; some file systems do not offer it."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
