"""Tensor and sequence parallelism of single modules: styles for torch's `parallelize_module`.

A style divides parameters of a module (they become DTensors) and has its forward compute with plain tensors, the parts
of this process: native ops, adapters and fused code run as ever. Hooks exchange what goes in and out. Torch's own
styles take layers of torch alone, and compute with DTensors.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import TableIndexError
from ..module.torch_objects.wrappers import parametrizations_of
from ..ops import linear
from ..ops._divided import copied, gathered, logits_of_parts, own_part, summed
from .own_draws import draws_in_training
from .parallel_style import Style, output_dim


class ColwiseParallel(Style):
    """Each process computes a part of a linear layer's outputs.

    Torch: `torch.distributed.tensor.parallel.ColwiseParallel`, which does the same for layers of torch.
    """

    def __init__(self, *, gathers: bool = False, is_head: bool = False) -> None:
        """With `gathers` all processes get all outputs; of a head too, but for losses that take divided logits."""
        super().__init__()
        self.gathers, self.is_head = gathers, is_head
        self.may_stay_whole = gathers or is_head

    def prepare(self, module: nn.Module) -> None:
        output = output_dim(self, module)
        self.divide_weight(module, output, output)
        self.divide(module, "bias", 0)
        self._has_dropout, self._is_common = draws_in_training(module), False  # of an adapter

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        self._is_common = self._has_dropout and module.training and self.draws.begin_common(inputs)
        return (self._whole(inputs[0]), *inputs[1:]) if self.copies else inputs, named

    def _whole(self, x: Tensor) -> Tensor:
        if self.stretch.is_divided:
            return gathered(x, self.mesh, 1, summed_gradients=True)
        return copied(x, self.mesh)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        if self._is_common:
            self._is_common = False
            self.draws.end_common()
        return super()._leave(module, inputs, output)

    def leave(self, module: Any, output: Any) -> Any:
        if self.is_head:
            return logits_of_parts(output, self.mesh)
        return gathered(output, self.mesh, -1) if self.gathers else output


class RowwiseParallel(Style):
    """Each process has a part of a linear layer's inputs; the outputs are summed.

    Torch: `torch.distributed.tensor.parallel.RowwiseParallel`, which does the same for layers of torch.
    """

    def __init__(self, *, splits: bool = False) -> None:
        """With `splits` all processes have all inputs, and take their part."""
        super().__init__()
        self.splits = splits

    def prepare(self, module: nn.Module) -> None:
        output = output_dim(self, module)
        self.divide_weight(module, 1 - output, output)

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        self.show(module, "bias", None)
        return (own_part(inputs[0], self.mesh, -1), *inputs[1:]) if self.splits else inputs, named

    def leave(self, module: Any, output: Any) -> Any:
        is_divided = self.stretch.is_divided
        output = summed(output, self.mesh, 1 if is_divided else None)
        bias = module.bias
        if bias is None:
            return output
        return output + (copied(bias, self.mesh) if is_divided else bias).to(output.dtype)


class EmbeddingParallel(Style):
    """Each process has some rows of a table, such as those of some tokens."""

    may_stay_whole = True

    def prepare(self, module: nn.Module) -> None:
        if getattr(module, "max_norm", None) is not None:
            raise self.refused(module, "it has a max_norm")
        self.divide_weight(module, 0, 1)
        module.__dict__["_divided_head"] = self.project

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        (indices,) = (*inputs, *named.values())
        rows, first = self._rows(module)
        is_known = indices.is_cpu and indices.numel() > 0 and not torch.compiler.is_compiling()
        if is_known and not 0 <= int(indices.min()) <= int(indices.max()) < rows:
            raise TableIndexError(f"{self.path}: expected indices in 0..{rows - 1}, got others")
        count = rows // self.mesh.size()
        places = indices - first
        self._outside = (places < 0) | (places >= count)
        if isinstance(padding := getattr(module, "padding_idx", None), int):
            self._padding = padding
            module.padding_idx = padding - first if first <= padding < first + count else None
        return (places.masked_fill(self._outside, 0),), {}

    def leave(self, module: Any, output: Any) -> Any:
        if "_padding" in vars(self):
            module.padding_idx = vars(self).pop("_padding")
        return summed(output.masked_fill(self._outside[..., None], 0), self.mesh)

    def project(self, module: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        """The logits of the rows, for a head that is tied to the table."""
        own = None if bias is None else own_part(bias, self.mesh, 0)
        self.show_parts()
        try:
            logits = linear(copied(x, self.mesh), cast("Tensor", module.weight), own)
        finally:
            self.show_parameters()
        return logits_of_parts(logits, self.mesh)

    def _rows(self, module: Any) -> tuple[int, int]:
        lists = parametrizations_of(module)
        weight = lists["weight"].original if "weight" in lists else module._parameters["weight"]
        return weight.shape[0], weight.shape[0] // self.mesh.size() * self.mesh.get_local_rank()


class SummedGradients(Style):
    """Each process applies a layer to what it has, such as its heads: the gradients of the parameters are summed."""

    def prepare(self, module: nn.Module) -> None:
        for holder in module.modules():
            for name in holder._parameters:
                self.share(holder, name)


class DrawsItsOwn(Style):
    """A module whose inner values are divided: what it drops is drawn by each process."""

    def prepare(self, module: nn.Module) -> None:
        self._has_dropout, self._has_begun = draws_in_training(module), False

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        self._has_begun = self._has_dropout and module.training
        if self._has_begun:
            self.draws.begin((*inputs, *named.values()), self.mesh.get_local_rank())
        return inputs, named

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        if self._has_begun:
            self._has_begun = False
            self.draws.end()
        return super()._leave(module, inputs, output)


class InSequence(DrawsItsOwn):
    """A norm or a dropout, between the layers that are divided, of this process's part of a sequence."""

    def prepare(self, module: nn.Module) -> None:
        super().prepare(module)
        SummedGradients.prepare(cast("Any", self), module)
        self._all = self._fields

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        self._fields = self._all if self.stretch.is_divided else []
        return super().enter(module, inputs, named) if self.stretch.is_divided else (inputs, named)


