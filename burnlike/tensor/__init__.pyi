"""The public names of `burnlike.tensor`: each is imported from where it is defined, at its first use."""

from . import (
    activation as activation,
    grid as grid,
    linalg as linalg,
    loss as loss,
    module as module,
    options as options,
    quantization as quantization,
    signal as signal,
)
from .core.dtypes import DType as DType, FloatDType as FloatDType, IntDType as IntDType, dtype_name as dtype_name
from .core.kinds import (
    D1 as D1,
    D2 as D2,
    D3 as D3,
    D4 as D4,
    D5 as D5,
    D6 as D6,
    D7 as D7,
    D8 as D8,
    Bool as Bool,
    Float as Float,
    Int as Int,
    Kind as Kind,
)
from .core.slices import Slice as Slice, s as s
from .grid import GridOptions as GridOptions, IndexPos as IndexPos
from .host.data import TensorData as TensorData, Tolerance as Tolerance
from .host.distribution import Distribution as Distribution
from .inspection.display import PrintOptions as PrintOptions, set_print_options as set_print_options
from .inspection.metadata import assert_shape as assert_shape, debug_assert_shape as debug_assert_shape
from .inspection.reading import Transaction as Transaction
from .linalg.norms import Norm as Norm
from .options import (
    AttentionModuleOptions as AttentionModuleOptions,
    AvgPoolOptions as AvgPoolOptions,
    ConvOptions as ConvOptions,
    ConvTransposeOptions as ConvTransposeOptions,
    DeformConvOptions as DeformConvOptions,
    GridSampleOptions as GridSampleOptions,
    InterpolateOptions as InterpolateOptions,
    MaxPoolOptions as MaxPoolOptions,
    UnfoldOptions as UnfoldOptions,
)
from .quantization import Block as Block, QTensor as QTensor, QuantScheme as QuantScheme
from .shape.gather_scatter import IndexingUpdateOp as IndexingUpdateOp
from .shape.joining import DimIter as DimIter
from .shape.padding import PadMode as PadMode
from .signal import StftOptions as StftOptions
from .tensor import Tensor as Tensor
from .torch_bridge.torch_function import checkpoint as checkpoint, lift as lift
