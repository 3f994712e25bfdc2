"""The names, counts and texts that a display shows of a module tree, without drawing ids or values."""

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from ..attributes.plain_attributes import USER_CONTAINER
from ..identity.field_metadata import fields_with, meta_of, ordered_fields
from ..identity.param_id import ParamId
from ..torch_objects.wrappers import base_tensor, container_of, own_class
from ..transforms.placement import num_params
from ..transforms.visiting import kind_of
from .values import tensor_text, type_text


def top_text(module: nn.Module) -> str:
    """The text before the braces: the class, the variant of an enum, or the form of a sequence."""
    sequence = sequence_kind(module)
    if sequence:
        return sequence_text(sequence, len(module.__dict__.get(USER_CONTAINER, module)))
    kind = container_of(module)
    variant = next(iter(module._modules), None) if kind.startswith("Enum:") else None
    return variant or kind.partition(":")[2] or type_text(module)


def sequence_text(kind: str, count: int) -> str:
    """The text before the braces of a `Vec`, `Array`, `Tuple` or `Dict` of `count` items."""
    names = ", ".join(f"L{index}" for index in range(count)) if kind == "Tuple" else ""
    return {"Vec": f"Vec<0..{count}>", "Array": f"[0..{count}]", "Tuple": f"({names})"}.get(kind, kind)


def sequence_kind(module: nn.Module) -> str:
    """`Vec`, `Array`, `Tuple` or `Dict` for what only collects, which has no count of its own; else nothing."""
    kind = container_of(module)
    # A Sequential is a Vec to visitors, but it computes: it is shown by its name.
    return "" if ":" in kind or own_class(module) is nn.Sequential else kind


def shown_names(module: nn.Module, tensors_and_modules: dict[str, None]) -> Iterable[str]:
    """The fields to be shown, in order of declaration; constants whose place is not known come first."""
    parts = module.__dict__
    cls = own_class(module)
    # Tools put their own `forward` and other methods on a module: they are no fields.
    constants = [
        name
        for name, value in parts.items()
        if not name.startswith("_") and name != "training" and not (callable(value) and hasattr(cls, name))
    ]
    fields = ordered_fields(module)
    known = {*constants, *tensors_and_modules}
    placed = [name for name in fields if name in known]
    return dict.fromkeys([*(name for name in constants if name not in fields), *placed, *tensors_and_modules])


def is_state(module: nn.Module, tensor: Tensor) -> bool:
    passing = module._non_persistent_buffers_set
    return any(buffer is tensor and name not in passing for name, buffer in module._buffers.items())


def param_text(tensor: Tensor, is_weight: bool, param_id: ParamId | None) -> str:
    """The text of a parameter or persistent buffer, of floats a running statistic; with the id if it is given."""
    kind = kind_of(tensor)
    if not is_weight and kind == "float":
        return "RunningState"
    # Those of torch's lazy layers have no shape before the first forward.
    known = "ParamTensor {uninitialized" if is_shapeless(tensor) else tensor_text(tensor, "ParamTensor")[:-1]
    text = f"{known}, kind: {kind}"
    return f"{text}}}" if param_id is None else f"{text}, id: {param_id}}}"


def count_params(module: nn.Module) -> int:
    """As `num_params`; 0 of a tree that holds itself, which is displayed to find out where."""
    try:
        return num_params(module)
    except ModuleTreeError:
        return 0


def missing_text(module: nn.Module, name: str) -> str:
    """The text for a tensor that should be there and is not; empty otherwise."""
    meta = meta_of(module, name)
    if not (meta.hole or meta.trainable is not None) or base_tensor(module, name) is not None:
        return ""
    return "Hole" if meta.hole else "Uninitialized"


def has_missing(module: nn.Module) -> bool:
    """Whether a tensor of the tree is to be there and is not: then fields show what is left."""
    return any(
        missing_text(part, name) and part._modules.get(name) is None
        for part in module.modules()
        for name in fields_with(part, "meta")
    )
