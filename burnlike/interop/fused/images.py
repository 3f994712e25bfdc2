"""Parts of a model that compute images in `torch.channels_last`, where convolutions are faster on a CPU.

A part is the largest module whose code, and that of all modules in it, is known not to ask how a tensor lies in memory
(`any_strides.py`). Its inputs are converted, its results are contiguous again, as the stock ones, and weights stay as
they are: oneDNN converts them in each call anyway.

    ResNet.forward(x)                     # the part: x `[n, 3, h, w]` becomes channels_last
        self.bn1(self.conv1(x)) ...       # every result is in channels_last, as torch's functions hand it on
        return self.fc(...)               # results of four dimensions become contiguous

While a part computes, its `F.batch_norm` is native (`lazy_norm.py`). It is left to the stock code where a hook in it
could see how tensors lie, where a module was replaced by one that is not known, and within torch.compile.
"""

import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache, update_wrapper
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import ops
from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.modules import CALL_HOOKS, has_global_hooks
from ..._torch_compat.wrappers import without_overrides
from ...ops._function import is_recorded, is_transformed
from ...ops._library import cpu_isa
from .any_strides import FLAGS, is_known
from .forwards import FusedForward, fused_forward, mark_of, stock_forward
from .image_layouts import channels_last, is_channels_last, rows_of, stock_layout
from .lazy_norm import ReadBeforeWrites, memory_of, numbers_of, version_of
from .native_convolution import are_native_groups, options_of, way_of
from .trials import numbers, untouched_state

OP = "channels_last"
IN_CHANNELS_LAST = "convolution_in_channels_last"
"""The name of the rule for convolutions within a part."""
FEWEST_CONVOLUTIONS = 2
"""Of a part: one alone gains less than the conversions take."""


class _Computing(threading.local):  # a part in one thread is not to change modules of another
    layout: torch.memory_format | None = None  # of the stock part, while one computes


_COMPUTING = _Computing()


def in_channels_last() -> bool:
    """True while a part computes in channels_last in this thread."""
    return not torch.compiler.is_compiling() and _COMPUTING.layout is not None


def fuse_images(model: nn.Module) -> Iterator[tuple[nn.Module, FusedForward]]:
    """The parts of a model, and the forward of each; none on a machine where channels_last does not gain."""
    if any(isinstance(module, nn.Conv2d) for module in model.modules()) and gains():
        for part in _parts(model, {}):
            inner = mark_of(part)
            if inner is None or OP not in inner.ops:
                inner = image_forward(stock_forward(type(part))[0], inner)
            yield part, inner


def _parts(module: nn.Module, answers: dict[nn.Module, bool]) -> Iterator[nn.Module]:
    if _is_known_whole(module, answers) and type(module) not in (nn.ModuleList, nn.ModuleDict):
        if _is_worth_it(module):
            yield module
        return
    for child in module.children():
        yield from _parts(child, answers)


def _is_worth_it(part: nn.Module) -> bool:
    """True for parts of the kinds that gain: oneDNN's convolutions in groups lose in channels_last."""
    convolutions = [module for module in part.modules() if isinstance(module, nn.Conv2d)]
    weights = [(module.groups, module.weight) for module in convolutions if module.groups > 1]
    are_native = all(are_native_groups(groups, tensor.shape, tensor.dtype, cpu_isa()) for groups, tensor in weights)
    return are_native and len(convolutions) >= FEWEST_CONVOLUTIONS


def _is_known_whole(module: nn.Module, answers: dict[nn.Module, bool]) -> bool:
    if module not in answers:
        answers[module] = False  # a module in itself
        answers[module] = is_known(module) and all(_is_known_whole(child, answers) for child in module.children())
    return answers[module]


