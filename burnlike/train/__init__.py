"""Training: the config of a run, the Learner, checkpoints, metrics and progress."""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
