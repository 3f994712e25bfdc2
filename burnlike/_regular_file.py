"""Reads files that a user names: only regular files. A pipe may block for ever, a device may never end.

All functions raise OSError if there is no file, it can't be read, or it is a pipe, a device or a socket (`strerror`
says which), and IsADirectoryError if it is a directory.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, TextIO

_BLOCK_BYTES = 1 << 20
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_regular(
    path: "str | os.PathLike[str]", most: int | None = None, within: "str | os.PathLike[str] | None" = None
) -> bytes:
    """The bytes of a regular file, at most as many as given, or else as it has when it is opened.

    Symbolic links are followed; OSError refuses one that leads out of the directory `within`: for files that others
    sent with it.
    """
    check_within(path, within)
    with open_regular(path) as file:
        return file.read(_size(os.fstat(file.fileno()), path) if most is None else most)


def digest_of(path: "str | os.PathLike[str]", most: int | None = None) -> tuple[int, str]:
    """Number and SHA-256 of the bytes of a regular file, or of its first ones, at most as many as given."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path) as file:
        while block := file.read(_BLOCK_BYTES if most is None else min(_BLOCK_BYTES, most - size)):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def check_within(path: "str | os.PathLike[str]", within: "str | os.PathLike[str] | None") -> None:
    """OSError if a link leads from `path` out of the directory `within`, whether its target is there or not."""
    if within is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(within)):
        raise OSError(errno.EINVAL, f"it is a link to outside of {os.fspath(within)}, and is not used", os.fspath(path))


def hub_blobs(directory: "str | os.PathLike[str]") -> Path | None:
    """The directory that the files of a snapshot in the cache of the Hugging Face Hub are links to; None of others."""
    *_, model, snapshots, _ = ("", "", *Path(os.path.realpath(directory)).parts)
    is_snapshot = snapshots == "snapshots" and model.startswith("models--")
    return Path(os.path.realpath(directory)).parents[1] / "blobs" if is_snapshot else None


def check_links(directory: "str | os.PathLike[str]", skipped: Collection[str] = ()) -> None:
    """OSError if a link anywhere in a directory leads out of it; folders of the names `skipped` are not entered."""
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            if os.path.islink(path := os.path.join(folder, name)):
                check_within(path, directory)
        folders[:] = [it for it in folders if it not in skipped]


def open_regular(path: "str | os.PathLike[str]") -> BinaryIO:
    regular_size(path)  # opening a device can have effects
    return open(_descriptor(path, os.O_RDONLY), "rb")


def writable_regular(path: "str | os.PathLike[str]") -> TextIO:
    """Open a regular file for reading and writing, and make it where there is none; a link is not followed."""
    return open(_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW), "r+", encoding="utf-8")


def appended_regular(path: "str | os.PathLike[str]") -> TextIO:
    """Open a regular file to add text at its end, and make it where there is none; a link is not followed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    return open(_descriptor(path, flags), "a", encoding="utf-8", errors="backslashreplace")


def _descriptor(path: "str | os.PathLike[str]", flags: int) -> int:
    # Should it have been replaced by a pipe meanwhile, opening it does not wait.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    try:
        _size(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def lfs_pointer_problem(path: "str | os.PathLike[str]") -> str:
    """The problem with a file that only stands for one of git's large file storage; empty if it is no such file."""
    if read_regular(path, len(_LFS_POINTER)) != _LFS_POINTER:
        return ""
    name = os.path.basename(path)
    return f"{os.fspath(path)} is a pointer of git-lfs in place of {name}; run `git lfs pull` in its repository"


def regular_size(path: "str | os.PathLike[str]") -> int:
    """Bytes of a regular file."""
    return _size(os.stat(path), path)


def _size(status: os.stat_result, path: "str | os.PathLike[str]") -> int:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, and only regular files are read", os.fspath(path))
    return status.st_size
