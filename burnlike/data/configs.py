"""Imports every config of this part, so that the registry knows their types. No torch."""

from .text_config import TextCorpusConfig

__all__ = ["TextCorpusConfig"]
