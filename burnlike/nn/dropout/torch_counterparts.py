"""torch's counterpart of dropout."""

from torch import nn

from ..torch_counterpart import alike
from .configs import DropoutConfig

COUNTERPARTS = [alike(DropoutConfig, nn.Dropout, prob="p")]
