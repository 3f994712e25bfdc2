"""All calls and properties of the vectors, by their texts."""

from collections.abc import Callable

from . import calls, helpers, properties
from .decoding import DECODED
from .quantized import QUANTIZED
from .results import Result
from .states import REFUSED, STATES
from .subject import Subject
from .wrappers import WRAPPED, WRAPPED_CALLS

CALLS: dict[str, Callable[[Subject], Result]] = {**calls.CALLS, **helpers.HELPERS, **REFUSED, **WRAPPED_CALLS}
PROPERTIES: dict[tuple[str, str], Callable[[Subject], Result]] = {
    **properties.PROPERTIES,
    **STATES,
    **DECODED,
    **WRAPPED,
    **QUANTIZED,
}
WITHOUT_INPUTS = {"display", "init", "layout", "p", "beta", "config", "config.stride", "config.strides"}
WITHOUT_INPUTS |= helpers.HELPERS.keys() | WRAPPED_CALLS.keys()
"""Calls that have nothing to do with the kind of tensors."""
