"""The wrappers, classes and parametrizations that torch puts around modules and tensors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.dispatch import is_traceable_wrapper_subclass
from ..._torch_compat.fsdp import is_distributed as is_distributed, is_managed, sharded
from ..._torch_compat.modules import INFIX, WRAPPED, WRAPPERS

_CONTAINERS = {
    **dict.fromkeys(["ModuleList", "ParameterList", "Sequential"], "Vec"),
    **dict.fromkeys(["ModuleDict", "ParameterDict"], "Dict"),
}


def bare_name(name: str) -> str:
    """The name of a state dict without what `torch.compile` and checkpoint wrappers put into it."""
    return INFIX.sub("", name)


def unwrap(module: nn.Module) -> nn.Module:
    """The module inside the wrappers (DDP, torch.compile, ...) of `module`; a TypeError if it is none."""
    if not isinstance(module, nn.Module):
        check_module(module)
    modules: Any = module.__dict__.get("_modules", ())
    for name in WRAPPED:  # before the class is looked at, which takes longer
        if name in modules and wrapped_name(type(module)) == name:
            return unwrap(modules[name])
    return module


def check_module(module: object) -> None:
    if not isinstance(module, nn.Module):
        is_class = isinstance(module, type)
        got = f"the class {module.__name__}: give an object of it" if is_class else f"a {type(module).__name__}"
        raise TypeError(f"expected a torch.nn.Module, got {got}")


def wrapped_name(cls: type) -> str | None:
    """The attribute in which a wrapper of class `cls` holds the wrapped module; None if it is not a wrapper."""
    names = (WRAPPERS.get(f"{base.__module__}.{base.__qualname__}") for base in cls.__mro__)
    return next((name for name in names if name is not None), None)


def is_sharded(module: nn.Module) -> bool:
    """True if `fully_shard` was applied to `module` itself, or to one above it that has its parameters sharded."""
    return "FSDPModule" in [base.__name__ for base in type(module).__mro__] or is_managed(module)


def local(tensor: Any) -> Tensor:
    """The part of `tensor` that this rank has, sharing its memory; `tensor` itself where it is whole."""
    return tensor.to_local() if is_distributed(tensor) else tensor


def storage_of(tensor: Tensor) -> int:
    """The address of its memory; 0 where it has none of its own."""
    tensor = tensor.detach()
    return tensor.untyped_storage().data_ptr() if type(tensor) is Tensor and tensor.layout == torch.strided else 0


def part_of(whole: Tensor, like: Any, placements: Sequence[Any] | None = None) -> Any:
    """This rank's part of `whole`, which all ranks hold, sharded as `like`, or by `placements`; a DTensor."""
    if is_distributed(whole):
        return whole
    from torch.distributed.tensor import distribute_tensor

    # Every rank has the whole: nothing is sent.
    return distribute_tensor(whole.to(like.device), like.device_mesh, placements or like.placements, src_data_rank=None)


def is_quantized(tensor: Tensor) -> bool:
    """True for a tensor made of integers and their scales, as those of torchao are."""
    return is_traceable_wrapper_subclass(tensor) and not is_distributed(tensor) and hasattr(tensor, "dequantize")


def division_problem(tensor: Tensor, count: int) -> str:
    """Why torchao can't divide one among so many processes, as `fully_shard` asks it to; empty if it can."""
    try:
        tensor.detach().chunk(count)
    except (NotImplementedError, AssertionError) as error:
        return " ".join(str(error).split())[:120] or type(error).__name__
    return ""


def dequantized(tensor: Tensor) -> Tensor:
    """The plain tensor that one of torchao stands for; any other as it is."""
    if not is_quantized(tensor):
        return tensor
    of_nf4 = getattr(tensor, "get_original_weight", None)  # the `dequantize` of NF4Tensor is for its parts
    return tensor.dequantize() if of_nf4 is None else of_nf4()


_ELSEWHERE = "_burnlike_elsewhere"


def elsewhere(module: nn.Module) -> frozenset[str]:
    """The paths of what other processes have of a module, of which this one has some stages."""
    return vars(unwrap(module)).get(_ELSEWHERE, frozenset())


def note_elsewhere(module: nn.Module, paths: Iterable[str]) -> None:
    vars(unwrap(module))[_ELSEWHERE] = frozenset(paths)


_ADDED = ("FSDPModule", "PartOfPipeline")
# Where the classes of parametrize say that they were made: by ABCMeta, of classes that are abstract or containers.
_MADE_IN = ("torch.nn.utils.parametrize", "abc")


def own_class(module: nn.Module) -> type:
    """The class that the program gave `module`, behind those of parametrize, of fully_shard and of pipelines."""
    cls = type(module)
    while len(cls.__mro__) > 2 and (
        (cls.__module__ in _MADE_IN and "__getstate__" in cls.__dict__)
        or any(base.__name__ in _ADDED for base in cls.__bases__)
    ):
        cls = next(base for base in cls.__bases__ if base.__name__ not in _ADDED)
    return cls


def container_of(module: nn.Module) -> str:
    """The kind of container that `module` is, as Burn's visitors are told it."""
    cls = own_class(module)
    kind = module.__dict__.get("_burnlike_container") or getattr(cls, "_burnlike_container", None)
    if kind is not None:
        return kind
    return (cls.__module__.startswith("torch.nn") and _CONTAINERS.get(cls.__name__)) or f"Struct:{cls.__name__}"


def parametrizations_of(module: nn.Module) -> dict[str, Any]:
    """Tensor name -> the ParametrizationList that took it over (`torch.nn.utils.parametrize`); the dict torch keeps."""
    lists = module._modules.get("parametrizations")
    return lists._modules if isinstance(lists, nn.ModuleDict) and type(module) is not own_class(module) else {}


def base_tensor(module: nn.Module, name: str) -> Tensor | None:
    """The tensor of the field `name`, without computing it: of a parametrized one, what it is computed from."""
    if (list_of := parametrizations_of(module).get(name)) is not None:
        module, name = list_of, base_name(list_of)
    groups = (module._parameters, module._buffers, module.__dict__)
    shown = next((group[name] for group in groups if isinstance(group.get(name), Tensor)), None)
    return None if shown is None else sharded(module, name, shown)


def reparameterization_of(module: nn.Module, name: str) -> nn.Module | None:
    """The burnlike reparameterization (LoRA, ...) of the tensor `name` of `module`, or None."""
    list_of = parametrizations_of(module).get(name)
    first = list_of._modules.get("0") if list_of is not None else None
    return first if hasattr(type(first), "reparameterization_name") else None


def base_name(list_of: nn.Module) -> str:
    """The name of the parametrization's tensor in place of the original: the largest, of equal ones the last.

    In a part of a module, from which tensors were filtered out, it is noted which it was.
    """
    if "_base_name" in list_of.__dict__:
        return list_of.__dict__["_base_name"]
    sizes = {
        key: 0 if it is None else it.numel() for key, it in (*list_of._parameters.items(), *list_of._buffers.items())
    }
    return max(sizes, key=lambda key: (sizes[key], key))


def note_base_name(list_of: nn.Module) -> None:
    """Note it before tensors are taken out."""
    list_of.__dict__["_base_name"] = base_name(list_of)


def parts_of(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Each place of a module in the tree, as torch has them, after what holds it; with the prefix of the paths in it.

    Wrappers are passed over, and nothing is decided or checked, so that torch.compile traces it.
    """
    module = unwrap(module)
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from parts_of(child, f"{prefix}{name}.")
