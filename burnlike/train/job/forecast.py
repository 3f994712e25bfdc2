"""The disk, host and device memory that a record, its model and the model's training will take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import torch
from torch import nn

from ..._terminal import table
from ...config import OptimizerConfig, StrategyConfig
from ...config.registry import lookup
from ...errors import ConfigError, nearest
from ...optim import AdamWConfig, GradientsParams
from ...record import Precision, Record
from ...record.bytes.values import BLOCK_BYTES, MAX_WORKERS
from ...record.formats import DEFAULT_EXTENSION, ChecksumSlot, Format, Outline, format_of_path
from ...record.precision import torch_dtype
from ...record.recorder import outline_of
from ...record.saving.background import RANGE_BYTES
from ...record.saving.writing import CHUNK_BYTES, TEXT_BYTES
from ..parallel.configs import DistributedConfig
from ..view.formats import format_bytes
from .configs import TrainConfig
from .forecast_step import ForecastBatch, StepForecast, forecast_step, model_flops
from .trial import WRONG, error_text

_DEFLATE_BLOCK = 16_383  # bytes that zlib puts at least into a block that it can't compress; it takes 5 more
_GZIP_BYTES = 18  # what begins and ends a gzip stream
_CUDA_BLOCK = 512  # torch's CUDA allocator rounds each tensor up to a multiple of it


class FileSize(NamedTuple):
    """Length of a file, or the most that it can be."""

    bytes: int
    exact: bool  # text and compressed data depend on the values
    longest_number: int = 0  # characters that a byte of a tensor takes at most, 0 where it is not written as text


def file_size(file_format: Format, outline: Outline) -> FileSize:
    total = longest = 0
    for segment in file_format.segments(outline):
        if isinstance(segment, bytes | ChecksumSlot):
            total += len(segment) if isinstance(segment, bytes) else segment.nbytes
        elif segment.json_indent is None:
            total += outline.entries[segment.name].nbytes
        else:
            indent, count = segment.json_indent, outline.entries[segment.name].nbytes
            number = len("255,") + (0 if indent < 0 else 1 + indent + 2)  # on one line, or each on its own
            longest = max(longest, number)
            total += len("[]") + count * number - len(",") + (0 if indent < 0 else 1 + indent) if count else len("[]")
    if file_format.compressed:
        total += 5 * (total // _DEFLATE_BLOCK + 1) + _GZIP_BYTES
    return FileSize(total, not (longest or file_format.compressed), longest)


def saving_memory(size: FileSize) -> int:
    """Host memory that a save takes beside the record: the buffers in which blocks are converted."""
    if not size.exact:
        # Of text there are, for each byte, a reference to its number, and twice the characters.
        return 2 * CHUNK_BYTES + TEXT_BYTES * (8 + 2 * size.longest_number)
    workers = min(MAX_WORKERS, -(-size.bytes // BLOCK_BYTES))
    return BLOCK_BYTES if workers < 2 else (workers + 1) * BLOCK_BYTES


def device_saving_memory(size: FileSize) -> int:
    """Memory that a save of tensors on a GPU takes there, and as much (pinned) of the host's."""
    if not size.exact:
        return CHUNK_BYTES
    ranges = -(-size.bytes // RANGE_BYTES)
    return min(ranges, 2) * min(size.bytes, RANGE_BYTES)


def loading_memory(tensor_bytes: int) -> int:
    """Host memory that a load takes beside the tensors that are filled: the buffers that blocks are read into."""
    return min(MAX_WORKERS, -(-tensor_bytes // BLOCK_BYTES)) * BLOCK_BYTES


def cuda_memory(sizes: Iterable[int]) -> int:
    """Device memory that tensors of these sizes take."""
    return sum(-(-size // _CUDA_BLOCK) * _CUDA_BLOCK for size in sizes)


SIZES = ("replicate", "shard", "context", "tensor", "pipeline", "expert")
_DEFAULT = DistributedConfig()
_OF_A_MACHINE = 8
"""Devices of a usual machine, within which layers are divided."""
_HEADS = ("weights", "states", "gradients", "gathered", "activations", "at the peak", "exchanged")


class MeshForecast(NamedTuple):
    """Forecast of a training on a mesh.
    Attributes:
        mesh: strategy and sizes, as `--mesh` takes them.
        step: of the process that takes most; None if it can't be trained so.
        problem: why it can't.
    """

    mesh: str
    step: StepForecast | None
    problem: str = ""

    @property
    def peak(self) -> float:
        """Bytes where a step takes most; infinite where there is no step."""
        return inf if self.step is None else self.step.peak


def forecast_meshes(
    config: TrainConfig, world_size: int, meshes: Sequence[Mapping[str, Any]] = ()
) -> Iterator[MeshForecast]:
    """The forecast of each mesh, one after the other.

    Args:
        meshes: `strategy` and sizes of `DistributedConfig`, in place of those of the config. None: that of the config,
            if it is one of several processes, and the usual ones.

    Raises:
        ConfigError: neither the data nor its config says what a batch looks like, or the model can't be built.
    """
    data = ForecastBatch(config)
    data.of(1)
    for mesh in meshes or usual_meshes(config.distributed, world_size):
        name = ",".join(f"{key}={value}" for key, value in mesh.items())
        try:
            chosen = config.replace(distributed=_distributed(config.distributed, mesh))
            chosen.distributed.sizes(world_size)
            steps = _of_stages(chosen, data, world_size)
        except WRONG as error:
            yield MeshForecast(name, None, error_text(error))
        else:
            yield MeshForecast(name, max(steps, key=lambda it: it.peak))


class Remedy(NamedTuple):
    """Forecast of a training with other values of its config.
    Attributes:
        overrides: the values, as `--set` takes them, those of the remedies before it among them.
        step: as of a `MeshForecast`.
    """

    overrides: tuple[str, ...]
    step: StepForecast


def remedies(config: TrainConfig, world_size: int, mesh: Mapping[str, Any], memory: int) -> Iterator[Remedy]:
    """Ways to take less than on a mesh on which a training takes more than `memory`, each with those before it.

    The last one fits, if any does. What does not work, or takes nothing less, is left out.
    """
    config = config.replace(distributed=_distributed(config.distributed, mesh))
    training = config.training
    items = training.batch_size * training.accumulation_steps
    savings: list[list[str]] = [] if training.checkpointing else [["training.activation_checkpointing=full"]]
    if training.batch_size > 1 and training.global_batch_size is None:
        savings.append(["training.batch_size=1", f"training.accumulation_steps={items}"])
    if config.distributed.name == "fsdp2" and config.distributed.offload is None:
        savings.append(["distributed.offload=cpu"])
    chosen: tuple[str, ...] = ()
    least: int | None = None
    text = config.to_yaml()
    for more in savings:
        try:
            tried = TrainConfig.from_yaml(text, "the config", (*chosen, *more))
            step = max(_of_stages(tried, ForecastBatch(tried), world_size), key=lambda it: it.peak)
        except WRONG:
            continue
        if least is not None and step.peak >= least:
            continue
        chosen, least = (*chosen, *more), step.peak
        yield Remedy(chosen, step)
        if least <= memory:
            return


def flops_of_process(config: TrainConfig, world_size: int) -> float:
    """The model's operations per process in a step, see `model_flops`.

    Raises:
        ConfigError: the model can't be forecast, or batches differ in size.
    """
    training = config.training.divided(groups := config.distributed.sizes(world_size).data)
    config = config.replace(training=training)
    data = ForecastBatch(config)
    if data.lengths_differ:
        raise ConfigError("data: items have different lengths, and batches different sizes; `packing` makes them alike")
    return model_flops(config, data) * training.accumulation_steps * groups / world_size


def usual_meshes(config: DistributedConfig, world_size: int) -> list[dict[str, Any]]:
    """Meshes to compare: the config's own first, then ddp, fsdp2, copies of it, and divided layers."""
    if world_size == 1:
        return [{"strategy": "none"}]
    config_sizes = {name: getattr(config, name) for name in SIZES if getattr(config, name) != getattr(_DEFAULT, name)}
    meshes: list[dict[str, Any]] = [] if config.is_single else [{"strategy": config.name, **config_sizes}]
    meshes += [{"strategy": "ddp"}, {"strategy": "fsdp2"}]
    if world_size > _OF_A_MACHINE and world_size % _OF_A_MACHINE == 0:
        meshes.append({"strategy": "fsdp2", "replicate": world_size // _OF_A_MACHINE})
    meshes += [
        {"strategy": "fsdp2", "tensor": size}
        for size in (2, _OF_A_MACHINE)
        if size <= world_size and world_size % size == 0
    ]
    if world_size % 2 == 0:
        meshes.append({"strategy": "ddp", "pipeline": 2})
    return [mesh for place, mesh in enumerate(meshes) if mesh not in meshes[:place]]


def parse_mesh(text: str) -> dict[str, Any]:
    """The mesh of `strategy=fsdp2,tensor=2`; a ConfigError where it names anything else."""
    mesh: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("strategy", *SIZES):
            hint = nearest(name, ["strategy", *SIZES]) or f"; expected some of strategy, {', '.join(SIZES)}"
            raise ConfigError(f"--mesh {text}: there is no '{name}'{hint}")
        if name == "strategy":
            if lookup(StrategyConfig, value) is None:
                raise ConfigError(f"--mesh {text}: expected the strategy none, ddp or fsdp2, got '{value}'")
            mesh[name] = value
            continue
        try:
            mesh[name] = int(value)
        except ValueError as error:
            raise ConfigError(f"--mesh {text}: expected a number for {name}, got '{value}'") from error
    return mesh


def _distributed(config: DistributedConfig, mesh: Mapping[str, Any]) -> DistributedConfig:
    """The config with the mesh in place of its own, and without the options that another strategy lacks."""
    strategy = mesh.get("strategy", config.name if not config.is_single else "fsdp2")
    kind: Any = lookup(StrategyConfig, strategy)
    options = {name: getattr(_DEFAULT, name) for name in SIZES} | dict(mesh) | {"strategy": strategy}
    if strategy == config.name:
        options["strategy"] = config.strategy
    for name in ("offload", "reshard_after_forward", "reshard_after_backward"):
        if name not in kind.options:
            options[name] = None
    if "precision.params" not in kind.options:
        options["precision"] = None  # of ddp, GPUs alone sum up in another type
    if mesh.get("tensor", 1) == 1:
        options["plan"] = {}
    if mesh.get("pipeline", 1) == 1:
        options |= {"schedule": "1F1B", "microbatches": None, "stages": ()}
    return config.replace(**options)


def _of_stages(config: TrainConfig, data: ForecastBatch, world_size: int) -> list[StepForecast]:
    """The forecasts of a process of each stage."""
    stages = config.distributed.sizes(world_size).pipeline
    sent: dict[int, Any] = {}
    forecasts: list[tuple[StepForecast, dict[int, Any]]] = []
    for rank in range(0, world_size, world_size // stages):
        forecasts.append((forecast_step(config, data, world_size, rank, sent), {**sent}))
    # A process that took other shapes for sent than a later stage sends is forecast again.
    return [
        step if sent_before == sent else forecast_step(config, data, world_size, step.rank, sent)
        for step, sent_before in forecasts
    ]


def as_values(forecasts: Sequence[MeshForecast], memory: int | None) -> list[dict[str, Any]]:
    """The forecast of each mesh as `burnlike forecast --json` prints it."""
    values: list[dict[str, Any]] = []
    for forecast in forecasts:
        if forecast.step is None:
            values.append({"mesh": forecast.mesh, "problem": forecast.problem})
            continue
        step = forecast.step._asdict() | {"sizes": forecast.step.sizes._asdict(), "peak": forecast.step.peak}
        step["communication"] = [each._asdict() for each in forecast.step.communication]
        fits = {} if memory is None else {"fits": forecast.step.peak <= memory}
        values.append({"mesh": forecast.mesh, **step, **fits})
    return values


def table_of(forecasts: Sequence[MeshForecast], memory: int | None) -> list[str]:
    """A row for each mesh with the bytes of a process, then what a step exchanges on each."""
    rows: list[tuple[str, ...]] = [("mesh", *_HEADS, *(["fits"] if memory is not None else []))]
    lines: list[str] = []
    for forecast in forecasts:
        if forecast.step is None:
            lines.append(f"{forecast.mesh}: {forecast.problem}")
            continue
        step = forecast.step
        sizes = (
            step.resident["weights"],
            step.resident["optimizer states"] + step.resident["average"],
            step.gradients,
            step.at_peak["gathered"],
            step.at_peak["activations"],
            step.peak,
            sum(each.bytes for each in step.communication),
        )
        fits = [] if memory is None else ["yes" if step.peak <= memory else "no"]
        rows.append((forecast.mesh, *map(format_bytes, sizes), *fits))
        lines += [f"{forecast.mesh}: a step exchanges" * bool(step.communication)]
        lines += [
            f"  {each.exchanges} x {each.kind} among {each.processes} ({each.among}), {format_bytes(each.bytes)}"
            for each in step.communication
        ]
        if step.host:
            lines.append(f"{forecast.mesh}: {format_bytes(step.host)} in the memory of the host")
    return [*(table(rows) if rows[1:] else []), *filter(None, lines)]


def remedy_values(remedies: Sequence[Remedy], memory: int) -> list[dict[str, Any]]:
    """Ways to take less memory as `burnlike forecast --json` prints them."""
    return [{"set": [*it.overrides], "peak": it.step.peak, "fits": it.step.peak <= memory} for it in remedies]


def remedy_lines(mesh: str, remedies: Sequence[Remedy], memory: int) -> list[str]:
    """Advice for where no mesh fits: what makes the one that takes least smaller."""
    lines = [f"no mesh fits into {format_bytes(memory)}; {mesh} takes least"]
    for remedy in remedies:
        options = " ".join(f"--set {each}" for each in remedy.overrides)
        host = f", and {format_bytes(remedy.step.host)} of the host" if remedy.step.host else ""
        lines.append(
            f"  {format_bytes(remedy.step.peak)}{host} with {options}{', which fits' * (remedy.step.peak <= memory)}"
        )
    if not (remedies and remedies[-1].step.peak <= memory):
        lines.append("  beside these: more processes, larger sizes of tensor, pipeline or context, a smaller model")
    return lines


def forecast(
    record: Record,
    file_format: Format,
    module: nn.Module | None = None,
    optimizer: OptimizerConfig | None = None,
    *,
    precision: Precision | None = None,
    steps: bool = False,
) -> dict[str, Any]:
    """The bytes that a record takes as a file, and in memory while it is saved and loaded, as `burnlike forecast` says.

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
        forecast_bytes["gpu_bytes"]["buffers"] = cuda_memory(buffer.nbytes for buffer in buffers if buffer is not None)
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
