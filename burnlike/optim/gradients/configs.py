"""The configs of gradient clipping."""

from typing import Annotated

from ...config import Config, Meta

Threshold = Annotated[float, Meta(gt=0)]


class GradientClipping(Config):
    """Role of all kinds of clipping."""


class ClipByValue(GradientClipping, tag="ClipByValue"):
    """Every element is cut to -threshold .. threshold."""

    threshold: Threshold


class ClipByNorm(GradientClipping, tag="ClipByNorm"):
    """Each tensor on its own is scaled down to at most this Euclidean norm (Burn's `Norm`)."""

    threshold: Threshold


class ClipByGlobalNorm(GradientClipping, tag="ClipByGlobalNorm"):
    """All tensors together are scaled down to at most this Euclidean norm (`torch.nn.utils.clip_grad_norm_`).

    Attributes:
        threshold: the largest norm.
        group: name of the norm. All clippings of one name in an optimizer take one norm, of all their parameters; None
            takes that of the parameters which this clipping is configured for: a group's, or the base's with those of
            the groups that have no clipping of their own.
    """

    threshold: Threshold
    group: Annotated[str, Meta(min_length=1)] | None = None
