"""Config of low-rank adapters."""

from typing import Annotated, Literal

from ..config import Config, Meta
from .param_group import ParamGroup


class LoraConfig(Config):
    """What `apply_lora` adds to the weights of a module (Burn's Lora).

    Attributes:
        rank: columns of `a` and rows of `b`.
        alpha: the adapter's part is scaled by alpha / rank.
        init_std: standard deviation of the initial `a`; None is 1 / rank.
        dtype: element type of `a` and `b`, and of the effective weight; None is the weight's.
        param_group: which weights get an adapter; of these only the matrices do.
    """

    rank: Annotated[int, Meta(ge=1)]
    alpha: Annotated[float, Meta(gt=0)]
    init_std: Annotated[float, Meta(gt=0)] | None = None
    dtype: Literal["bfloat16", "float16", "float32", "float64"] | None = None
    param_group: ParamGroup = ParamGroup.all()
