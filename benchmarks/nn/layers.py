"""Forward and backward pass of each layer at a usual size, beside its counterpart in torch.nn: plain, and typed.

The weights are the same on both sides. Names of layers choose some of them: `python -m benchmarks.nn.layers Conv2d`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn as torch_nn

from benchmarks._harness import Comparison, compare, main
from burnlike import Autodiff, Cpu, Tensor
from burnlike.interop.torch_counterparts import pairs
from burnlike.module import params
from burnlike.nn.torch_counterpart import Counterpart

from .sizes import SIZES, Size

PLAIN_BAR = 0.97
TYPED_BAR = 0.95


def first(output: Any) -> Any:
    """The first tensor of an output; of an attention's, what it attended to."""
    if isinstance(output, torch.Tensor | Tensor):
        return output
    return first(output.context if hasattr(output, "context") else output[0])


def leaves_of(inputs: tuple[Any, ...]) -> list[Any]:
    """The inputs, floats of their own that get a gradient."""
    return [
        it.clone().requires_grad_() if isinstance(it, torch.Tensor) and it.is_floating_point() else it for it in inputs
    ]


def forget(leaves: list[Any], layer: torch_nn.Module, gradients: list[Any]) -> None:
    """Drop all gradients, so that none are added up: those of tensors, and those that typed passes returned."""
    gradients.clear()
    for it in (*leaves, *layer.parameters()):
        if isinstance(it, torch.Tensor):
            it.grad = None


def pass_of(
    layer: torch_nn.Module, arguments: list[Any], named: Mapping[str, Any], gradients: list[Any] | None = None
) -> Callable[[], None]:
    """A forward and a backward pass.

    Args:
        layer: on either side.
        arguments: of the layer.
        named: arguments by name.
        gradients: for typed tensors, whose pass starts from ones by itself: takes the gradients, which live until the
            next pass as those of torch's leaves do. None for plain ones.
    """

    def plain_pass() -> None:
        output = first(layer(*arguments, **named))
        if output.requires_grad:
            output.backward(torch.ones_like(output))

    def typed_pass() -> None:
        output = first(layer(*arguments, **named))
        if gradients is not None and output.is_tracked():
            gradients.append(output.backward())

    return plain_pass if gradients is None else typed_pass


def measure(name: str, size: Size, twin: Counterpart, repeats: int) -> list[Comparison]:
    """One layer: plain, and typed."""
    torch.manual_seed(0)
    layer: Any = size.config.init()
    twin = twin.of(layer)
    theirs = twin.build(layer, torch.device("cpu"))
    state = {it.path: it.tensor.detach() for it in params(layer)}
    theirs.load_state_dict({name: it.make(state) for name, it in twin.recipes(state).items()}, strict=False)
    inputs = size.inputs()
    ours, others = leaves_of(inputs), leaves_of(inputs)
    backend = Autodiff(Cpu())
    typed = [Tensor(it, backend) if isinstance(it, torch.Tensor) else it for it in ours]
    their_arguments = list(size.torch_inputs(*others))
    torch.manual_seed(1)
    expected = first(theirs(*their_arguments, **size.named))
    gradients: list[Any] = []
    found = []
    for kind, given, bar in (("", ours, PLAIN_BAR), (", typed", typed, TYPED_BAR)):
        torch.manual_seed(1)
        output = first(layer(*given, **size.named))
        plain = output.inner if isinstance(output, Tensor) else output
        error = (plain.reshape(expected.shape) - expected).abs().max().item()
        result = compare(
            f"{name}{kind}",
            pass_of(layer, given, size.named, gradients if kind else None),
            pass_of(theirs, their_arguments, size.named),
            theirs_name=f"torch.nn.{type(theirs).__name__}",
            bar=bar,
            repeats=repeats,
            note="" if error < 1e-4 else f"outputs differ by {error:.1e}",
            before_ours=lambda: forget(ours, layer, gradients),
            before_theirs=lambda: forget(others, theirs, []),
        )
        found.append(result)
    return found


def run(repeats: int, names: list[str] | None = None) -> list[Comparison]:
    """Measure all layers, or some by name."""
    known = {it.layer: it for it in pairs()}
    chosen = {name: size for name, size in SIZES.items() if not names or name in names}
    return [
        result for name, size in chosen.items() for result in measure(name, size, known[name.split("/")[0]], repeats)
    ]


if __name__ == "__main__":
    main(__doc__ or "", run, names=[*SIZES])