@cache
def gains() -> bool:
    """True if a convolution, its normalization and ReLU take less time in channels_last on this machine; tried once."""
    if not torch.backends.mkldnn.is_available():
        return False

    def in_channels_last(y: Tensor) -> Tensor:
        rows = rows_of(y)
        return ops.batch_norm(rows, columns[0], columns[1], *ops.batch_moments(rows), activation="relu")

    def stock(y: Tensor) -> Tensor:
        return F.relu(F.batch_norm(y, None, None, *columns, training=True))

    times: dict[Any, float] = {}
    with untouched_state():
        weight, x = torch.ones(32, 32, 3, 3, dtype=torch.float32).requires_grad_(), numbers(16, 32, 32, 32)
        columns = [torch.ones(32, dtype=torch.float32).requires_grad_() for _ in range(2)]
        for _ in range(8):  # in turn, as a new thread may have to share a core for some of the time
            for after, layout in ((stock, torch.contiguous_format), (in_channels_last, torch.channels_last)):
                leaves = (x.contiguous(memory_format=layout).requires_grad_(), weight, *columns)
                begin = time.perf_counter()
                y = after(F.conv2d(leaves[0], weight, None, 1, 1))
                torch.autograd.grad(y, leaves, torch.ones_like(y))
                taken = time.perf_counter() - begin
                times[after] = min(times.get(after, taken), taken)
    return times[in_channels_last] < times[stock]


def image_forward(owner: type[nn.Module], inner: FusedForward | None) -> FusedForward:
    """The forward of a part whose own is that of its class, or with native ops `inner`."""
    stock = stock_forward(owner)[1] if inner is None else inner.function
    assert stock is not None
    names = () if inner is None else inner.ops
    key = (OP, None if inner is None else inner.made_by)
    return fused_forward(owner, key, lambda: (_in_channels_last(stock), (*names, OP), (image_forward, owner, inner)))


def _in_channels_last(stock: Any) -> Callable[..., Any]:
    run = _computed

    def forward(module: Any, *arguments: Any, **keywords: Any) -> Any:
        return run(stock, module, arguments, keywords)

    # With the stock function's globals, of which it uses none: as in layers.py.
    rebuilt = types.FunctionType(forward.__code__, stock.__globals__, stock.__name__, None, forward.__closure__)
    return update_wrapper(rebuilt, stock)


