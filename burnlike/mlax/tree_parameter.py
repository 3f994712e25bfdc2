"""The handle of an attribute with several tensors."""

from torch import nn

from .parameter import Parameter
from .pytrees import register_handle


class TreeParameter(Parameter, nn.Module):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The handle on several tensors as an attribute: also the module that holds them, which torch finds by name.

    `functional_call`, `get_parameter` and other tools of torch reach `c.0` through the attribute `c`.
    """

    __getattr__ = nn.Module.__getattr__  # pyright: ignore[reportAssignmentType]
    __setattr__ = object.__setattr__  # pyright: ignore[reportAssignmentType]

    @classmethod
    def on(cls, owner: nn.Module, name: str) -> "TreeParameter":
        """The handle on the DataTree that is the child `name` of `owner`."""
        handle = object.__new__(cls)
        handle.__dict__ = owner._modules[name].__dict__  # pyright: ignore[reportOptionalMemberAccess]
        handle.bind(((owner, name),))
        return handle


register_handle(TreeParameter, Parameter)
