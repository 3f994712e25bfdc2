"""Ranges for the numbers of configs. Each has an upper bound, which a message names with its reason.

A field of your own is bounded by one of these, or by `Annotated[int, Meta(ge=1), at_most(64, "the kernel's tile")]`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

LARGEST_FLOAT = 1e18
"""Of the floats that only have to be finite: infinity, and what overflows to it, would make every weight NaN or 0."""


def at_most(largest: float, reason: str) -> Meta:
    """An upper bound that messages give together with its reason, and only where it is exceeded."""
    return Meta(le=largest, extra={"reason": reason})


_SIZE = at_most(2**31 - 1, "matrix products of BLAS count rows and columns in 32 bits")
_COUNT = at_most(2**31 - 1, "the product of two larger counts does not fit into 64 bits")
_FLOAT = at_most(LARGEST_FLOAT, "the product of two larger numbers is no float32")

Size = Annotated[int, Meta(ge=1), _SIZE]
"""A dimension of a tensor."""
FROM_DATA: Any = "data"
"""The value of `Outputs` that a job's data replaces."""
if TYPE_CHECKING:
    Outputs = int
else:
    Outputs = Size | Literal["data"]
"""The size of a model's result: classes, or numbers. `data`: as many as the data of a job has."""
EvenSize = Annotated[int, Meta(ge=2, multiple_of=2), _SIZE]
"""A dimension of a tensor that is split into halves."""
Count = Annotated[int, Meta(ge=1), _COUNT]
"""A number of things: steps, epochs, items."""
CountOrZero = Annotated[int, Meta(ge=0), _COUNT]
"""A number of things that 0 leaves out."""
PER_LAYER = "Python takes milliseconds and kilobytes for each layer"
Layers = Annotated[int, Meta(ge=1), at_most(4096, PER_LAYER)]
"""The number of modules one after the other."""
Finite = Annotated[float, Meta(ge=-LARGEST_FLOAT), _FLOAT]
"""Any float but infinities and NaN."""
NotNegative = Annotated[float, Meta(ge=0), _FLOAT]
"""From 0 on, and finite."""
Positive = Annotated[float, Meta(gt=0), _FLOAT]
"""Above 0, and finite."""
Dimension = Annotated[int, Meta(ge=-64), at_most(63, "torch's tensors have at most 64 dimensions")]
"""The number of a dimension; negative ones count from the last."""
