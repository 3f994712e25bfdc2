"""The two forms of GELU, by torch's names."""

from typing import Literal

from ..errors import ArgumentError

Approximate = Literal["none", "tanh"]


def check_approximate(op: str, approximate: str) -> None:
    """Raise ArgumentError for a form that there is not."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"{op}: expected approximate 'none' or 'tanh', got {approximate!r}")
