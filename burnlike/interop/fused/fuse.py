"""`fuse` and `unfuse`: native ops in a model that stays what it is."""

import inspect
from functools import partial
from typing import Any

from torch import nn

from ..._torch_compat.modules import COMPILED_CALL
from ...errors import ModuleTreeError
from ...module import Module
from .functions import LOSSES, replacement
from .layers import LAYER_RULES
from .rebinding import rebound
from .report import Fused, FuseReport, Kept


class FusedForward(partial):
    """The forward of one module in the place of its class's: a function of the module and the arguments."""

    @property
    def __signature__(self) -> inspect.Signature:
        (module,) = self.args
        return inspect.signature(type(module).forward.__get__(module))

    @property
    def ops(self) -> tuple[str, ...]:
        """The native ops that it calls."""
        return self.func.ops if isinstance(self.func, ReboundForward) else _LAYER_OPS[self.func]


_LAYER_OPS = {rule.forward: (rule.op,) for rule in LAYER_RULES}


class ReboundForward:
    """The forward of a class with native ops behind some of its global names; pickled by the class."""

    def __init__(self, owner: type[nn.Module]) -> None:
        self.owner = owner
        self.function, self.ops = rebound(owner.forward, replacement)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the class's code."""
        return self.function(*arguments, **keywords)

    def __reduce__(self) -> tuple[Any, ...]:
        return ReboundForward, (self.owner,)


def fuse(model: nn.Module) -> FuseReport:
    """Have the modules of a model compute with native ops where these compute the same.

    It works in place, on each module's `forward`: names, parameters, the state dict, ids, hooks and classes stay as
    they are, and `unfuse` undoes it. A module gets native ops in one of two ways:

    * Its whole forward is one op (normalizations, gated feed-forwards, linear layers on a machine where `ops.linear`
      gains): another forward takes its place, after both gave the same results on a stand-in with small random weights.
    * Its forward calls functions that an op computes (`F.cross_entropy`, `F.scaled_dot_product_attention`,
      `F.layer_norm`, `F.rms_norm`, transformers' rotary embedding, attention and losses of language models): its own
      code runs, with the op behind these names.

    Results and gradients are equal within rounding. Call it before `torch.compile`, DDP or FSDP wrap the model. On
    other devices, and for arguments that an op does not take, the stock code runs.

    Args:
        model: any `nn.Module`: of transformers, of `torch.nn`, your own.

    Returns:
        What has native ops now, and why the rest has not; print it.

    Raises:
        ModuleTreeError: the model is compiled, and compiled code would not see the change.

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
    modules = dict(model.named_modules())
    for path, module in modules.items():
        place = repr(path) if path else "its root"
        if type(module).__name__ == "OptimizedModule" or vars(module).get(COMPILED_CALL) is not None:
            raise ModuleTreeError(
                f"fuse: expected a model that is not compiled yet, got one with torch.compile at {place}"
                "; call fuse first, then torch.compile"
            )
    fused, kept = [], []
    forwards: dict[type[nn.Module], ReboundForward] = {}
    for path, module in modules.items():
        ops, reason = _fuse_module(module, forwards)
        if ops:
            fused.append(Fused(path, type(module).__name__, ops))
        elif reason:
            kept.append(Kept(path, type(module).__name__, reason))
    return FuseReport(tuple(fused), tuple(kept))


def unfuse(model: nn.Module) -> int:
    """Undo `fuse`: every module computes as its class says again.

    Returns:
        The number of modules that had native ops.
    """
    count = 0
    for module in model.modules():
        own = vars(module)
        names = [
            *(["forward"] if isinstance(own.get("forward"), FusedForward) else []),
            *(["_loss_function"] if own.get("_loss_function") in LOSSES.values() else []),
        ]
        for name in names:
            delattr(module, name)
        count += bool(names)
    return count


def _fuse_module(module: nn.Module, forwards: dict[type[nn.Module], ReboundForward]) -> tuple[tuple[str, ...], str]:
    """The native ops that a module has now; without any, why, which is empty for one that only calls its children.

    `forwards` has what was made for classes before, and gets what is made for this one.
    """
    if isinstance(module, Module):
        return (), "burnlike's layers call native ops by themselves"
    own = vars(module).get("forward")
    if own is not None:
        return (own.ops, "") if isinstance(own, FusedForward) else ((), "something else has replaced its forward")
    reason = ""
    for rule in LAYER_RULES:
        if rule.concerns(module):
            reason = rule.trial(module)
            if not reason:
                module.forward = FusedForward(rule.forward, module)
                return (rule.op,), ""
    if reason and type(module).__module__.startswith("torch."):
        return (), reason  # its forward calls nothing else than what was tried
    ops = _replace_loss(module)
    owner = type(module)
    forward = forwards[owner] = forwards.get(owner) or ReboundForward(owner)
    if forward.ops:
        module.forward = FusedForward(forward, module)
    return (*forward.ops, *ops), reason or _reason(module)


def _replace_loss(module: Any) -> tuple[str, ...]:
    """Give a model of transformers the loss of `LOSSES` for its own."""
    if not type(module).__module__.startswith("transformers."):
        return ()
    if "loss_function" not in inspect.unwrap(type(module).forward).__code__.co_names or "_loss_function" in vars(
        module
    ):
        return ()
    own = getattr(module.loss_function, "__name__", "")
    if own not in LOSSES:
        return ()
    module.loss_function = LOSSES[own]
    return ("cross_entropy",)


_REASONS: tuple[tuple[tuple[type[nn.Module], ...], str], ...] = (
    ((nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding), "torch's own kernel"),
    ((nn.Dropout,), "alone; a native op has it together with the sum that follows"),
    ((nn.MultiheadAttention, nn.RNNBase), "torch computes all of it in one function of its own"),
)


def _reason(module: nn.Module) -> str:
    for classes, reason in _REASONS:
        if isinstance(module, classes):
            return reason
    return "no native op computes it" if next(module.children(), None) is None else ""
