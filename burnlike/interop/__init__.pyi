"""The public names of `burnlike.interop`: each is imported from where it is defined, at its first use."""

from .adapters.adding import merge_adapters as merge_adapters
from .adapters.eva import start_by_eva as start_by_eva
from .adapters.peft_files import load_adapter as load_adapter, save_adapter as save_adapter
from .fused.fuse import FuseReport as FuseReport, fuse as fuse, unfuse as unfuse
from .hub_kernels import kernel_mapping as kernel_mapping, write_kernels as write_kernels
from .module_conversion import from_torch as from_torch, to_burn as to_burn, to_torch as to_torch
from .parallel_plans import parallelize as parallelize
from .quantize import quantize_ as quantize_
from .registered_classes import register_twin as register_twin
from .tensor_parallel import (
    ColwiseParallel as ColwiseParallel,
    RowwiseParallel as RowwiseParallel,
    SummedGradients as SummedGradients,
)
from .torch_module_optimizer import TorchLbfgs as TorchLbfgs, TorchModuleOptimizer as TorchModuleOptimizer
from .torch_names import record_from_torch as record_from_torch, record_to_torch as record_to_torch
from .torch_optimizer import TorchOptimizer as TorchOptimizer
from .torch_states import (
    export_torch_optimizer as export_torch_optimizer,
    import_torch_optimizer as import_torch_optimizer,
)
