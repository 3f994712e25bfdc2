"""Attention position by position with a cache, against all positions at once under a mask."""

from collections.abc import Callable
from typing import Any

import torch

from burnlike import nn

from ..compare import Tolerance
from .expectations import same
from .results import Result
from .subject import Subject

ROUNDED = Tolerance(1e-4, 1e-4)
"""For numbers of float32 that went through several layers, one way or the other."""


def causal(subject: Subject, x: torch.Tensor) -> Any:
    """The mask that hides what comes later. `[batch, sequence, sequence]`."""
    return subject.wrapped(nn.generate_autoregressive_mask(x.shape[0], x.shape[1], x.device))


def stepwise(subject: Subject, x: torch.Tensor, step: Callable[[Any], Any]) -> torch.Tensor:
    """The last position of each growing prefix of `x`, one after the other. `[batch, sequence, d_model]`."""
    outputs = [subject.world.plain(step(subject.wrapped(x[:, : end + 1])))[:, -1:] for end in range(x.shape[1])]
    return torch.cat(outputs, 1)


def compared(subject: Subject, whole: Any, steps: torch.Tensor) -> Result:
    """The output of all positions at once, the same as that of the steps."""
    result = Result.of(subject.world, whole)
    same(result.single(), steps.tolist(), ROUNDED, "the output")
    return result


def attended(subject: Subject) -> Result:
    """Self attention."""
    layer: Any = subject.layer()
    x = subject.tensors()["input"]
    given = subject.wrapped(x)
    whole = layer(given, mask_attn=causal(subject, x))
    cache = nn.MhaCache.autoregressive()
    steps = stepwise(subject, x, lambda it: layer.forward_cache(it, cache=cache).context)
    return compared(subject, whole, steps)


def encoded(subject: Subject) -> Result:
    """A stack of encoder layers."""
    layer: Any = subject.layer()
    x = subject.tensors()["input"]
    whole = layer(subject.wrapped(x), mask_attn=causal(subject, x))
    cache = layer.new_autoregressive_cache()
    steps = stepwise(subject, x, lambda it: layer.forward_autoregressive_inference(it, cache))
    return compared(subject, whole, steps)


def decoded(subject: Subject) -> Result:
    """A stack of decoder layers."""
    layer: Any = subject.layer()
    target, memory = subject.tensors().values()
    typed = subject.wrapped(memory)
    whole = layer(subject.wrapped(target), typed, target_mask_attn=causal(subject, target))
    cache = layer.new_autoregressive_cache()
    steps = stepwise(subject, target, lambda it: layer.forward_autoregressive_inference(it, typed, cache))
    return compared(subject, whole, steps)


def cached_context(subject: Subject) -> Result:
    """Cross attention whose keys and values are computed once."""
    layer: Any = subject.layer()
    (query, context, mask), _ = subject.arguments()
    cache = nn.CrossAttentionCache()
    other = subject.wrapped(torch.rand_like(subject.world.plain(query)))
    for it in (query, other):
        whole = subject.world.plain(layer(it, context, mask))
        result = Result.of(subject.world, layer.forward_cache(it, context, mask, cache=cache))
        same(result.single(), whole.tolist(), ROUNDED, "the output")
    nothing = subject.wrapped(torch.zeros_like(subject.world.plain(context)))
    again = layer.forward_cache(other, nothing, mask, cache=cache)
    same(subject.world.plain(again), whole.tolist(), ROUNDED, "the output with another context")
    return result


DECODED: dict[tuple[str, str], Callable[[Subject], Result]] = {
    (
        "forward",
        "forward with the autoregressive mask equals step by step forward_cache (growing prefix, last position kept,"
        " concatenated on dim 1)",
    ): attended,
    (
        "forward",
        "forward with the autoregressive attention mask equals step by step forward_autoregressive_inference (growing"
        " prefixes, last position kept)",
    ): encoded,
    (
        "forward",
        "forward with the target autoregressive mask equals step by step forward_autoregressive_inference",
    ): decoded,
    (
        "forward_cache",
        "forward_cache equals forward for two different queries with the same context; key/value are computed once",
    ): cached_context,
}
"""Properties by their call and text."""
