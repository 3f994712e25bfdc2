"""MLAX's module semantics: attributes are Parameter handles, modules can be filtered, partitioned and combined.

The functions work on any `nn.Module`; `Module` has them as methods.
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .applying import apply
    from .combining import combine, overlay
    from .filters import All, Any, Filter, Not
    from .hyperparameters import static_key
    from .layered import Parallel, ParallelRng, Series, SeriesRng
    from .mapped import map
    from .module import Module
    from .parameter import Parameter
    from .predicates import is_non_trainable, is_parameter, is_trainable
    from .random_key import Key
    from .selecting import filter, partition, split
    from .sequence import ModuleSeq
    from .structure import leaves

__all__ = [
    "All",
    "Any",
    "Filter",
    "Key",
    "Module",
    "ModuleSeq",
    "Not",
    "Parallel",
    "ParallelRng",
    "Parameter",
    "Series",
    "SeriesRng",
    "apply",
    "combine",
    "filter",
    "is_non_trainable",
    "is_parameter",
    "is_trainable",
    "leaves",
    "map",
    "overlay",
    "partition",
    "split",
    "static_key",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "apply": "applying",
        **dict.fromkeys(["combine", "overlay"], "combining"),
        **dict.fromkeys(["All", "Any", "Filter", "Not"], "filters"),
        "static_key": "hyperparameters",
        **dict.fromkeys(["Parallel", "ParallelRng", "Series", "SeriesRng"], "layered"),
        "map": "mapped",
        "Module": "module",
        "Parameter": "parameter",
        **dict.fromkeys(["is_non_trainable", "is_parameter", "is_trainable"], "predicates"),
        "Key": "random_key",
        **dict.fromkeys(["filter", "partition", "split"], "selecting"),
        "ModuleSeq": "sequence",
        "leaves": "structure",
    },
)
