"""MomentumConfig: how Sgd lets its gradients run on."""

from typing import Annotated

from ...config import Config, Meta


class MomentumConfig(Config):
    """Momentum of Sgd; the defaults are Burn's (in torch, dampening is 0).

    Attributes:
        momentum: what stays of the velocity in a step.
        dampening: what is left out of a gradient, but for the first one.
        nesterov: look ahead by one step of the velocity (Sutskever et al. 2013). Torch allows it without dampening
            only; here, as in Burn, both go together.
    """

    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    dampening: Annotated[float, Meta(ge=0, le=1)] = 0.1
    nesterov: bool = False
