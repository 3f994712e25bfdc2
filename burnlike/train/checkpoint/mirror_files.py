"""Sets of files in a place that fsspec reaches, each there whole or not at all.

    PLACE/NAME/model.safetensors, ...    the files of a set
    PLACE/NAME.json                      their sizes and hashes, written last and removed first

Without the second, what is there of the first is no set: half of one, or one that is being removed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..._atomic import AtomicFile, make_directories, sync_directory
from ..._regular_file import check_within, open_regular
from ...errors import CheckpointError, ConfigError

_BLOCK_BYTES = 8 << 20

FileFacts = Mapping[str, tuple[int, str]]
"""The size and the hash of each file of a set."""


class MirrorFiles:
    """The sets at `place`; errors are those of its file system, but for `as_checkpoint_errors`."""

    def __init__(self, place: str) -> None:
        """Nothing is read yet; a ConfigError says which package is missing."""
        self.place = place.rstrip("/")
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ConfigError("checkpoint.mirror needs the package fsspec: pip install 'burnlike[mirror]'") from error
        try:
            self._files, root = url_to_fs(self.place)
        except ImportError as error:  # that of one kind of place, such as s3fs
            raise ConfigError(f"checkpoint.mirror: {self.place}: {error}") from error
        except Exception as error:  # whatever a file system raises for a place that is none of its
            raise CheckpointError(f"checkpoint.mirror: {self.place} can't be used: {short(error)}") from error
        self._root = str(root).rstrip("/")
        self._is_local = "file" in self._files.protocol
        self._folders = set[str]()  # that are there, since the last look

    @contextmanager
    def as_checkpoint_errors(self, what: str = "read") -> Iterator[None]:
        """Within the `with` block, what any file system raises is a CheckpointError that it can't be read."""
        try:
            yield
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"the mirror {self.place} can't be {what}: {short(error)}; expected a place that is there, such as a"
                " bucket, and credentials that may read and write it"
            ) from error

    def names(self) -> list[str]:
        """Names of all that lies in the place, in order; none where it is not there."""
        self._files.invalidate_cache()
        self._folders.clear()
        try:
            paths = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})

    def sets(self) -> dict[str, FileFacts]:
        """The files of each whole set, by its name; a list that was cut or names no file makes none."""
        lists = ((it.removesuffix(".json"), self.content(it)) for it in self.names() if it.endswith(".json"))
        sets: dict[str, FileFacts] = {}
        for name, content in lists:
            with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
                files = content["files"]
                sets[name] = {str(file): (int(size), str(digest)) for file, (size, digest) in files.items()}
        return {name: files for name, files in sets.items() if files}

    def content(self, name: str) -> Any:
        """Content of a file of JSON; None where there is none, or half of one."""
        with suppress(FileNotFoundError, ValueError):
            return json.loads(self._files.cat_file(f"{self._root}/{name}"))
        return None

    def write(self, name: str, content: Any) -> None:
        self._make_folder(self._root)
        with self._writing(f"{self._root}/{name}") as out:
            out.write(json.dumps(content).encode())

    def put(self, name: str, sources: Mapping[str, Path]) -> None:
        """Copy files, by the names that they get, as a set in place of one of this name."""
        self._remove(f"{name}.json")
        listed: dict[str, tuple[int, str]] = {}
        for file, path in sorted(sources.items()):
            target = f"{self._root}/{name}/{file}"
            self._make_folder(target.rpartition("/")[0])
            with open_regular(path) as opened, self._writing(target) as out:
                listed[file] = _passed(opened, out.write)
        self.write(f"{name}.json", {"files": listed})

    def get(
        self, name: str, files: FileFacts, target: Callable[[str, tuple[int, str]], Path | None], within: Path
    ) -> None:
        """Copy the files of a set to where `target` says for each, or leave out those for which it says None.

        Each appears under its name when it is whole and what was copied there; else a CheckpointError names it. Links
        out of the directory `within` are not followed.
        """
        for file in files:
            if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in file.split("/")):
                raise CheckpointError(f"{self.place} names the file {file[:80]!r}, expected one in {name}")
        for file, facts in files.items():
            if (path := target(file, facts)) is not None:
                check_within(path, within)
                make_directories(path.parent)
                self._download(f"{name}/{file}", path, facts, within)

    def remove(self, name: str) -> None:
        for path in (f"{name}.json", name):
            self._remove(path)

    def _remove(self, name: str) -> None:
        if self._files.exists(f"{self._root}/{name}"):
            self._files.rm(f"{self._root}/{name}", recursive=True)
            if self._is_local:
                sync_directory(self._root)  # so that no list comes back whose files are gone

    @contextmanager
    def _writing(self, path: str) -> Iterator[Any]:
        """A file to write; on a disk of this machine it is there when it is whole and synced, as other places do it."""
        if self._is_local:
            with AtomicFile(path) as file:
                yield file
                file.commit()
        else:
            with self._files.open(path, "wb") as file:
                yield file

    def _download(self, source: str, target: Path, facts: tuple[int, str], within: Path) -> None:
        present: tuple[int, str] | None = None
        with AtomicFile(target, within=within) as file:
            with suppress(FileNotFoundError), self._files.open(f"{self._root}/{source}", "rb") as opened:
                present = _passed(opened, file.write)
            if present != facts:
                name = source.partition("/")[0]
                raise CheckpointError(
                    f"{self.place}/{source} is not the file that was copied there; remove {self.place}/{name}.json to"
                    " go on without it"
                )
            file.commit()

    def _make_folder(self, path: str) -> None:
        """Make a directory, where the place has such; never a bucket, which `makedirs` would make by itself."""
        parent = path.rpartition("/")[0]
        if parent and path not in self._folders and not self._files.isdir(path):
            self._make_folder(parent)
            with suppress(FileExistsError):
                self._files.mkdir(path, create_parents=False)
        self._folders.add(path)


def _passed(opened: Any, write: Callable[[bytes], object]) -> tuple[int, str]:
    """Copy an open file to `write`; returns its size and hash."""
    digest, size = hashlib.sha256(), 0
    while block := opened.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
        write(block)
    return size, digest.hexdigest()


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
