"""The roles that layers can play in others: a field annotated with one takes any config of a layer that plays it."""

from ..config import ModuleConfig


class ActivationConfig(ModuleConfig):
    """Role of all activations: layers from one tensor to another of the same number of dimensions."""
