"""torch's own functions over a backend that is not torch's: each aten operator by the functions of its tables.

Layers and functions of torch on typed tensors, and the derivatives of what Autodiff records, end in aten operators.
`through(backend)` is a `with` block in which every one is computed by the backend. An operator has a translation in a
file here if it is one of torch's core, if a table has a function for it, or if torch can't take it apart. torch's own
decompositions turn all others into these; what has neither raises a `BackendError` that names it.

Core operators are translated as they are, not by their decompositions into `prims`: these repeat operands to the same
shape before they add, and torch's code for that alone takes two to three times as long as a translated operator.
"""

from contextlib import AbstractContextManager
from typing import Any


def through(backend: Any) -> AbstractContextManager[None]:
    """A `with` block in which what torch computes is computed by `backend`, forwards and backwards.

    Args:
        backend: of one's own; of one that tracks, the inner one is meant.

    Raises:
        BackendError: torch.compile is tracing.
    """
    from .mode import over  # the translations are imported where a backend needs them

    return over(backend)


def resting() -> AbstractContextManager[None]:
    """A `with` block in a `through` block in which torch computes, as in a function of the backend's."""
    from .mode import at_rest

    return at_rest()
