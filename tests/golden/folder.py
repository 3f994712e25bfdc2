"""Folders of files that Burn wrote."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIX = ".values.json"


class FolderError(Exception):
    """A folder that can't be used."""


@dataclass(frozen=True, slots=True)
class Golden:
    """One `NAME.values.json`.

    Attributes:
        folder: where it and its files are.
        name: NAME.
        values: its content.
    """

    folder: Path
    name: str
    values: dict[str, Any]

    @property
    def label(self) -> str:
        """What its cases begin with."""
        return f"{self.folder.name}/{self.name}"

    @property
    def kind(self) -> str:
        """`module`, `optimizer` or `scheduler`: what most of its files hold."""
        if "lr_before_save" in self.values:
            return "scheduler"
        return "optimizer" if "steps_before_save" in self.values else "module"

    @property
    def is_burn_0_21(self) -> bool:
        """Whether Burn 0.21 wrote it."""
        if "burn" in self.values:
            return str(self.values["burn"]).startswith("0.21")
        return all(file["recorder"].endswith("Recorder") for file in self.values["files"])


def read_folder(folder: Path) -> list[Golden]:
    """The values files of a folder.

    Raises:
        FolderError: it is no folder, has none, or one is damaged.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise FolderError(f"{folder}: expected a folder with files NAME{SUFFIX}")
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            values = json.loads(path.read_text())
            files = [(file["file"], file["recorder"], file["precision"]) for file in values["files"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FolderError(f"{path}: expected a JSON map with files; {type(error).__name__}: {error}") from error
        if not all(isinstance(text, str) for file in files for text in file):
            raise FolderError(f"{path}: expected texts for file, recorder and precision")
        found.append(Golden(folder, path.name.removesuffix(SUFFIX), values))
    if not found:
        raise FolderError(f"{folder}: no file NAME{SUFFIX}")
    return found


def unlisted(goldens: list[Golden]) -> list[str]:
    """The files of a folder that none of its values files lists."""
    listed = {file["file"] for golden in goldens for file in golden.values["files"]}
    listed |= {golden.name + SUFFIX for golden in goldens} | {"README.md"}
    return sorted(path.name for path in goldens[0].folder.iterdir() if path.name not in listed)
