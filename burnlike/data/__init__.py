"""Datasets, batchers and a seeded data loader whose position can be saved."""

from typing import TYPE_CHECKING

from .._lazy import attach
from . import configs
from .configs import *  # noqa: F403 - the configs load no torch, so they need not be lazy

if TYPE_CHECKING:
    from .dataset import Batcher, Dataset, InMemDataset
    from .loader import DataLoader
    from .text import TextCorpus
    from .windows import TokenBatcher, TokenWindows

_NAMES = {
    **dict.fromkeys(["Batcher", "Dataset", "InMemDataset"], "dataset"),
    "DataLoader": "loader",
    "TextCorpus": "text",
    **dict.fromkeys(["TokenBatcher", "TokenWindows"], "windows"),
}

__all__ = [*configs.__all__, *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = attach(__name__, _NAMES)
