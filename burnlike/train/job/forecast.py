"""The disk, host and device memory that a record, its model and the model's training will take."""

from typing import Any

import torch
from torch import nn

from ...config import OptimizerConfig
from ...optim import AdamWConfig, GradientsParams
from ...record import Precision, Record
from ...record.formats import DEFAULT_EXTENSION, Format, format_of_path
from ...record.precision import torch_dtype
from ...record.recorder import outline_of
from ...record.tools.forecast import cuda_memory, device_saving_memory, file_size, loading_memory, saving_memory


def forecast(
    record: Record,
    file_format: Format,
    module: nn.Module | None = None,
    optimizer: OptimizerConfig | None = None,
    *,
    precision: Precision | None = None,
    steps: bool = False,
) -> dict[str, Any]:
    """How many bytes a record takes as a file, and in memory while it is saved and loaded, as `burnlike forecast` says.

    Args:
        record: the tensors may be without values, on the meta device.
        module: of the record, on the meta device, for its buffers that records don't hold. It is changed.
        precision: of the file; None stores the tensors as they are.
        steps: whether gradients and the states of the optimizer, of AdamW without one, are counted.
    """
    as_is = outline_of(record, Precision(None), with_values=False)
    stored = outline_of(record, precision or Precision(None), with_values=False)
    size = file_size(file_format, stored)
    sizes = [entry.nbytes for entry in as_is.entries.values()]
    for_saving = saving_memory(size)
    forecast_bytes: dict[str, Any] = {
        "format": file_format.extension.removeprefix("."),
        "tensors": len(sizes),
        "tensor_bytes": sum(sizes),
        "file_bytes": size.bytes,
        "file_bytes_exact": size.exact,
        "host_bytes": {
            "save": for_saving,
            "save_from_gpu": device_saving_memory(size),
            "save_async": for_saving + sum(entry.nbytes for entry in stored.entries.values()),
            "load": sum(sizes) + loading_memory(sum(sizes)),
        },
        "gpu_bytes": {"tensors": cuda_memory(sizes), "save": device_saving_memory(size)},
    }
    if module is not None:
        buffers = [it._buffers[name] for it in module.modules() for name in it._non_persistent_buffers_set]
        forecast_bytes["gpu_bytes"]["buffers"] = cuda_memory(it.nbytes for it in buffers if it is not None)
    if steps:
        module = _module_of(record) if module is None else module
        for parameter in module.parameters():
            parameter.grad = parameter.detach() if parameter.requires_grad else None
        grads = GradientsParams.from_module(module)
        gradients = [value.nbytes for value in grads.values]
        stepped = (optimizer or AdamWConfig()).init()
        stepped.step(1e-3, module, grads)
        states = stepped.into_record()
        moments = (tensor.nbytes for tensor in states.tensors.values())
        forecast_bytes["gpu_bytes"] |= {"gradients": cuda_memory(gradients), "optimizer": cuda_memory(moments)}
        # As checkpoints have it: in full precision, as safetensors.
        full = outline_of(states, Precision(None), with_values=False)
        forecast_bytes["optimizer_file_bytes"] = file_size(format_of_path(DEFAULT_EXTENSION), full).bytes
    forecast_bytes["gpu_bytes"]["total"] = sum(forecast_bytes["gpu_bytes"].values())
    return forecast_bytes


def _module_of(record: Record) -> nn.Module:
    """A module with each tensor that may be a trained parameter, floats that are no running statistics, at its path."""
    root = nn.Module()
    for entry in outline_of(record, Precision(None), with_values=False).entries.values():
        if entry.kind != "float" or entry.name in record.states:
            continue
        dtype = torch_dtype(entry.dtype, entry.name, record.source)
        *parents, name = entry.name.split(".")
        module = root
        for parent in parents:
            if parent not in module._modules:
                module._modules[parent] = nn.Module()
            module = module.get_submodule(parent)
        module._parameters[name] = nn.Parameter(torch.empty(entry.shape, dtype=dtype, device="meta"))
    return root
