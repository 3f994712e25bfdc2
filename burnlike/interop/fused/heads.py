"""Heads of language models: linear + cross-entropy without logits, which are computed when something reads them.

The model's own code runs. While it runs with labels, its head (`get_output_embeddings()`) gives `LazyLogits`, which the
loss takes for what they are made of, and all other code for a tensor.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.modules import COMPILED_CALL, has_call_hooks
from ...ops._function import is_recorded, is_transformed
from .forwards import FusedForward, computes_weights, fused_forward, mark, mark_of, stock_forward
from .functions import takes
from .lazy_logits import lazy_logits

OP = "linear_cross_entropy"
# Below, the logits are small, and a call takes longer than it gains.
_FEWEST_LOGITS = 2**18
# A context variable, since replicas of DataParallel run in threads at the same time.
_HEAD: ContextVar[nn.Module | None] = ContextVar("head", default=None)


def fuse_head(model: nn.Module, has_fused_loss: bool) -> tuple[nn.Module | None, str]:
    """Give a model of transformers and its head lazy logits; returns the head, or None and why not.

    The reason is empty for a module that is no language model.
    """
    # A model of transformers is here only if the library is loaded; importing it would take seconds.
    library = sys.modules.get("transformers.modeling_utils")
    if library is None or not isinstance(model, library.PreTrainedModel):
        return None, ""
    owner, stock = stock_forward(type(model))
    head: Any = model.get_output_embeddings()  # pyright: ignore[reportCallIssue]
    if stock is None or head is None or "labels" not in inspect.signature(stock).parameters:
        return None, ""
    if not has_fused_loss:
        return None, "its loss is none that a native op computes"
    if not _takes_lazy_forward(head):
        return None, f"its head is a {type(head).__name__}, not torch's linear layer"
    model_mark = mark_of(model)
    if model_mark is None or OP not in model_mark.ops:
        mark(model, model_forward(owner, model_mark))
    return head, ""


def model_forward(owner: type[nn.Module], inner: FusedForward | None) -> FusedForward:
    """The forward of a model, or what it has for it, with lazy logits where there are labels."""
    stock = stock_forward(owner)[1]
    assert stock is not None
    run: Callable[..., Any] = stock if inner is None else inner.function
    position = list(inspect.signature(stock).parameters).index("labels")

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        labels = keywords.get("labels", arguments[position - 1] if len(arguments) >= position else None)
        if labels is None or torch.compiler.is_compiling() or is_recorded() or is_transformed():
            return run(self, *arguments, **keywords)
        with _asking(self.get_output_embeddings()):
            return run(self, *arguments, **keywords)

    ops = (*(it for it in (() if inner is None else inner.ops) if it != "cross_entropy"), OP)
    function = update_wrapper(forward, stock)
    return fused_forward(owner, (OP, inner), lambda: (function, ops, (model_forward, owner, inner)))


@contextmanager
def lazy_head(model: nn.Module) -> Iterator[None]:
    """Within it the head of a language model of transformers gives lazy logits; other models run as they are.

    A model with hooks runs as it is: those of FSDP begin the backward pass from the logits.
    """
    head: Any = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None  # pyright: ignore[reportCallIssue]
    # A head with another forward breaks the guards of torch.compile on layers with adapters.
    is_plain = isinstance(head, nn.Module) and getattr(model, COMPILED_CALL, None) is None and not has_call_hooks(model)
    with _asking(head if is_plain and not is_transformed() and _takes_lazy_forward(head) else None):
        yield


@contextmanager
def _asking(head: nn.Module | None) -> Iterator[None]:
    """Within it this head gives lazy logits."""
    token = _HEAD.set(head)
    try:
        yield
    finally:
        _HEAD.reset(token)


def _takes_lazy_forward(head: nn.Module) -> bool:
    """Give a head that computes as torch's linear layer the forward that asks `_HEAD`; False for another kind."""
    owner, stock = stock_forward(type(head))
    head_mark = mark_of(head)
    if owner is not nn.Linear or stock is None or "forward" in vars(head) or computes_weights(type(head)):
        return False
    if head_mark is None or OP not in head_mark.ops:
        mark(head, head_forward(owner, head_mark))
    return True


def head_forward(owner: type[nn.Module], inner: FusedForward | None) -> FusedForward:
    """The forward of a linear layer, or what it has for it, but for the head of a model that runs with labels."""
    stock = stock_forward(owner)[1]
    assert stock is not None
    run: Callable[..., Any] = stock if inner is None else inner.function

    def forward(self: Any, input: Tensor) -> Tensor:
        is_asked = not torch.compiler.is_compiling() and _HEAD.get() is self and not computes_weights(type(self))
        # Hooks, such as those by which FSDP frees the weight, would read the logits right away.
        if is_asked and not has_call_hooks(self) and takes_head(input, self.weight, self.bias):
            return lazy_logits(input, self.weight, self.bias)
        return run(self, input)

    function = update_wrapper(forward, stock)
    return fused_forward(owner, (OP, inner), lambda: (function, (OP,), (head_forward, owner, inner)))


def takes_head(x: Any, weight: Any, bias: Any) -> bool:
    """True if the logits of these may be lazy: large enough, of torch's own tensors with values and memory."""
    if not takes(x, weight, bias) or x.is_meta or is_fake(x) or x.dtype == torch.float64 or weight.dim() != 2:
        return False
    if x.dim() < 2 or x.shape[-1] != weight.shape[1] or x.numel() == 0:
        return False
    is_cast = torch.is_autocast_enabled(x.device.type)
    if not is_cast and not (weight.dtype == x.dtype and (bias is None or bias.dtype == x.dtype)):
        return False
    return x.numel() // x.shape[-1] * weight.shape[0] >= _FEWEST_LOGITS
