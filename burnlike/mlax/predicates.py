"""Common predicates of parameters."""

from ..module.tree.param import Param


def is_parameter(value: object) -> bool:
    """Whether `value` is a parameter's handle; a hole's too."""
    return isinstance(value, Param)


def is_trainable(param: Param) -> bool:
    """Whether `param` is meant to be trained; False for a hole."""
    return param.trainable is True


def is_non_trainable(param: Param) -> bool:
    """Whether `param` is frozen or a state; False for a hole."""
    return param.trainable is False
