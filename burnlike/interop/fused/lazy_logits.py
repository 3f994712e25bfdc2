"""Logits that are computed when something reads them: what a model returns beside a loss that was made without them.

They are a tensor with a shape, a dtype and a place in autograd's graph, but without memory. A few functions give
another such tensor: `float()`, rows by `view` or an index, a product with a number, `tanh`. Every other function gets
the numbers, which are computed once, as the model's own code would have: with the grad mode of the forward pass, and
its autocast. So views, writes in place and gradients are torch's own from there on.

What happens to them in a model's code, with `hidden` `[2, 8, d]` and `weight` `[classes, d]`:

    logits = self.lm_head(hidden)       # lazy: Recipe(Head(hidden, weight), steps=()), shape [2, 8, classes]
    logits = logits.float()             # lazy: steps=(float,)
    rows = logits[:, :-1].flatten(0, 1) # lazy for the index; `flatten` is in no list, so the numbers are read here
    rows = logits[:, :-1].reshape(-1, classes)   # lazy: steps=(float, getitem, reshape)
    cross_entropy(rows, labels)         # `loss_of`: linear_cross_entropy(hidden[:, :-1].reshape(-1, d), weight, labels)
    logits.argmax(-1)                   # reads: F.linear(hidden, weight).float(), kept for the next reader

Late reading is right only while nobody has written to `hidden` or `weight`. torch counts writes in place, but not those
through `weight.data`, as some optimizers make them: `Head` keeps a sample of 256 x 16 weights, and compares it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._torch_compat.tensors import shares_memory, times_written
from ..._torch_compat.wrappers import as_plain, tensor_without_memory
from ...errors import AutodiffError
from ...ops._arguments import autocast_dtype
from ...ops.linear_cross_entropy import unrounded_loss

_SAMPLED = (256, 16)
"""Rows and columns of the weight that are compared: a step of an optimizer changes nearly all weights."""


class Head:
    """A linear layer and its input: `hidden` `[..., d]`, `weight` `[classes, d]`, `bias` `[classes]` or None."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        if hidden.is_inference():  # whose writes nobody counts
            hidden = hidden.clone()
        self.hidden, self.weight, self.bias = hidden, weight, bias
        self.dtype = autocast_dtype(hidden)
        self.tracked = torch.is_grad_enabled()
        self._written, self._sample = self._times_written(), self._sampled()

    def _times_written(self) -> list[int]:
        parts = (it for it in (self.hidden, self.weight, self.bias) if it is not None)
        return [0 if part.is_inference() else times_written(part) for part in parts]

    def _sampled(self) -> Tensor:
        """Some weights, evenly spaced; writes through `weight.data` leave the count of writes as it is."""
        rows, columns = (max(1, size // most) for size, most in zip(self.weight.shape, _SAMPLED, strict=True))
        return self.weight.detach()[::rows, ::columns].clone()

    def check(self) -> None:
        """Raise AutodiffError if something was written to since the forward pass."""
        has_memory = self.weight.untyped_storage().nbytes() > 0  # which FSDP frees after the call
        if not has_memory or self._times_written() != self._written or not torch.equal(self._sampled(), self._sample):
            raise AutodiffError(
                "the logits of a model with fuse(model, lazy_logits=True) are computed when they are first read, and"
                " its weights or hidden states were written to since the forward pass; read them before the"
                " optimizer's step, or call fuse(model) without lazy_logits"
            )

    def logits(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The logits as the layer computes them."""
        if self.dtype is not None:
            hidden, weight = hidden.to(self.dtype), weight.to(self.dtype)
            bias = None if bias is None else bias.to(self.dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            return F.linear(hidden, weight, bias)


@dataclass(frozen=True, slots=True)
class Step:
    """A function that was called with the logits as its first argument, with other arguments that are no tensors."""

    function: Callable[..., Tensor]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    tracked: bool

    def __call__(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.tracked):
            return self.function(x, *self.arguments, **self.keywords)


@dataclass(slots=True)
class Recipe:
    """The recipe of lazy logits. `source` are the logits whose memory they share, `values` the numbers, once read."""

    head: Head
    steps: tuple[Step, ...] = ()
    source: "Recipe | None" = None
    values: Tensor | None = None

    def read(self) -> Tensor:
        if self.values is None:
            if self.source is not None:  # a view of other logits, which shows what is written into them
                self.values = self.steps[-1](self.source.read())
            else:
                self.head.check()
                self.values = self.computed(self.head.hidden, self.head.weight, self.head.bias)
        return self.values

    def computed(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        with torch.inference_mode(False), as_plain(), torch.set_grad_enabled(self.head.tracked):
            x = self.head.logits(hidden, weight, bias)
            for step in self.steps:
                x = step(x)
        return x


class LazyTensor(Tensor):
    """A tensor of which nothing is computed yet, or all: every function gets what `recipe.read()` gives."""

    recipe: Any

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with as_plain():
            return func(*_read(args), **_read(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The same for calls from C++, such as autograd's; the call is in autograd's graph already."""
        return func(*_read(args, below=True), **_read(kwargs or {}, below=True))


class LazyLogits(LazyTensor):
    """Logits of a `recipe`, of which a few functions give others that are lazy."""

    recipe: Recipe

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, LazyLogits) and first.recipe.values is None:
            if func in _ABOUT:
                with as_plain():
                    return func(*args, **keywords)
            if func in _ROWS or func in _NUMBERS:
                deferred = _deferred(first, func, args[1:], keywords)
                if deferred is not None:
                    return deferred
        return super().__torch_function__(func, types, args, kwargs)


def _read(value: Any, *, below: bool = False) -> Any:
    """The numbers in the place of lazy tensors; `below` autograd they have no place in a graph of their own."""
    if isinstance(value, LazyTensor):
        values = value.recipe.read()
        if below and not values.is_inference() and times_written(values):
            raise AutodiffError("lazy values that were written to in place are read by code that autograd can't follow")
        return values.detach() if below else values
    if isinstance(value, tuple | list):
        items = [_read(it, below=below) for it in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {name: _read(it, below=below) for name, it in value.items()}
    return value


class _Deferred(torch.autograd.Function):
    """The place of lazy logits in autograd's graph, for code that asks for it without reading them, as DDP does."""

    @staticmethod
    def forward(ctx: Any, recipe: Recipe, twin: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.recipe = recipe
        ctx.save_for_backward(hidden, weight, bias)
        logits = tensor_without_memory(LazyLogits, twin.shape, twin.stride(), twin.dtype, hidden.device)
        logits.recipe = recipe
        return logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        # The logits are computed again from leaves: their graph ends at the saved tensors, whose own graphs torch runs.
        saved = ctx.saved_tensors
        leaves = [None if it is None else it.detach().requires_grad_(it.is_floating_point()) for it in saved]
        with torch.enable_grad():
            logits = ctx.recipe.computed(*leaves)
        grads = iter(torch.autograd.grad(logits, [leaf for leaf in leaves if leaf is not None], grad))
        return None, None, *(None if leaf is None else next(grads) for leaf in leaves)


def lazy_logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear(hidden, weight, bias)`, to be computed when it is read."""
    head = Head(hidden, weight, bias)
    dtype = hidden.dtype if head.dtype is None else head.dtype
    twin = torch.empty((*hidden.shape[:-1], weight.shape[0]), dtype=dtype, device="meta")
    return _Deferred.apply(Recipe(head), twin, head.hidden, weight, bias)


def _deferred(logits: LazyLogits, func: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of a function of logits, to be computed when it is read; None where they have to be read now."""
    recipe, head = logits.recipe, logits.recipe.head
    if not all(_is_simple(it) for it in (*arguments, *keywords.values())):
        return None
    # The function is tried on a twin without memory, which tells the result's shape, dtype and whether it is a view.
    with as_plain():
        twin = torch.empty_strided(logits.shape, logits.stride(), dtype=logits.dtype, device="meta")
    step = Step(func, arguments, keywords, torch.is_grad_enabled())
    try:
        result = func(twin, *arguments, **keywords)
    except Exception:  # the stock function is to raise it
        return None
    if result is twin:
        return logits
    if (
        result.dim() < 1
        or result.shape[-1] != logits.shape[-1]
        or result.numel() == 0
        or not result.is_floating_point()
    ):
        return None
    longer = replace(
        recipe, steps=(*recipe.steps, step), source=recipe if shares_memory(result, twin) else None, values=None
    )
    if _hidden_of(longer, torch.empty(head.hidden.shape, device="meta")) is None:
        return None
    parts = (head.hidden, head.weight, head.bias)
    if func is Tensor.detach:
        parts = (None if part is None else part.detach() for part in parts)  # so that `requires_grad` says no
    return _Deferred.apply(longer, result, *parts)


def _is_simple(argument: Any) -> bool:
    if isinstance(argument, slice):
        argument = (argument.start, argument.stop, argument.step)
    if isinstance(argument, tuple | torch.Size):
        return all(_is_simple(it) for it in argument)
    return argument is None or argument is Ellipsis or type(argument) in (int, float, bool, torch.dtype)


def _hidden_of(recipe: Recipe, hidden: Tensor) -> Tensor | None:
    """The rows of `hidden` whose logits these are; None where they are not those of whole rows in order."""
    width, classes = hidden.shape[-1], recipe.head.weight.shape[0]
    twin = torch.empty((*hidden.shape[:-1], classes), device="meta")
    for step in recipe.steps:
        twin = step(twin)
        if step.function in _RESHAPES:
            hidden = hidden.reshape(*twin.shape[:-1], width)
        elif step.function in _ROWS:
            hidden = step(hidden)
        if hidden.shape != (*twin.shape[:-1], width) or twin.shape[-1] != classes:
            return None
    return hidden


def loss_of(
    logits: LazyLogits, targets: Tensor, ignore_index: int, label_smoothing: float, reduction: Any
) -> Tensor | None:
    """The cross-entropy of logits `[n, classes]` in float32, without them; None where they have to be read."""
    recipe, head = logits.recipe, logits.recipe.head
    scale_and_cap = _scale_and_cap(recipe)
    is_open = recipe.values is None and autocast_dtype(head.hidden) == head.dtype
    is_usual = type(targets) is Tensor and targets.dtype == torch.int64 and targets.device == head.hidden.device
    if scale_and_cap is None or not is_open or not is_usual:
        return None
    if targets.shape != logits.shape[:1] or not 0.0 <= label_smoothing <= 1.0:
        return None
    hidden, (scale, soft_cap) = _hidden_of(recipe, head.hidden), scale_and_cap
    # linear_cross_entropy is one node of the graph: it can't be tracked in one part and not in another.
    modes = {head.tracked, torch.is_grad_enabled(), *(step.tracked for step in recipe.steps)}
    is_detached = any(step.function is Tensor.detach for step in recipe.steps)
    if hidden is None or len(modes) > 1 or is_detached or reduction not in ("mean", "sum", "none"):
        return None
    bias = head.bias
    if scale != 1.0:
        hidden = hidden * scale
        bias = None if bias is None else bias * scale
    return unrounded_loss(
        *(hidden, head.weight, targets, bias), ignore_index, label_smoothing, 0.0, soft_cap, reduction
    )


def _scale_and_cap(recipe: Recipe) -> tuple[float, float | None] | None:
    """s and c where the steps make c * tanh(s * x / c) of logits x, or s and None where they make s * x; else None."""
    before, after, capped = 1.0, 1.0, False
    dtype = recipe.head.dtype or recipe.head.hidden.dtype
    for step in recipe.steps:
        kind = _NUMBERS.get(step.function)
        if kind == "tanh":
            if capped:
                return None
            capped, before, after = True, after, 1.0
        elif kind in ("mul", "div"):
            if step.keywords or len(step.arguments) != 1 or type(step.arguments[0]) not in (int, float):
                return None
            number = float(step.arguments[0])
            if not 1e-6 <= number <= 1e6:  # else the order of products could overflow or vanish
                return None
            after = after * number if kind == "mul" else after / number
        elif kind == "to":
            new = torch.float32 if step.function is Tensor.float else step.arguments[0] if step.arguments else None
            if step.keywords or len(step.arguments) > 1 or new not in (dtype, torch.float32):
                return None
            dtype = new
    scale = before * after
    # A factor and its inverse, as in `c * tanh(x / c)`, multiply to 1 but for rounding.
    return (1.0 if abs(scale - 1.0) < 1e-12 else scale), after if capped else None


_RESHAPES = frozenset({Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten})
_ROWS = frozenset({*_RESHAPES, Tensor.__getitem__, Tensor.contiguous, Tensor.detach})
_NUMBERS: dict[Any, str] = {
    **dict.fromkeys((Tensor.float, Tensor.to), "to"),
    **dict.fromkeys((Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.mul), "mul"),
    **dict.fromkeys((Tensor.div, Tensor.__truediv__, torch.div), "div"),
    **dict.fromkeys((Tensor.tanh, torch.tanh), "tanh"),
}
_ASKED = "shape dtype device layout ndim requires_grad is_leaf grad_fn is_cpu is_cuda is_meta is_sparse is_nested"
_CALLED = "size dim numel nelement stride is_floating_point is_complex is_contiguous is_inference get_device __len__"
_ABOUT = frozenset(
    {*(getattr(Tensor, name).__get__ for name in _ASKED.split()), *(getattr(Tensor, name) for name in _CALLED.split())}
)
