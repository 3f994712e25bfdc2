"""The configs that come with the package, by name."""

import os
import re
from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "configs"
_MODEL = re.compile(r"^type:", re.MULTILINE)


def shipped_configs() -> dict[str, Path]:
    """The shipped configs' files by name, `char_gpt` for `char_gpt.yaml`, sorted."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"))}


def shipped_jobs() -> dict[str, Path]:
    """The shipped configs of training jobs; the others are of models alone, with a `type:` at the root."""
    return {name: path for name, path in shipped_configs().items() if not _MODEL.search(path.read_text("utf-8"))}


def config_file(text: str) -> str:
    """The file that `text` names: a shipped config's where `text` is its name and no file is called so; else itself."""
    if os.path.basename(text) == text and not os.path.lexists(text) and (path := shipped_configs().get(text)):
        return str(path)
    return text
