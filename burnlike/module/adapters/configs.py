"""Config of low-rank adapters."""

from typing import Annotated

from ..._dtypes import FloatName
from ...config import Config, Meta
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


class Eva(Config, tag="Eva"):
    """First values of adapters by the data of the training (Paischer et al. 2024), in peft's words.

    Attributes:
        rho: a layer gets at most rank * rho; 1 leaves all ranks as they are.
        tau: a direction has converged if a batch turns it by no more than this cosine.
        use_label_mask: whether inputs count only where there is a label.
        whiten: whether directions are divided by the roots of their singular values.
        adjust_scaling_factors: whether alpha is changed as the rank, so that the scale stays.
    """

    rho: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    tau: Annotated[float, Meta(gt=0, lt=1)] = 0.99
    use_label_mask: bool = True
    whiten: bool = False
    adjust_scaling_factors: bool = True
