"""Tensor and sequence parallelism of single modules: styles for torch's `parallelize_module`.

A style divides parameters of a module (they become DTensors) and has its forward compute with plain tensors, the parts
of this process: native ops, adapters and fused code run as ever. Hooks exchange what goes in and out. Torch's own
styles take layers of torch alone, and compute with DTensors.
"""

from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from ..errors import ConfigError, TableIndexError
from ..module.adapters.layers import Lora
from ..module.adapters.token_rows import TokenRows
from ..module.torch_objects.wrappers import base_tensor, is_quantized, own_class, parametrizations_of
from ..nn.linear import Linear
from ..ops import linear
from ..ops._divided import copied, gathered, logits_of_parts, own_part, summed

_LAST_SEED = 2**62
_NAMES = ("p", "prob")


class OwnDraws:
    """Random number streams of a model that several processes share: common ones, and those of each process.

    The seed of a process's own numbers comes from the common generator, so that they are repeated where that one's
    state is restored, as by a checkpoint of activations and by a resumed training.
    """

    def __init__(self) -> None:
        self._common: list[_States] = []
        self._own: list[_States] = []

    def begin(self, inputs: tuple[Any, ...], rank: int) -> None:
        """Draw numbers of this process alone, by the generators of the CPU and of the first input's device."""
        seed = int(torch.randint(_LAST_SEED, ())) + rank
        self._common.append(_states(inputs))
        for generator, _ in self._common[-1]:
            generator.manual_seed(seed)

    def end(self) -> None:
        _restore(self._common.pop())

    def begin_common(self, inputs: tuple[Any, ...]) -> bool:
        """Draw again what all processes draw, of what they all have; returns whether own numbers were drawn."""
        if self._common:
            self._own.append(_states(inputs))
            _restore(self._common[-1])
        return bool(self._common)

    def end_common(self) -> None:
        # All processes have drawn the same: their common streams go on behind these numbers.
        self._common[-1] = [(generator, generator.get_state()) for generator, _ in self._common[-1]]
        _restore(self._own.pop())


_States = list[tuple[Any, Tensor]]
"""Generators, and a state of each."""


def _states(inputs: tuple[Any, ...]) -> _States:
    generators = [torch.default_generator]
    if inputs and isinstance(inputs[0], Tensor) and inputs[0].is_cuda:
        generators.append(torch.cuda.default_generators[inputs[0].get_device()])
    return [(generator, generator.get_state()) for generator in generators]


def _restore(states: _States) -> None:
    for generator, state in states:
        generator.set_state(state)


def draws_in_training(module: nn.Module) -> bool:
    """True if a module, or one in it, has a probability of dropping values."""
    return any(
        isinstance(value, float) and value > 0 and ("drop" in name or name in _NAMES)
        for part in module.modules()
        for name, value in vars(part).items()
    )


_ABSENT = object()
"""The value of an attribute that was not there before `Style.show`."""


class Stretch:
    """A stretch of layers in which each process has a part of each sequence, where the length divides evenly."""

    is_divided = False


