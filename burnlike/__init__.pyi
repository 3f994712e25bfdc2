"""The public names of `burnlike`: each is imported from where it is defined, at its first use."""

__version__: str

from . import (
    backend as backend,
    config as config,
    data as data,
    errors as errors,
    func as func,
    interop as interop,
    mlax as mlax,
    models as models,
    module as module,
    nn as nn,
    ops as ops,
    optim as optim,
    record as record,
    tensor as tensor,
    train as train,
)
from ._memory import keep_freed_memory as keep_freed_memory
from .backend import (
    Autodiff as Autodiff,
    AutodiffBackend as AutodiffBackend,
    Backend as Backend,
    Cpu as Cpu,
    Cuda as Cuda,
    Gradients as Gradients,
)
from .config import Config as Config, ModuleConfig as ModuleConfig
from .module import Module as Module, Param as Param, ParamGroup as ParamGroup, ParamId as ParamId, constant as constant
from .record import (
    BFloat16Precision as BFloat16Precision,
    DoublePrecision as DoublePrecision,
    FullPrecision as FullPrecision,
    HalfPrecision as HalfPrecision,
    Precision as Precision,
    Record as Record,
    SafetensorsRecorder as SafetensorsRecorder,
)
from .tensor import (
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
    Tensor as Tensor,
)
