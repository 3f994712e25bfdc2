"""Modules made of layers of `torch.nn` as modules of burnlike's layers, and back."""

from typing import Any

from torch import nn

from .directions import FromTorch, ToTorch
from .module_twins import Conversion


def from_torch(module: nn.Module) -> Any:
    """A copy of `module` whose layers of `torch.nn` are those of burnlike, with the same numbers.

    Containers and classes of your own are copied as they are, so that your `forward` goes on to run, with burnlike's
    layers in place of torch's. `nn.Identity`, `nn.Flatten`, softmaxes and paddings stay. Where methods of your classes
    read the weight of a linear layer, they get torch's layout. The copy shares no memory with `module`. Kept are
    dtypes, devices, training mode, `requires_grad`, tied layers and tensors, and the ids that `module` has; where torch
    has one tensor for several of burnlike's (as gates), these get ids of their own. Gradients are not copied, nor
    attributes that you gave to layers of torch.

    A layer whose twin is called in another way (`nn.LSTM`, `nn.MultiheadAttention`, ...) is converted only where no
    code of torch's calling convention is left: as `module` itself; a twin that differs only in arguments beside the
    first also in `nn.Sequential`. Within a class of your own it is refused, but where `register_twin` names a twin of
    the class. So are objects whose `forward` is not that of their class.

    Args:
        module: any `nn.Module`; of wrappers (DDP, torch.compile) the inner module is converted.

    Returns:
        burnlike's twin of a layer; else a module of the class of `module`.

    Raises:
        NoCounterpartError: layers or options of theirs have no counterpart, or can't be replaced where they are; the
            message has all of them by path, and nothing was converted.
        ModuleTreeError: the module holds itself, is sharded by `fully_shard`, or has a field that can't be copied.
    """
    return Conversion(module, FromTorch()).result()


def to_torch(module: nn.Module) -> Any:
    """The way back of `from_torch`: a copy of `module` whose burnlike layers are those of `torch.nn`.

    What `from_torch` made comes back equal to the bit, with the classes (`nn.BatchNorm1d`) and the buffers
    (`num_batches_tracked`) that only torch has. The ids of several tensors that become one of torch's are kept beside
    it, for `from_torch`.

    Args:
        module: any `nn.Module`.

    Returns:
        torch's twin of a layer; else a module of the class of `module`.

    Raises:
        NoCounterpartError: see `from_torch`.
        ModuleTreeError: see `from_torch`.
    """
    return Conversion(module, ToTorch()).result()
