"""Writes a small file so that it is never seen half written."""

import os


def replace_file(path: "str | os.PathLike[str]", data: bytes) -> None:
    """Write `data` to `path` as `AtomicFile` does: whole or not at all.

    Raises:
        OSError: nothing was changed.
    """
    from .._atomic_file import AtomicFile  # here, as reading a config needs none of what it imports

    if os.path.isdir(path):
        raise IsADirectoryError(21, "Is a directory", os.fspath(path))
    with AtomicFile(path) as file:
        left = memoryview(data)
        while left:
            left = left[os.write(file.descriptor, left) :]
        file.commit()
