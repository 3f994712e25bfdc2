"""Metrics: values that are computed of all predictions and targets of an epoch, each a `torchmetrics.Metric`."""

from ..._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
