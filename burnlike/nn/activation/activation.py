"""An activation that a config chooses, as a field of other layers."""

from ...module import Module
from ..layer import ChosenLayer


class Activation(ChosenLayer):
    """One of the activations; which one is part of the record.

    Example:
        >>> from burnlike.nn import GeluConfig
        >>> Activation.of(GeluConfig()).variant
        'Gelu'
    """

    # In the order of Burn 0.21, whose bincode has the number of the variant; what it lacks comes after.
    Gelu: Module
    PRelu: Module
    Relu: Module
    LeakyRelu: Module
    SwiGlu: Module
    Selu: Module
    Sigmoid: Module
    Tanh: Module
    HardSigmoid: Module
    HardSwish: Module
    Softplus: Module
    Softsign: Module
    Elu: Module
    Celu: Module
    ThresholdedRelu: Module
    HardShrink: Module
    SoftShrink: Module
    Shrink: Module
    Identity: Module
    LogSigmoid: Module
    Hardtanh: Module
    Tanhshrink: Module
    Mish: Module
    SiLU: Module
    Relu6: Module
    RRelu: Module
    Threshold: Module
    GLU: Module
