"""Tensor[B, D, K]: a torch tensor with a backend, a rank and a kind."""

from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from ..backend import Autodiff, Cpu
from .arithmetic.elementwise import ComparisonMethods, FloatMethods, LogicMethods, NumericMethods
from .arithmetic.reductions import ReductionMethods
from .arithmetic.stats import StatsMethods
from .core.base import B2, B, D, K, TensorBase
from .core.spec import Spec, family_of
from .creation.conversion import ConversionMethods
from .creation.creation import CreationMethods
from .grid import GridMethods
from .inspection.autodiff import AutodiffMethods
from .inspection.display import DisplayMethods
from .inspection.metadata import MetadataMethods
from .inspection.reading import ReadingMethods
from .linalg.einsum import EinsumMethods, MatmulMethods
from .quantization import QuantizationMethods
from .shape.gather_scatter import GatherScatterMethods
from .shape.indexing import IndexingMethods
from .shape.joining import JoiningMethods
from .shape.masks import MaskMethods
from .shape.padding import PaddingMethods
from .shape.shape import ShapeMethods
from .torch_bridge.interop import TorchMethods, answer_to_torch_names, register

C = TypeVar("C", bound=type)


def _in_one_class(tensor: C) -> C:
    """The class with what its parts define, and without the parts as bases.

    To make an instance Python searches `object` among the bases, one after the other. For each attribute torch.compile
    guards every class that it passes on the way to the one that has it, and checks these guards at every call.
    """
    members = {name: value for part in reversed(tensor.__mro__[:-2]) for name, value in vars(part).items()}
    one: Any = type(tensor.__name__, (TensorBase,), members)
    return one


@_in_one_class
class Tensor(
    CreationMethods[B, D, K],
    MetadataMethods[B, D, K],
    ShapeMethods[B, D, K],
    JoiningMethods[B, D, K],
    ReadingMethods[B, D, K],
    IndexingMethods[B, D, K],
    GatherScatterMethods[B, D, K],
    MaskMethods[B, D, K],
    LogicMethods[B, D, K],
    ComparisonMethods[B, D, K],
    NumericMethods[B, D, K],
    MatmulMethods[B, D, K],
    FloatMethods[B, D, K],
    ConversionMethods[B, D, K],
    QuantizationMethods[B, D, K],
    ReductionMethods[B, D, K],
    StatsMethods[B, D, K],
    EinsumMethods[B, D, K],
    GridMethods[B, D, K],
    AutodiffMethods[B, D, K],
    PaddingMethods[B, D, K],
    DisplayMethods[B, D, K],
    TorchMethods[B, D, K],
):
    """A torch tensor whose backend, rank and kind type checkers know. Operations never change an operand.

    `Tensor[B, D, K=Float]`: B the backend, D the rank (`D1` to `D8`), K the kind (`Float`, `Int`, `Bool`). The
    subscript is for type checkers; at run time the wrapped tensor says what it is.

    Raises TensorValueError: shapes or sizes that don't fit, or a dimension outside of -rank .. rank-1.
    Raises TensorTypeError: an operand of another backend, kind, rank or element type.

    Example:
        >>> import torch
        >>> from burnlike import Cpu, Tensor
        >>> x = Tensor(torch.tensor([1.0, 2.0]), Cpu())
        >>> (x.add(1.0)).sum().inner
        tensor([5.])
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # What a checker can't read off a torch tensor is Any; an annotation says it: `x: Tensor[Cpu, D2] = Tensor(t)`.
        @overload
        def __new__(cls, inner: torch.Tensor, backend: B2) -> "Tensor[B2, Any, Any]": ...
        @overload
        def __new__(
            cls, inner: torch.Tensor, backend: None = None, *, spec: Spec | None = None
        ) -> "Tensor[Any, Any, Any]": ...
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """For type checkers only; `__init__` makes a tensor."""


answer_to_torch_names(Tensor)
register(Tensor)
# torch.compile can look these up, but not make them.
family_of(Cpu())
family_of(Autodiff(Cpu()))
