"""`fuse` and `unfuse`: native ops in a model that stays what it is."""

import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..._torch_compat.modules import is_compiled, is_stock_convolution
from ...errors import ModuleTreeError
from ...module import Module
from ..torch_counterparts import torch_layers
from .forwards import code_forward, mark, mark_of, stock_forward, unmark
from .functions import LOSSES
from .heads import OP as LAZY, fuse_head
from .images import IN_CHANNELS_LAST, fuse_images
from .layers import fuse_layer, layer_forward
from .reading import methods_of
from .replacements import replacement
from .trials import same_loss


@dataclass(frozen=True, slots=True)
class Fused:
    """A module with the native `ops`; its `path` is empty if it is the model itself."""

    path: str
    class_name: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A module that stays as it is, for a `reason`; its `path` is empty if it is the model itself."""

    path: str
    class_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class FuseReport:
    """The report of `fuse`: printed, a line for each class of modules and what became of it.

    Containers that stay as they are, and only call their children, are not listed.
    """

    fused: tuple[Fused, ...]
    kept: tuple[Kept, ...]

    def __str__(self) -> str:
        fused = Counter((it.class_name, ", ".join(it.ops)) for it in self.fused)
        kept = Counter((it.class_name, it.reason) for it in self.kept)
        rows = [(name, str(count), what) for counts in (fused, kept) for (name, what), count in counts.items()]
        name_width, count_width = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
        lines = [f"  {name:{name_width}}  {count:>{count_width}}  {what}" for name, count, what in rows]
        text = [f"fused {len(self.fused)} of {len(self.fused) + len(self.kept)} modules", *lines[: len(fused)]]
        return "\n".join([*text, "kept as they are", *lines[len(fused) :]] if kept else text)


def fuse(model: nn.Module, *, lazy_logits: bool = False) -> FuseReport:
    """Have the modules of a model compute with native ops where these compute the same.

    It works in place, on each module's `forward`: names, parameters, the state dict, ids, hooks and classes stay as
    they are, and `unfuse` undoes it. A module gets native ops in one of two ways:

    * Its whole forward is one op (normalizations, gated feed-forwards, linear layers on a machine where `ops.linear`
      gains): another forward takes its place, if both are proved to be the same on a stand-in with random weights:
      values, gradients, dtypes and use of random numbers, in training and in evaluation, in float32, bfloat16 and
      float16, for tiny, usual and huge inputs. Code that reads more than the op does is kept.
    * Its forward calls functions that an op computes (`F.cross_entropy`, `F.scaled_dot_product_attention`,
      `F.layer_norm`, `F.rms_norm`, `F.gelu` by tanh, `torch.lstm`, transformers' rotary embedding, attention and
      losses of language models): its own code runs, with the op behind these calls. All other names are looked up
      where the code was defined, at each call.

    Results and gradients are equal within rounding. Call it before `torch.compile` (else it is a ModuleTreeError), DDP
    or FSDP wrap the model. On other devices, and for arguments that an op does not take, the stock code runs. Print
    what it returns: what has native ops now, and why the rest has not.

    Args:
        model: any module.
        lazy_logits: language models of transformers that are called with labels compute their loss without logits
            (`linear_cross_entropy`). The `logits` that they return are a tensor that is computed when it is read,
            which has to be before the weights change: later it is an AutodiffError. Not within `torch.compile`.

    Example:
        >>> model = nn.Sequential(nn.Embedding(8, 8), nn.LayerNorm(8))
        >>> print(fuse(model))
        fused 1 of 2 modules
          LayerNorm  1  layer_norm
        kept as they are
          Embedding  1  torch's own kernel
        >>> unfuse(model)
        1
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"fuse: expected a torch.nn.Module, got a {type(model).__name__}: write fuse(model)")
    modules = dict(model.named_modules())
    for path, module in modules.items():
        place = repr(path) if path else "its root"
        if is_compiled(module):
            raise ModuleTreeError(
                f"fuse: expected a model that is not compiled yet, got one with torch.compile at {place}"
                "; call fuse first, then torch.compile"
            )
    fused, kept = [], []
    proven: dict[Any, tuple[Any, str]] = {}  # layers of one class and settings are proved once
    outcomes = {path: _fuse_module(module, proven) for path, module in modules.items()}
    _fuse_images(model, modules, outcomes)
    if lazy_logits:
        _fuse_heads(modules, outcomes)
    for path, module in modules.items():
        ops, reason = outcomes[path]
        if ops:
            fused.append(Fused(path, type(module).__name__, ops))
        elif reason:
            kept.append(Kept(path, type(module).__name__, reason))
    return FuseReport(tuple(fused), tuple(kept))


