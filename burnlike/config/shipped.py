"""The configs that come with the package, by name."""

import os
from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "configs"


def shipped_configs() -> dict[str, Path]:
    """The shipped configs' files by name, `char_gpt` for `char_gpt.yaml`, sorted."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"))}


def config_file(text: str) -> str:
    """The file that `text` names: itself, or where there is none and `text` is a shipped config's name, that config's.

    Args:
        text: a path, or a name such as `char_gpt`.
    """
    if os.path.basename(text) == text and not os.path.lexists(text) and (path := shipped_configs().get(text)):
        return str(path)
    return text
