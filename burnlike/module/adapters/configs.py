"""Config of low-rank adapters."""

from ..._dtypes import FloatName
from ...config import Config
from ...config.bounds import Positive, Size
from ..groups.param_group import ParamGroup


class LoraConfig(Config):
    """The low-rank adapters that `apply_lora` adds to the weights of a module (Burn's Lora).

    Attributes:
        rank: columns of `a` and rows of `b`.
        alpha: the adapter's part is scaled by alpha / rank.
        init_std: standard deviation of the initial `a`; None is 1 / rank.
        dtype: element type of `a` and `b`, and of the effective weight; None is the weight's.
        param_group: which weights get an adapter; of these only the matrices do.
    """

    rank: Size
    alpha: Positive
    init_std: Positive | None = None
    dtype: FloatName | None = None
    param_group: ParamGroup = ParamGroup.all()
