"""Tensor parallelism of burnlike's layers, by torch's `parallelize_module`.

The styles of torch of these names take `nn.Linear` alone, whose weight is the transpose of burnlike's.
"""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel as TorchColwise,
    ParallelStyle,
    RowwiseParallel as TorchRowwise,
)

from ..errors import ArgumentError
from ..nn.linear.linear import Linear


class _OfLinear(ParallelStyle):
    """Divides a Linear of burnlike; any other module is left to the style of torch."""

    torchs: type[ParallelStyle]
    weight: Placement
    bias: Placement
    input: Placement
    output: Placement

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        """As of torch's style: how input and output are divided, None for the style's own way.

        With `use_local_output` the output is this process's part as a plain tensor.
        """
        super().__init__()
        self._options = {
            "input_layouts": input_layouts or self.input,
            "output_layouts": output_layouts or self.output,
            "use_local_output": use_local_output,
        }

    # The one method that torch's contract of a ParallelStyle has.
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, Linear):
            style: Any = self.torchs(**self._options)
            style.src_data_rank = self.src_data_rank
            return style._apply(module, device_mesh)
        if "parametrizations" in module._modules:
            raise ArgumentError(
                f"{type(self).__name__}: expected a Linear with a plain weight, got a parametrized one (LoRA, weight"
                " normalization); divide it before it is parametrized, or leave it out of the plan"
            )
        enter: Any = self._enter  # torch takes what both return, against their types there
        leave: Any = self._leave
        return distribute_module(module, device_mesh, self._divide, enter, leave)

    def _divide(self, name: str, module: nn.Module, device_mesh: DeviceMesh) -> None:
        for field, placement in (("weight", self.weight), ("bias", self.bias)):
            found = module._parameters.get(field)
            if found is not None:
                divided = distribute_tensor(found, device_mesh, [placement], src_data_rank=self.src_data_rank)
                setattr(module, field, nn.Parameter(divided, requires_grad=found.requires_grad))

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...], device_mesh: DeviceMesh) -> Tensor:
        (x,) = inputs
        if not isinstance(x, DTensor):
            x = DTensor.from_local(x, device_mesh, [self._options["input_layouts"]], run_check=False)
        return x.redistribute(placements=[self.input])

    def _leave(self, module: nn.Module, output: Any, device_mesh: DeviceMesh) -> Tensor:
        output = output.redistribute(placements=[self._options["output_layouts"]])
        return output.to_local() if self._options["use_local_output"] else output


class ColwiseParallel(_OfLinear):
    """Each process computes a part of a layer's outputs.

    Torch: `torch.distributed.tensor.parallel.ColwiseParallel`, which does the same for layers of torch.
    """

    torchs = TorchColwise
    weight, bias, input, output = Shard(1), Shard(0), Replicate(), Shard(-1)


class RowwiseParallel(_OfLinear):
    """Each process has a part of a layer's inputs; the outputs are summed.

    Torch: `torch.distributed.tensor.parallel.RowwiseParallel`, which does the same for layers of torch.
    """

    torchs = TorchRowwise
    weight, bias, input, output = Shard(0), Replicate(), Shard(-1), Replicate()


class SummedGradients(ParallelStyle):
    """Each process applies a layer to what it has, such as its heads: the gradients of the parameters are summed."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        group = device_mesh.get_group()

        def summed(grad: Tensor) -> Tensor:
            total = grad.clone()
            dist.all_reduce(total, group=group)
            return total

        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_hook(summed)
        return module
