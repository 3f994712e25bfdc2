"""What styles of tensor parallelism have in common: parameters in parts, and forwards that compute with them."""

from typing import Any, Self

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from ..errors import ConfigError
from ..module.adapters.layers import Lora
from ..module.torch_objects.quantized import is_quantized
from ..module.torch_objects.wrappers import base_tensor, own_class, parametrizations_of
from ..nn.linear.linear import Linear
from ..ops._divided import copied
from .own_draws import OwnDraws

_ABSENT = object()


class Stretch:
    """A stretch of layers in which each process has a part of each sequence, where the length divides evenly."""

    is_divided = False


class Style(ParallelStyle):
    """How one module takes part; a subclass says what is done before and after its forward.

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # The one method that torch's contract of a ParallelStyle has.
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.mesh = device_mesh
        if self.may_stay_whole and _rows(module) % device_mesh.size():
            return module
        self.prepare(module)
        module.register_forward_pre_hook(self._enter, with_kwargs=True)
        module.register_forward_hook(self._leave, always_call=True)
        return module

    def prepare(self, module: nn.Module) -> None:
        """Divide the parameters."""

    def enter(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """What the forward is given."""
        return inputs, named

    def leave(self, module: Any, output: Any) -> Any:
        """What others get of the forward's result."""
        return output

    def divide(self, holder: nn.Module, name: str, dim: int) -> None:
        """Divide a parameter along `dim`; a ConfigError with the sizes where it does not come out even."""
        found = holder._parameters.get(name)
        if found is None:
            return
        parts = self.mesh.size()
        if found.shape[dim] % parts:
            raise ConfigError(
                f"distributed.tensor: {parts} processes can't share {self.path}.{name}, {list(found.shape)}, equally:"
                f" {found.shape[dim]} is no multiple of {parts}; choose other sizes, or"
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
        found: Any = holder._parameters[name]
        if not isinstance(found, DTensor):
            if id(found) not in self.divided:
                part = distribute_tensor(found, self.mesh, [placement], src_data_rank=None)
                self.divided[id(found)] = found, nn.Parameter(part, requires_grad=found.requires_grad)
            setattr(holder, name, self.divided[id(found)][1])

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
        if not isinstance(lora, Lora) or len(lists["weight"]._modules) > 1 or base is None or is_quantized(base):
            raise self.refused(module, "its weight is computed in another way than by LoRA, or is in 8 or 4 bits")
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
        holder.__dict__[name] = value

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
        entered = self.enter(module, inputs, named)
        self.show_parts()
        return entered

    def show_parts(self) -> None:
        """Have code that reads the parameters get plain tensors."""
        for holder, name, is_shared in self._fields:
            tensor: Any = holder._parameters[name]
            own = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            self.show(holder, name, copied(own, self.mesh) if is_shared else own)

    def show_parameters(self) -> None:
        """Undo what `show` did."""
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
    """Which dimension of the weight of a linear layer is that of the outputs."""
    if isinstance(module, Linear) or own_class(module).__name__ == "Conv1D":  # the latter of transformers
        return 1
    if isinstance(module, nn.Linear):
        return 0
    raise style.refused(module, "it is no linear layer")


def _rows(module: nn.Module) -> int:
    """How many tokens or classes a table or a head has."""
    weight = base_tensor(module, "weight")
    return 0 if weight is None else weight.shape[1 if isinstance(module, Linear) else 0]