def _fuse_images(
    model: nn.Module, modules: dict[str, nn.Module], outcomes: dict[str, tuple[tuple[str, ...], str]]
) -> None:
    """Have parts compute in channels_last, and note it in what was found; batch_norm is native within these alone."""
    paths = {module: path for path, module in modules.items()}
    within: set[nn.Module] = set()
    for part, forward in list(fuse_images(model)):
        mark(part, forward)
        within |= {*part.modules()}
        for module in part.modules():
            if type(module) is nn.Conv2d and is_stock_convolution(module):
                owner, stock = stock_forward(type(module))
                assert stock is not None
                mark(module, layer_forward(owner, IN_CHANNELS_LAST, methods_of(type(module), stock), ()))
                outcomes[paths[module]] = (_ops_of(module), "")
        outcomes[paths[part]] = (_ops_of(part), "")
    for path, module in modules.items():
        if outcomes[path][0] == ("batch_norm",) and module not in within:
            unmark(module)
            outcomes[path] = ((), "no part in channels_last is around it")


def _fuse_heads(modules: dict[str, nn.Module], outcomes: dict[str, tuple[tuple[str, ...], str]]) -> None:
    """Give language models and their heads lazy logits, and note it in what was found."""
    paths = {module: path for path, module in modules.items()}
    for path, module in modules.items():
        ops, reason = outcomes[path]
        head, why_not = fuse_head(module, "cross_entropy" in ops)
        if head is not None:
            for part in (module, head):
                outcomes[paths[part]] = (tuple(dict.fromkeys(_ops_of(part))), "")
        elif why_not:
            outcomes[path] = (ops, reason or why_not)


def unfuse(model: nn.Module) -> int:
    """Undo `fuse`: every module computes as its class says again; gives how many modules had native ops."""
    count = 0
    for module in model.modules():
        had_forward, had_loss = unmark(module), _has_fused_loss(module)
        if had_loss:
            delattr(module, "_loss_function")
        count += had_forward or had_loss
    return count


def _fuse_module(module: nn.Module, proven: dict[Any, tuple[Any, str]]) -> tuple[tuple[str, ...], str]:
    """The native ops that a module has now; without any, why, which is empty for one that only calls its children."""
    if isinstance(module, Module):
        return (), "burnlike's layers call native ops by themselves"
    if ops := _ops_of(module):
        return ops, ""
    if "forward" in vars(module):
        return (), "something else has replaced its forward"
    if reason := _refused(module):
        return (), reason
    forward, reason = fuse_layer(module, proven)
    if forward is None and reason and type(module) in torch_layers():
        return (), reason
    loss_ops = () if forward else _replace_loss(module)
    forward = forward or code_forward(stock_forward(type(module))[0], replacement)
    if forward is not None:
        mark(module, forward)
    return (*(forward.ops if forward else ()), *loss_ops), reason or _reason(module)


def _ops_of(module: nn.Module) -> tuple[str, ...]:
    """The native ops that a module has."""
    forward = mark_of(module)
    ops = forward.ops if forward else ()
    return (*ops, "cross_entropy") if _has_fused_loss(module) and LAZY not in ops else ops


def _refused(module: nn.Module) -> str:
    if "parametrizations" in module._modules:
        return "torch.nn.utils.parametrize computes its tensors, at each read"
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) != 1:
        return f"it normalizes {len(module.normalized_shape)} dimensions, the native op the last one"
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and module.weight is None:
        return "it has no weight, which the native op needs"
    if isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
        return "its code was made by torch.jit or torch.fx"
    return ""


def _has_fused_loss(module: nn.Module) -> bool:
    return vars(module).get("_loss_function") in LOSSES.values()


def _replace_loss(module: Any) -> tuple[str, ...]:
    """Give a model of transformers the loss of `LOSSES` for its own."""
    library = sys.modules.get("transformers.modeling_utils")  # none of whose models is here if it is not imported
    is_theirs = library and getattr(type(module), "loss_function", None) is library.PreTrainedModel.loss_function
    if not is_theirs or "_loss_function" in vars(module):
        return ()
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or "loss_function" not in code.co_names:
        return ()
    stock = module.loss_function
    new = LOSSES.get(getattr(stock, "__name__", ""))
    if new is None or not same_loss(stock, new):
        return ()
    module.loss_function = new
    return ("cross_entropy",)


_REASONS: tuple[tuple[tuple[type[nn.Module], ...], str], ...] = (
    ((nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding), "torch's own kernel"),
    ((nn.MultiheadAttention, nn.RNNBase), "torch computes all of it in one function of its own"),
)


def _reason(module: nn.Module) -> str:
    for classes, reason in _REASONS:
        if isinstance(module, classes):
            return reason
    return "no native op computes it" if next(module.children(), None) is None else ""