class Style(ParallelStyle):
    """One module's part in tensor parallelism; a subclass says what is done before and after its forward.

    Attributes:
        path: of the module, for messages.
        stretch: the stretch of layers that the module is in.
        draws: which numbers are drawn, in all of the model.
        divided: by the id of a whole parameter, it and the divided one, which all modules that have it get.
        copies: whether gradients of inputs are summed here; a module around it may do that for several.
        may_stay_whole: whether the module is left alone where its tokens or classes don't divide: nobody sees it.
    """

    path = ""
    copies = True
    may_stay_whole = False

    def __init__(self) -> None:
        super().__init__()
        self.stretch, self.draws = Stretch(), OwnDraws()
        self.divided: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
        self._fields: list[tuple[nn.Module, str, bool]] = []
        self._shown: list[tuple[nn.Module, str, Any]] = []

    # A copied module has the style in its hooks, and with it a mesh, whose process groups can't be copied.
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # The one method that torch's contract of a ParallelStyle has.
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.mesh = device_mesh
        if self.may_stay_whole and _rows(module) % device_mesh.size():
            return module
        self.prepare(module)
        module.register_forward_pre_hook(self._enter, with_kwargs=True)
        # Also where the forward raises: the parts would stay in the place of the parameters.
        module.register_forward_hook(self._leave, always_call=True)
        return module

    def prepare(self, module: nn.Module) -> None:
        """Divide the parameters."""

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """The arguments that the forward gets."""
        return inputs, named

    def leave(self, module: Any, output: Any) -> Any:
        """The result that others get of the forward's."""
        return output

    def divide(self, holder: nn.Module, name: str, dim: int) -> None:
        """Divide a parameter along `dim`; a ConfigError with the sizes where it does not come out even."""
        parameter = holder._parameters.get(name)
        if parameter is None:
            return
        parts = self.mesh.size()
        if parameter.shape[dim] % parts:
            raise ConfigError(
                f"distributed.tensor: {parts} processes can't share {self.path}.{name}, {list(parameter.shape)},"
                f" equally: {parameter.shape[dim]} is no multiple of {parts}; choose other sizes, or"
                f" `distributed.plan: {{{self.path}: replicated}}`"
            )
        self._place(holder, name, Shard(dim))
        self._fields.append((holder, name, False))

    def share(self, holder: nn.Module, name: str, *, as_dtensor: bool = False) -> None:
        """Leave a parameter whole; its gradients are summed, as each process computes a part with it.

        As a DTensor it can stand in a formula with others.
        """
        if holder._parameters.get(name) is not None:
            if as_dtensor:
                self._place(holder, name, Replicate())
            self._fields.append((holder, name, True))

    def _place(self, holder: nn.Module, name: str, placement: Placement) -> None:
        parameter: Any = holder._parameters[name]
        if not isinstance(parameter, DTensor):
            if id(parameter) not in self.divided:
                # Without a source nothing is sent: each process has the same weights, and takes its part.
                part = distribute_tensor(parameter, self.mesh, [placement], src_data_rank=None)
                # With the whole one, so that no other gets its address, by which tied modules find the part.
                self.divided[id(parameter)] = parameter, nn.Parameter(part, requires_grad=parameter.requires_grad)
            setattr(holder, name, self.divided[id(parameter)][1])

    def divide_weight(self, module: nn.Module, dim: int, output: int) -> None:
        """Divide the weight, and what an adapter adds to it, along `dim`; `output` is the dimension of outputs."""
        lists = parametrizations_of(module)
        if "weight" not in lists:
            weight = module._parameters.get("weight")
            if weight is None or is_quantized(weight):
                raise self.refused(module, "its weight is missing, or in 8 or 4 bits")
            self.divide(module, "weight", dim)
            return
        lora: Any = lists["weight"]._modules["0"]
        base = lists["weight"]._parameters.get("original")
        is_rows = isinstance(lora, TokenRows) and lora.dim == dim
        is_computed = not (is_rows or isinstance(lora, Lora)) or len(lists["weight"]._modules) > 1
        if is_computed or base is None or is_quantized(base):
            raise self.refused(module, "its weight is computed in another way than by LoRA, or in 8 or 4 bits")
        if is_rows:  # each process computes with those of its part of the table
            lora.first = base.shape[dim] // self.mesh.size() * self.mesh.get_local_rank()
            self.divide(lists["weight"], "original", dim)
            self.share(lora, "values")
            return
        if lora.magnitude is not None and dim != output:
            raise self.refused(module, "DoRA needs the norms of whole rows of it")
        self.divide(lists["weight"], "original", dim)
        first = dim == (1 if lora.transposed else 0)
        self.divide(lora, "a" if first else "b", 0 if first else 1)
        self.share(lora, "b" if first else "a", as_dtensor=True)
        self.divide(lora, "magnitude", 0)

    def refused(self, module: nn.Module, reason: str) -> ConfigError:
        return ConfigError(
            f"distributed.tensor: {self.path} ({own_class(module).__name__}) can't be divided by"
            f" {type(self).__name__}: {reason}; leave it whole with `distributed.plan: {{{self.path}: replicated}}`"
        )

    def show(self, holder: nn.Module, name: str, value: Any) -> None:
        """Let code that reads `holder.name` get a value until the forward ends; the parameter stays where it is."""
        self._shown.append((holder, name, holder.__dict__.get(name, _ABSENT)))
        # It is found here before torch looks among the parameters.
        holder.__dict__[name] = value

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
        entered = self.enter(module, inputs, named)
        self.show_parts()
        return entered

    def show_parts(self) -> None:
        """Have code that reads the parameters get plain tensors."""
        for holder, name, is_shared in self._fields:
            tensor: Any = holder._parameters[name]
            value = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            self.show(holder, name, copied(value, self.mesh) if is_shared else value)

    def show_parameters(self) -> None:
        """Undo what `show` did."""
        # The last one first: of a module within a module, one name may have been shown twice.
        for holder, name, before in reversed(self._shown):
            if before is _ABSENT:
                del holder.__dict__[name]
            else:
                holder.__dict__[name] = before
        self._shown.clear()

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        self.show_parameters()
        return None if output is None else self.leave(module, output)  # None where the forward failed


