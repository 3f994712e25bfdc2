"""`--set a.b=c`: single values of a config replaced from the command line."""

from collections.abc import Iterable
from typing import TypeVar

from .base import Config

C = TypeVar("C", bound=Config)


def apply_overrides(config: C, overrides: Iterable[str]) -> C:
    """A copy of `config` with each `a.b=c` of `overrides` applied."""
    raise NotImplementedError