def _computed(
    stock: Callable[..., Any], module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """The results of a part, in channels_last within it where it is open."""
    inputs = [*arguments, *keywords.values()]
    layout = None if torch.compiler.is_compiling() or in_channels_last() else _layout_of(module, inputs)
    if layout is None:
        return stock(module, *arguments, **keywords)
    converted = [channels_last(it) if isinstance(it, Tensor) and it.dim() == 4 else it for it in inputs]
    twins = [(x, twin, version_of(twin)) for x, twin in zip(inputs, converted, strict=True) if twin is not x]
    by_name = dict(zip(keywords, converted[len(arguments) :], strict=True))
    seen = set[bool]() if torch.is_inference_mode_enabled() else _WITHOUT_WRITES.setdefault(module, set())
    watcher = None if module.training in seen else ReadBeforeWrites()
    _COMPUTING.layout = layout
    try:
        with watcher or nullcontext():
            result = _outward(stock(module, *converted[: len(arguments)], **by_name), layout)
    finally:
        _COMPUTING.layout = None
    if watcher is not None and not watcher.has_read:
        seen.add(module.training)
    for x, twin, version in twins:
        if version_of(twin) != version or (watcher is not None and memory_of(twin) in watcher.memories):
            x.copy_(twin)  # an activation in place wrote to it
    return result


_WITHOUT_WRITES: WeakKeyDictionary[nn.Module, set[bool]] = WeakKeyDictionary()
"""Parts that wrote to nothing that a waiting normalization reads, each in training, in evaluation, or both.

They are not watched again, a tenth of their Python: versions say if they do it later, but not in inference mode.
"""


def _layout_of(module: nn.Module, inputs: list[Any]) -> torch.memory_format | None:
    """The layout of images and results of the stock part; None while something in it could see strides, or for others.

    Of images in channels_last the stock results are so, too, whatever the layout of weights is.
    """
    images = [tensor for tensor in inputs if isinstance(tensor, Tensor) and tensor.dim() == 4]
    if not images or not all(_is_image(image) for image in images) or not torch.backends.mkldnn.enabled:
        return None
    # These see each tensor in the part, and how it lies.
    if is_recorded() or is_transformed() or has_global_hooks():
        return None
    if all(image.is_contiguous() for image in images):
        return torch.contiguous_format if _is_as_known(module, any_weights=False) else None
    if all(is_channels_last(image) and not image.is_contiguous() for image in images):
        return torch.channels_last if _is_as_known(module, any_weights=True) else None
    return None


def _is_image(x: Tensor) -> bool:
    is_plain = type(x) in (Tensor, nn.Parameter) and x.layout is torch.strided and not is_fake(x)
    return is_plain and x.is_cpu and x.is_floating_point() and x.numel() > 0


_KNOWN: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
"""Modules that are known, each with the forward that its class had then."""


def _is_as_known(part: nn.Module, *, any_weights: bool) -> bool:
    """True if each module in the part is known, without hooks, and with contiguous weights unless `any_weights`."""
    left, seen = [part], set[int]()
    while left:
        module = left.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        attributes = module.__dict__
        if module is not part and any(map(attributes.__getitem__, CALL_HOOKS)):
            return False
        if "forward" in attributes or any(map(attributes.get, FLAGS)):
            return False
        if _KNOWN.get(module) is not type(module).forward:
            if not is_known(module):
                return False
            _KNOWN[module] = type(module).forward
        weight = attributes["_parameters"].get("weight")
        # With weights in channels_last the stock results of contiguous images are so, too, behind a convolution.
        if weight is not None and weight.dim() == 4 and not (any_weights or weight.is_contiguous()):
            return False
        left += [value for value in attributes["_modules"].values() if value is not None]
    return True


def _outward(value: Any, layout: torch.memory_format) -> Any:
    """The result of a part with numbers that are computed, and images in the layout."""
    value = numbers_of(value)
    if isinstance(value, Tensor):
        # Of a slice or rows of an image, too, for which stock code may call `view`.
        is_other = layout is torch.contiguous_format and not value.is_contiguous() and 0 not in value.stride()
        return value if not is_other else stock_layout(value) if value.dim() == 4 else value.contiguous()
    if isinstance(value, tuple | list):
        items = [_outward(it, layout) for it in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        for name in value:
            value[name] = _outward(value[name], layout)
    return value


def drawn(x: Tensor, draw: Callable[[Tensor], Tensor], *, in_place: bool) -> Tensor | None:
    """`draw(x)` with random numbers for the values of an image in the order of the stock layout; None outside of parts.

    torch draws in the order of memory.
    """
    is_other = in_channels_last() and _COMPUTING.layout is torch.contiguous_format
    if not is_other or not isinstance(x, Tensor) or x.dim() != 4 or x.is_contiguous():
        return None
    x = numbers_of(x)
    if x.stride(1) != min(x.stride()):
        return None  # no image, nor a slice of one
    result = channels_last(draw(stock_layout(x)))
    return x.copy_(result) if in_place else result


def convolved(module: Any, x: Any) -> Tensor | None:
    """A convolution within a part by another way than oneDNN's in channels_last, where one is faster, else None."""
    if not in_channels_last():
        return None
    with without_overrides():
        x, options = numbers_of(x), options_of(module)
        is_usual = type(x) is Tensor and is_channels_last(x) and module.padding_mode == "zeros"
        weight, bias = module.weight, module.bias
        if not is_usual or options is None or not weight.is_contiguous():
            return None
        has_one_dtype = x.dtype == weight.dtype == (weight if bias is None else bias).dtype
        dtype = x.dtype if has_one_dtype and not torch.is_autocast_enabled("cpu") else None
        way = way_of(x.shape, weight.shape, dtype, options, cpu_isa())
        return None if way is None else way(x, weight, bias)
