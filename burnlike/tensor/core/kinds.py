"""The kinds and ranks in a tensor's type, and its sizes: for type checkers, with names for messages."""

from typing import Generic, Literal, TypeAlias

from typing_extensions import TypeVar

D1: TypeAlias = Literal[1]
D2: TypeAlias = Literal[2]
D3: TypeAlias = Literal[3]
D4: TypeAlias = Literal[4]
D5: TypeAlias = Literal[5]
D6: TypeAlias = Literal[6]
D7: TypeAlias = Literal[7]
D8: TypeAlias = Literal[8]
"""The rank of a tensor in its type, `Tensor[Cpu, D2, Float]`: 1 to 8."""

S1: TypeAlias = tuple[int]
S2: TypeAlias = tuple[int, int]
S3: TypeAlias = tuple[int, int, int]
S4: TypeAlias = tuple[int, int, int, int]
S5: TypeAlias = tuple[int, int, int, int, int]
S6: TypeAlias = tuple[int, int, int, int, int, int]
S7: TypeAlias = tuple[int, int, int, int, int, int, int]
S8: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""The sizes of a tensor of rank 1 to 8."""

MAX_RANK = 8


class Kind:
    """The kind of a tensor's elements. `Float`, `Int` and `Bool` are used as types, never instantiated."""

    name: str


X = TypeVar("X")


class Number(Kind, Generic[X]):
    """A kind with arithmetic; X are the numbers that fit its elements."""


class Float(Number[float]):
    """Floating point elements: float64, float32, float16, bfloat16."""

    name = "Float"


class Int(Number[int]):
    """Integer elements, signed or unsigned, 8 to 64 bits."""

    name = "Int"


class Bool(Kind):
    """True and False."""

    name = "Bool"


# Float or Int, but not Bool: constrained, so that both type checkers refuse Bool.
N = TypeVar("N", Float, Int)
