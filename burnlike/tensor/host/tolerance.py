"""Tolerance: how far two numbers may be apart and still count as the same."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """x and y are near if x == y, both are NaN, or |x - y| < max(absolute, relative * max(|x|, |y|)).

    Attributes:
        relative: of the larger of the two, 0 or above.
        absolute: 0 or above.

    Example:
        >>> Tolerance.rel_abs(0.01, 1e-6).near(100.0, 100.9)
        True
    """

    relative: float = 0.005
    absolute: float = 1e-5

    @staticmethod
    def default() -> "Tolerance":
        """Half a percent, or 1e-5 near 0."""
        return Tolerance()

    @staticmethod
    def balanced() -> "Tolerance":
        """The same as `default`."""
        return Tolerance()

    @staticmethod
    def strict() -> "Tolerance":
        """Equal, but for numbers of the size of float32's smallest."""
        return Tolerance(0.0, 64 * 2.0**-126)

    @staticmethod
    def permissive() -> "Tolerance":
        """A hundredth, of the number or at all."""
        return Tolerance(0.01, 0.01)

    @staticmethod
    def rel_abs(relative: float, absolute: float) -> "Tolerance":
        return Tolerance(relative, absolute)

    def set_relative(self, relative: float) -> "Tolerance":
        return dataclasses.replace(self, relative=relative)

    def set_absolute(self, absolute: float) -> "Tolerance":
        return dataclasses.replace(self, absolute=absolute)

    def near(self, x: float, y: float) -> bool:
        """Whether the two numbers count as the same."""
        if x == y or (math.isnan(x) and math.isnan(y)):
            return True
        return abs(x - y) < max(self.absolute, self.relative * max(abs(x), abs(y)))