class DividedInside(DrawsItsOwn):
    """A module whose inner values are divided, such as by heads, between column- and row-wise layers.

    It is given whole sequences, and of scores of heads those of its own.
    """

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        inputs, named = super().enter(module, inputs, named)
        known: dict[int, Tensor] = {}

        def given(value: Any, *, is_first: bool = False) -> Any:
            if not isinstance(value, Tensor) or not value.is_floating_point():
                return value
            if id(value) not in known:
                known[id(value)] = self._given(value, getattr(module, "n_heads", 0), is_first)
            return known[id(value)]

        found = tuple(given(it, is_first=place == 0) for place, it in enumerate(inputs))
        return found, {name: given(it) for name, it in named.items()}

    def _given(self, value: Tensor, heads: int, is_first: bool) -> Tensor:
        if is_first and self.stretch.is_divided:
            return gathered(value, self.mesh, 1, summed_gradients=True)
        if value.dim() == 4 and heads:
            return own_part(value, self.mesh, 1) if value.shape[1] == heads else value
        return copied(value, self.mesh)

    def leave(self, module: Any, output: Any) -> Any:
        if getattr(output, "weights", None) is None:
            return output
        return output._replace(weights=gathered(output.weights, self.mesh, 1))  # of attention


class SequenceBegin(Style):
    """From this module on, each process has a part of each sequence, `[batch, length, ...]`, if the length divides."""

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        x = inputs[0]
        self.stretch.is_divided = x.dim() == 3 and x.shape[1] % self.mesh.size() == 0
        return (own_part(x, self.mesh, 1), *inputs[1:]) if self.stretch.is_divided else inputs, named


class SequenceEnd(Style):
    """After this module, all processes have whole sequences."""

    def leave(self, module: Any, output: Any) -> Any:
        if not self.stretch.is_divided:
            return output
        x = output[0] if isinstance(output, tuple) else output
        x = gathered(x, self.mesh, 1).clone()  # no view: fully_shard warns of these
        return (x, *output[1:]) if isinstance(output, tuple) else x
