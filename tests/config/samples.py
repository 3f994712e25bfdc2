"""Config classes for the tests: a role of their own, so that no other test sees them as modules or optimizers."""

import enum
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from burnlike.config import Config, Meta, field


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Shape(Config):
    """A role."""


class Dot(Shape, tag="Dot"):
    """A shape without fields."""


class Circle(Shape, tag="Circle"):
    """A shape with a range.

    Attributes:
        radius: in metres, and this note
            goes on in a second line.
        name: what it is called.
    """

    radius: Annotated[float, Meta(gt=0)]
    name: str = "circle"


class Box(Shape, tag="Box"):
    """A shape with a rule across fields."""

    width: Annotated[int, Meta(ge=1, le=64)]
    height: Annotated[int, Meta(ge=1, multiple_of=2)] = 2

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.height > self.width:
            yield "height", f"expected at most width ({self.width}), got {self.height}"


class Group(Shape, tag="Group"):
    """A shape that holds shapes."""

    members: Annotated[list[Shape], Meta(min_length=1)]
    frame: Box | None = None


class Other(Config):
    """Another role."""


class Sound(Other, tag="Sound"):
    """No shape."""


class Everything(Config):
    """A field of each type that a config may have."""

    count: int = 0
    ratio: float = 0.5
    on: bool = False
    text: str = "text"
    code: Annotated[str, Meta(pattern="^[a-z]+$", min_length=2, max_length=4)] = "ab"
    maybe: Annotated[int, Meta(ge=0)] | None = None
    mode: Literal["slow", "fast", 3] = "slow"
    color: Color = Color.RED
    sizes: list[int] = field(default_factory=list)
    betas: tuple[float, float] = (0.9, 0.999)
    tags: Annotated[tuple[str, ...], Meta(max_length=2)] = ()
    table: dict[str, float] = field(default_factory=dict)
    mixed: int | float | str | list[int] = 0
    anything: Any = None
    shape: Shape = Dot()
    box: Box | None = None


class Pair(Config):
    """Two required fields."""

    first: Shape
    second_value: Annotated[int, Meta(ge=0)]