def output_dim(style: Style, module: nn.Module) -> int:
    """The dimension of a linear layer's weight that is of the outputs."""
    if isinstance(module, Linear) or own_class(module).__name__ == "Conv1D":  # the latter of transformers
        return 1
    if isinstance(module, nn.Linear):
        return 0
    raise style.refused(module, "it is no linear layer")


def _rows(module: nn.Module) -> int:
    """The number of tokens or classes of a table or a head."""
    weight = base_tensor(module, "weight")
    return 0 if weight is None else weight.shape[1 if isinstance(module, Linear) else 0]


class ColwiseParallel(Style):
    """Each process computes a part of a linear layer's outputs.

    Torch: `torch.distributed.tensor.parallel.ColwiseParallel`, which does the same for layers of torch.
    """

    def __init__(self, *, gathers: bool = False, is_head: bool = False) -> None:
        """With `gathers`, or as a head but for losses of divided logits, have all processes get all outputs."""
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
        if not self.copies:
            return inputs, named
        x, *others = inputs
        is_divided = self.stretch.is_divided
        x = gathered(x, self.mesh, 1, summed_gradients=True) if is_divided else copied(x, self.mesh)
        return (x, *others), named

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
        """Make the style; with `splits` all processes have all inputs, and take their part."""
        super().__init__()
        self.splits = splits

    def prepare(self, module: nn.Module) -> None:
        output = output_dim(self, module)
        self.divide_weight(module, 1 - output, output)

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        # It is added once to the sum, not by each process to its part.
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
        # A look at values would wait for a GPU, and compiled code can't depend on them.
        is_known = indices.is_cpu and indices.numel() > 0 and not torch.compiler.is_compiling()
        if is_known and not 0 <= int(indices.min()) <= int(indices.max()) < rows:
            raise TableIndexError(f"{self.path}: expected indices in 0..{rows - 1}, got others")
        count = rows // self.mesh.size()
        places = indices - first
        self._outside = (places < 0) | (places >= count)
        if isinstance(padding := getattr(module, "padding_idx", None), int):
            # torch refuses one that is outside of the rows of this process.
            self._padding = padding
            module.padding_idx = padding - first if first <= padding < first + count else None
        return (places.masked_fill(self._outside, 0),), {}

    def leave(self, module: Any, output: Any) -> Any:
        if "_padding" in vars(self):
            module.padding_idx = vars(self).pop("_padding")
        return summed(output.masked_fill(self._outside[..., None], 0), self.mesh)

    def project(self, module: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        """The logits of the rows, for a head that is tied to the table."""
        part_of_bias = None if bias is None else own_part(bias, self.mesh, 0)
        self.show_parts()
        try:
            logits = linear(copied(x, self.mesh), cast("Tensor", module.weight), part_of_bias)
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
        taken: dict[int, Tensor] = {}

        def given(value: Any, *, is_first: bool = False) -> Any:
            if not isinstance(value, Tensor) or not value.is_floating_point():
                return value
            # Query, key and value may be one tensor, which is exchanged once.
            if id(value) not in taken:
                taken[id(value)] = self._given(value, getattr(module, "n_heads", 0), is_first)
            return taken[id(value)]

        positional = tuple(given(it, is_first=place == 0) for place, it in enumerate(inputs))
        return positional, {name: given(it) for name, it in named.items()}

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
