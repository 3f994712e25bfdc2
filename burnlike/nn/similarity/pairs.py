"""The check of two inputs that are compared."""

from torch import Tensor

from ..layer import shape_error


def expect_pair(layer: object, x1: Tensor, x2: Tensor) -> None:
    """Check that two inputs have as many dimensions, of sizes that are equal or 1.

    Raises:
        ShapeError: they have not.
    """
    sizes = zip(x1.shape, x2.shape, strict=False)
    if x1.ndim != x2.ndim or any(one != other and one != 1 and other != 1 for one, other in sizes):
        raise shape_error(layer, f"the sizes of x1, {list(x1.shape)}, or 1", list(x2.shape), name="x2")
