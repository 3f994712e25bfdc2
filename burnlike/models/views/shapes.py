"""Runs a module on the meta device, and notes each call in it: shapes, parameters, floating-point operations."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.flop_counter import FlopCounterMode

from ..._terminal import table
from ..._torch_compat.dispatch import TorchDispatchMode
from ...config.root_keys import Input
from ...errors import BurnlikeError, ConfigError
from ...nn.embedding import Embedding

_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Call(NamedTuple):
    """One call of a module, by the shapes of what it gets and gives.

    Attributes:
        path: of the module; empty for the model itself.
        depth: how many calls it lies in.
        output: empty if it failed.
        parameters: elements of its parameters, each counted once.
        flops: operations on floats in matrix products, convolutions and attention, 2 for a product that is added.
    """

    path: str
    depth: int
    type: str
    inputs: str
    output: str = ""
    parameters: int = 0
    flops: int = 0


class Trace(NamedTuple):
    """The calls of a model in the order in which they begin, and the innermost one that raised, if any, and what."""

    calls: list[Call]
    failed: Call | None = None
    message: str = ""


def trace(module: nn.Module, inputs: list[Input]) -> Trace:
    """Call a module that is on the meta device with tensors of these shapes.

    Raises:
        ConfigError: torch has no such element type.
    """
    positional = [_tensor(it) for it in inputs if not it.name]
    named = {it.name: _tensor(it) for it in inputs if it.name}
    calls: list[Call] = []
    running: list[int] = []
    module.eval()
    with (
        counter() as flops,
        torch.no_grad(),
        _noted(module, flops, calls, running),
        _tied_heads(module, calls, running),
    ):
        try:
            module(*positional, **named)
        except (BurnlikeError, RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            failed = calls[running[-1]] if running else Call("", 0, type(module).__name__, "")
            calls = [call if call.output else call._replace(flops=0) for call in calls]
            return Trace(calls, failed, " ".join(str(error).split()) or type(error).__name__)
    return Trace(calls)


def counter(*, recomputes: bool = True) -> FlopCounterMode:
    """torch's counter, which also knows torch's attention on CPUs; it is entered by `with`.

    Args:
        recomputes: whether the products count that the backward pass of attention computes again.
    """
    name = "_scaled_dot_product_flash_attention_for_cpu"
    formulas: dict[Any, Any] = {getattr(torch.ops.aten, name): _attention}
    if not recomputes:
        names = [f"_scaled_dot_product_{kind}_attention" for kind in ("efficient", "flash", "cudnn")]
        formulas |= {getattr(torch.ops.aten, "_".join((it, "backward"))): _attention_backward for it in (name, *names)}
        if hasattr(torch.ops.burnlike, "attention_backward"):
            formulas[torch.ops.burnlike.attention_backward] = _attention_backward
    return FlopCounterMode(display=False, custom_mapping=formulas)


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    *batch, length, d_key = query
    return 2 * prod(batch) * length * key[-2] * (d_key + value[-1])


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    return 2 * _attention(query, key, value)


@contextmanager
def _noted(module: nn.Module, counter: FlopCounterMode, calls: list[Call], running: list[int]) -> Iterator[None]:
    """Add each call to `calls` when it begins, and its result when it ends; `running` has those that go on."""
    hooks = []

    def before(path: str, child: nn.Module, args: Any, kwargs: Any) -> None:
        parameters = sum(parameter.numel() for parameter in child.parameters())
        inputs = ", ".join(shape_text(it) for it in (*args, *kwargs.values()))
        call = Call(path, len(running), type(child).__name__, inputs, "", parameters, counter.get_total_flops())
        running.append(len(calls))
        calls.append(call)

    def after(child: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        place = running.pop()
        flops = counter.get_total_flops() - calls[place].flops
        calls[place] = calls[place]._replace(output=shape_text(output), flops=flops)

    for path, child in module.named_modules():
        hooks.append(child.register_forward_pre_hook(partial(before, path), with_kwargs=True))
        hooks.append(child.register_forward_hook(after, with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tied_heads(module: nn.Module, calls: list[Call], running: list[int]) -> Any:
    """Add a row for each product with the table of an Embedding, which no layer computes: a head that shares it."""
    tables = {
        StorageWeakRef(child.weight.untyped_storage()): (path, child)
        for path, child in module.named_modules()
        if isinstance(child, Embedding | torch.nn.Embedding)
    }

    class TiedHeads(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
            keys = (StorageWeakRef(tensor.untyped_storage()) for tensor in tensors)
            named = [tables[key] for key in keys if key in tables]
            is_product = len(tensors) > 1 and isinstance(result, torch.Tensor) and result.dim() > 1
            if named and is_product and result.shape[-1] == named[0][1].weight.shape[0]:
                path, child = named[0]
                flops = 2 * result.numel() * child.weight.shape[1]
                row = Call(f"{path} (tied)", len(running), type(child).__name__, shape_text(tensors[0]))
                calls.append(row._replace(output=shape_text(result), flops=flops))
            return result

    return TiedHeads()


def shape_text(value: Any) -> str:
    """The shape of a tensor, `[8, 16]`, or `int64[8, 16]` if it is not float32; of a tuple those of its items."""
    if isinstance(value, torch.Tensor):
        dtype = "" if value.dtype is torch.float32 else str(value.dtype).removeprefix("torch.")
        return f"{dtype}{list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(shape_text, value))})"
    return "-" if value is None else type(value).__name__


def _tensor(spec: Input) -> Any:
    try:
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
    except RuntimeError as error:
        raise ConfigError(f"--input {spec}: torch can't make this tensor: {error}") from error


def shape_table(calls: list[Call]) -> list[str]:
    """The calls as lines of a table, and the model's totals if it ran to its end."""
    rows = [("layer", "type", "in", "out", "parameters", "FLOPs")]
    above: list[str] = []
    for call in calls:
        del above[call.depth :]
        name = call.path.removeprefix(f"{above[-1]}.") if above and above[-1] else call.path
        above.append(call.path)
        numbers = f"{call.parameters:,}" if call.parameters else "-", operations(call.flops)
        output = call.output or "failed"
        rows.append((f"{'  ' * call.depth}{name or '(model)'}", call.type, call.inputs, output, *numbers))
    widths = [max(len(row[column]) for row in rows) for column in (4, 5)]
    rows = [(*row[:4], row[4].rjust(widths[0]), row[5].rjust(widths[1])) for row in rows]
    total = calls[0]
    lines = table(rows)
    if total.output:
        lines += [f"total: {total.parameters:,} parameters, {operations(total.flops)} FLOPs for these inputs"]
    return lines


def operations(count: int) -> str:
    """A number of operations as people read it: `1.11 G`."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return str(count) if count else "-"
