"""Reads files that a user names: only regular files. A pipe may block for ever, a device may never end."""

import errno
import os
import stat


def read_regular(path: "str | os.PathLike[str]", most: int | None = None) -> bytes:
    """The bytes of a regular file.

    Args:
        path: the file; symbolic links are followed.
        most: how many bytes are read at most; None for as many as it has when it is opened.

    Raises:
        OSError: there is none, it can't be read, or it is a pipe, a device or a socket, which `strerror` says.
        IsADirectoryError: it is a directory.
    """
    regular_size(path)  # opening a device can have effects
    # Should it have been replaced by a pipe meanwhile, opening it does not wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        size = _size(os.fstat(descriptor), path)
        return file.read(size if most is None else most)


def regular_size(path: "str | os.PathLike[str]") -> int:
    """Bytes of a regular file.

    Raises:
        OSError, IsADirectoryError: as `read_regular`.
    """
    return _size(os.stat(path), path)


def _size(status: os.stat_result, path: "str | os.PathLike[str]") -> int:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, and only regular files are read", os.fspath(path))
    return status.st_size
