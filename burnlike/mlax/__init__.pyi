"""The public names of `burnlike.mlax`: each is imported from where it is defined, at its first use."""

from ..random.key import Key as Key
from .applying import apply as apply
from .filters import (
    All as All,
    Any as Any,
    Filter as Filter,
    Not as Not,
    is_non_trainable as is_non_trainable,
    is_parameter as is_parameter,
    is_trainable as is_trainable,
)
from .module import Module as Module
from .parameter import Parameter as Parameter
from .sequence import (
    ModuleSeq as ModuleSeq,
    Parallel as Parallel,
    ParallelRng as ParallelRng,
    Series as Series,
    SeriesRng as SeriesRng,
)
from .static_part import leaves as leaves, static_key as static_key
from .transforms import (
    combine as combine,
    filter as filter,
    map as map,
    overlay as overlay,
    partition as partition,
    split as split,
)
