"""One optimizer step of a training on tensors without values: memory and exchanges of one of any number of processes.

Example: rank 0 of 8 with fsdp2, on a machine without a GPU. `fake_processes(8, 0)` gives torch a process group whose
exchanges send nothing and return at once, and fake tensors have a shape, a type and a device, but no memory. So the
model is sharded, and takes its step, by the code of a real training, and a `Recorder` between torch and its kernels
notes each block of memory and each exchange.

    forward of block 1    all-gather among 8       its parameters count as `gathered` until they are freed
    backward of block 1   all-gather, then         activations are freed, shards of gradients stay
                          reduce-scatter among 8
    optimizer step        no exchange              states are there since the first step

torch's memory is told by storages: `Recorder._note` numbers each new one, and a weak reference notes the moment when
the last tensor of it is gone, as torch's allocator would get it back.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import Any, NamedTuple, Self
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..._torch_compat.dispatch import TorchDispatchMode, grouped_products
from ..._torch_compat.fake_processes import Replicated, fake_processes, group_of, resizes_seen
from ..._torch_compat.fake_tensors import NEEDS_VALUES, READS_NUMBER, fake_of, is_plain, memory_of, new_mode, unlogged
from ..._torch_compat.pytree import tree_leaves, tree_map
from ...config import ModuleConfig
from ...config.file_paths import missing_files
from ...errors import ArgumentError, ConfigError
from ...models.views.shapes import counter
from ...module.torch_objects.wrappers import local
from ..learner.computing import computing
from ..learner.learner import Learner
from ..parallel.configs import DistributedConfig, MeshSizes
from ..parallel.distributed import SeveralProcesses, make_parallel
from ..parallel.strategies import Ddp
from ..tasks.task import Task
from .configs import TrainConfig
from .device import build_on_meta
from .starting import JobData, choose_trained, model_config
from .trial import first_batch, implied_inputs

_KINDS = {
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "allreduce": "all-reduce",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "send": "send",
    "recv": "receive",
}
"""What an exchange is called, by a part of its operator's name without underscores."""

aten: Any = torch.ops.aten


class Exchange(NamedTuple):
    """An exchange of a kind within a group of processes.

    Attributes:
        kind: `all-gather` and so on.
        ranks: of the group.
        bytes: of the tensor that is whole on each process after it, or was so before.
    """

    kind: str
    ranks: tuple[int, ...]
    bytes: int


class Recorder(TorchDispatchMode):
    """Notes memory and exchanges within its `with` block, which lies in one of fake tensors.

    Where values are asked for, each number is 1, and all items are chosen: the most that a batch takes. All processes
    have the same numbers, so that a sum over them is how many they are. Items that are counted by what they belong to,
    as tokens by their experts, are as many of each; these counts are known, also where they are exchanged and summed.

    Attributes:
        exchanges: in their order.
        changes: of memory: the number of a block, and how many bytes it takes more.
        resized: numbers of the blocks that were freed or allocated in place, as FSDP2 does with gathered parameters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[Exchange] = []
        self.changes: list[tuple[int, int]] = []
        self.resized: set[int] = set()
        self._live: dict[int, tuple[int, int, Any]] = {}
        self._blocks = 0
        self._answers: dict[int, int] = {}
        self._counts: dict[int, list[int]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(resizes_seen(self._resized))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._stack.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(map(is_plain, types)):
            return NotImplemented  # it comes again with the tensors within
        if func.__name__ == "wait_tensor.default":  # without values torch gives a copy, else the tensor itself
            return args[0]
        try:
            if func is grouped_products.default:
                # torch multiplies groups of rows in any type of floats, but without values in bfloat16 alone.
                x, y, *rest = args
                result = func(x.bfloat16(), y.bfloat16(), *rest, **(kwargs or {})).to(x.dtype)
            else:
                result = func(*args, **(kwargs or {}))
        except NEEDS_VALUES:
            result = self._without_values(func, args, kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor)
        if "c10d" in func.namespace or func.namespace == "_dtensor":
            self._note_exchange(func, args, result)
        elif func is aten.sum.dim_IntList and (counts := self._counts.get(_key(args[0]))) is not None:
            columns = args[0].shape[-1]
            rows = [counts[place : place + columns] for place in range(0, len(counts), columns)]
            self._counts[_key(result)] = [sum(row) for row in (rows if args[1] == [1] else zip(*rows, strict=True))]
        return result

    def blocks_of(self, tensors: Iterable[Tensor]) -> set[int]:
        """The numbers of the blocks of memory in which tensors lie now."""
        return {self._live[key][0] for key in map(_key, tensors) if key in self._live}

    def forget_others(self, tensors: Iterable[Tensor]) -> None:
        """Count all memory as freed but the blocks of these tensors."""
        kept = self.blocks_of(tensors)
        for key, (number, bytes, reference) in self._live.items():
            if number not in kept:
                self.changes.append((number, -bytes))
                self._live[key] = number, 0, reference

    def peak(self, kinds: Mapping[str, set[int]], first: int = 0, leave_out: Sequence[str] = ()) -> dict[str, int]:
        """The bytes of each kind of blocks, and of others (`""`), when they are most together.

        Args:
            kinds: the numbers of the blocks of each kind; a block counts for the first that has it.
            first: the number of changes after which it is looked for.
            leave_out: kinds that don't count for which moment it is.
        """
        kind_of = {block: kind for kind, blocks in reversed([*kinds.items()]) for block in blocks}
        taken = most = end = 0
        for place, (block, more) in enumerate(self.changes, 1):
            taken += more * (kind_of.get(block) not in leave_out)
            if place >= first and taken > most:
                most, end = taken, place
        at_peak = Counter(dict.fromkeys([*kinds, ""], 0))
        for block, more in self.changes[:end]:
            at_peak[kind_of.get(block, "")] += more
        return dict(at_peak)

    def _note(self, tensor: Tensor) -> None:
        storage: Any = tensor.untyped_storage()
        key = memory_of(storage)
        if key in self._live:
            return

        def freed(_: Any) -> None:
            number, bytes, _ = self._live.pop(key)
            self._answers.pop(key, None)
            self._counts.pop(key, None)
            self.changes.append((number, -bytes))

        self._blocks += 1
        self._live[key] = self._blocks, storage.nbytes(), weakref.ref(storage, freed)
        self.changes.append((self._blocks, storage.nbytes()))

    def _resized(self, storage: Any) -> None:
        key = memory_of(storage)
        if (block := self._live.get(key)) is not None:
            number, before, reference = block
            self.resized.add(number)
            self.changes.append((number, storage.nbytes() - before))
            self._live[key] = number, storage.nbytes(), reference

    def _note_exchange(self, func: Any, args: Sequence[Any], result: Any) -> None:
        name = func.__name__.split(".")[0].replace("_", "")
        kind = next((it for part, it in _KINDS.items() if part in name), None)
        group = None if kind is None else group_of(args)
        if kind is None or group is None or group.size() == 1:
            return
        tensors = [[leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)] for value in (*args, result)]
        most = max(sum(it.nbytes for it in some) for some in tensors)
        self.exchanges.append(Exchange(kind, tuple(dist.get_process_group_ranks(group)), most))
        if kind == "all-reduce":
            for key in {_key(it) for some in tensors for it in some}:
                self._answers[key] = self._answers.get(key, 1) * group.size()
        counts = [self._counts[_key(it)] for it in tensors[1] if _key(it) in self._counts]
        if kind == "all-to-all" and counts:  # each process sends this one as many as this one keeps
            size = len(counts[0]) // group.size()
            kept_here = counts[0][group.rank() * size : (group.rank() + 1) * size]
            self._counts |= {_key(it): kept_here * group.size() for it in tensors[0]}

    def _without_values(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Result of an operation whose shape or value depends on values that fake tensors do not have."""
        if func is READS_NUMBER:
            counts = self._counts.get(_key(args[0]))
            return self._answers.get(_key(args[0]), 1) if counts is None else counts[args[0].storage_offset()]
        if func is aten.repeat_interleave.Tensor and (counts := self._counts.get(_key(args[0]))) is not None:
            return args[0].new_empty(sum(counts))
        if func is aten.nonzero.default:
            return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.int64)
        if func is aten.masked_select.default:
            return args[0].new_empty(torch.broadcast_shapes(args[0].shape, args[1].shape).numel())
        if func is aten.index.Tensor:  # by a mask
            places: list[Any] = []
            for index in args[1]:
                if index is None or index.dtype is not torch.bool:
                    places.append(index)
                else:  # all items are chosen: as many places in each dimension of the mask
                    places += [index.new_zeros(index.numel(), dtype=torch.int64) for _ in index.shape]
            return func(args[0], places)
        if func is aten.bincount.default:
            count = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
            result = args[0].new_empty(count, dtype=torch.int64)
            share, left = divmod(args[0].numel(), count or 1)
            self._counts[_key(result)] = [share + (place < left) for place in range(count)]
            return result
        raise ConfigError(f"can't be forecast: the size of what {func.__name__} gives depends on values")


def _key(tensor: Tensor) -> int:
    return memory_of(tensor.untyped_storage())


_CPU = torch.device("cpu")
_RESIDENT = ("weights", "optimizer states", "average")
_ON_HOST = (*_RESIDENT, "gradients")


class Communication(NamedTuple):
    """Exchanges of a step of one kind within one group of processes.
    Attributes:
        kind: `all-gather` and so on.
        among: the size of the mesh whose processes exchange, or `all`.
        processes: how many they are.
        exchanges: how many there are in a step.
        bytes: of the whole tensors, in all.
    """

    kind: str
    among: str
    processes: int
    exchanges: int
    bytes: int


class StepForecast(NamedTuple):
    """Memory and exchanges of one process in a step.
    Attributes:
        sizes: of the mesh.
        rank: of the process.
        resident: bytes that stay from step to step: `weights` with buffers, `optimizer states`, `average`.
        gradients: bytes of all of them.
        at_peak: bytes of each kind when the step takes most: those of `resident`, `gradients`, `gathered` parameters of
            others, and `activations` with all else.
        host: bytes on the host, with `offload: cpu`; they don't count at the peak.
        communication: by kind and group.
    """

    sizes: MeshSizes
    rank: int
    resident: Mapping[str, int]
    gradients: int
    at_peak: Mapping[str, int]
    host: int
    communication: list[Communication]

    @property
    def peak(self) -> int:
        return sum(self.at_peak.values())


class ForecastBatch:
    """The batches of a training, by the data where it is there, else by the shapes that its config says.

    Attributes:
        model: the config of the model, completed by the task and the data.
        lengths_differ: whether batches have different sizes, as items have different lengths.
    """

    model: ModuleConfig
    lengths_differ = False

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self._read: JobData | None = None
        if any(path.startswith("data") for path, _ in missing_files(config)):
            self.model = model_config(config, None)
            return
        self._read = JobData.read(config)
        self.model = self._read.model_config(config)
        lengths: Any = getattr(self._read.data.train, "lengths", None)
        self.lengths_differ = lengths is not None and len(torch.as_tensor(lengths).unique()) > 1

    def task(self) -> Task:
        """A new task for the data."""
        return self._config.task.init() if self._read is None else self._read.task(self._config)

    def of(self, size: int) -> Any:
        """A batch of `size` items, the longest where they have lengths.

        Raises:
            ConfigError: neither the data nor its config says what a batch looks like.
        """
        if self._read is not None:
            return first_batch(self._config, self._read.data, size)
        try:
            (model_input,) = implied_inputs(self._config, self.model)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"data: its files are not there, and the config does not say shapes ({error})") from error
        shape = (size, *model_input.shape[1:])
        if getattr(self._config.data, "context_length", None) is not None:
            return torch.zeros((size, shape[1] + 1), dtype=torch.int64)
        return torch.zeros(shape, dtype=getattr(torch, model_input.dtype)), torch.zeros(size, dtype=torch.int64)


def forecast_step(
    config: TrainConfig, data: ForecastBatch, world_size: int = 1, rank: int = 0, sent: dict[int, Any] | None = None
) -> StepForecast:
    """Take two steps without values, as one of `world_size` processes would, and record the second.

    Args:
        sent: plain values that processes with earlier stages of a pipeline have sent; those of this one are added.

    Raises:
        ArgumentError: this process is in a process group.
        ConfigError: sizes that do not fit the number of processes, a model without a plan, and so on.
    """
    sizes = config.distributed.sizes(world_size)
    config = config.replace(training=config.training.divided(sizes.data))
    count = config.training.accumulation_steps
    with _without_values(config, data, world_size, rank, sent) as (learner, batch, recorder, names):
        _step(learner, count, batch)  # makes the optimizer's states, and what is made once
        recorder.exchanges.clear()
        first = len(recorder.changes)
        kinds = {name: recorder.blocks_of(it) for name, it in _residents(learner).items()}
        gradients = _step(learner, count, batch, recorder)
        kinds |= {"gradients": gradients[0], "gathered": recorder.resized}
        resident = {name: sum(it.nbytes for it in some) for name, some in _residents(learner).items()}
        on_host = _ON_HOST if config.distributed.offload == "cpu" else ()
        at_peak = recorder.peak(kinds, first, leave_out=on_host)
        at_peak["activations"] = at_peak.pop("")
        host = sum(at_peak.pop(name) for name in on_host)
        exchanged: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for kind, ranks, size in recorder.exchanges:
            exchanged.setdefault((kind, ranks), []).append(size)
        communication = [
            Communication(kind, names.get(ranks, "several"), len(ranks), len(each), sum(each))
            for (kind, ranks), each in exchanged.items()
        ]
        return StepForecast(sizes, rank, resident, gradients[1], at_peak, host, communication)


def model_flops(config: TrainConfig, data: ForecastBatch) -> int:
    """The operations on floats in the products of a forward and a backward pass of a batch, as for the MFU.

    torch's `FlopCounterMode` counts them, 2 for a product that is added. As in appendix B of the PaLM paper (Chowdhery
    et al. 2022), attention counts whole, with what a mask hides, its backward pass twice its forward pass, and nothing
    that is computed again. Gradients of what is not trained don't count, nor experts that are not chosen.
    """
    training = config.training.replace(activation_checkpointing=False, float8=None)
    config = config.replace(distributed=DistributedConfig(), training=training)
    with _without_values(config, data) as (learner, batch, *_), counter(recomputes=False) as flop_counter:
        learner.backward(batch)
        return flop_counter.get_total_flops()


@contextmanager
def _without_values(
    config: TrainConfig, data: ForecastBatch, world_size: int = 1, rank: int = 0, sent: dict[int, Any] | None = None
) -> Iterator[tuple[Learner[Any], Any, Recorder, Mapping[tuple[int, ...], str]]]:
    """A learner and a batch without values, and a recorder of what the `with` block computes.

    The last item names the groups of processes, by their ranks.
    """
    if dist.is_initialized():
        raise ArgumentError("a forecast is made by a single process, without a process group; start it alone")
    if config.distributed.pipeline > 1:
        import_module("burnlike.train.parallel.pipeline")  # a second; before its names are replaced
    several = nullcontext() if config.distributed.is_single else fake_processes(world_size, rank, sent)
    mode = new_mode()
    recorder = Recorder()
    # What is drawn here is not drawn from the generators of the program that asks.
    with torch.random.fork_rng(devices=[]), several:
        parallel = make_parallel(config.distributed, _CPU)
        if isinstance(parallel, Ddp):
            parallel.wrapper = Replicated
        task = data.task()
        model = task.prepare(build_on_meta(data.model))
        choose_trained(model, config)
        with mode, recorder:
            model = _on_fake(model)
        # A pipeline cuts the model in the mode; meshes and their process groups are made of real numbers.
        with mode if config.distributed.pipeline > 1 else nullcontext(), recorder:
            learner = _learner(config, task, model, parallel)
            if isinstance(parallel, SeveralProcesses) and (pipeline := parallel.pipeline) is not None:
                # Nothing is received here: a loss, a number of items and no parts stand for what the last stage sends.
                pipeline.from_last = lambda value: (1.0, 1, {}) if value is None else value
            # A job makes what it divides without memory, and what torch still has of the whole takes none.
            recorder.forget_others(it for some in _residents(learner).values() for it in some)
        names = parallel.mesh.names_of_groups() if isinstance(parallel, SeveralProcesses) else {}
        # transformers leaves out masks that hide only what comes later, as it does where it can look at values.
        masks = sys.modules.get("transformers.masking_utils")
        has_masks = hasattr(masks, "is_tracing")
        all_masks = patch.object(masks, "is_tracing", lambda *_: False) if has_masks else nullcontext()
        with mode, recorder, unlogged(), all_masks:
            values = data.of(config.training.batch_size)
            batch = tree_map(lambda it: fake_of(it, mode) if isinstance(it, Tensor) else it, values)
            model.train()
            with computing(model, config.training.replace(compile=False), _CPU):
                yield learner, batch, recorder, names


def _learner(config: TrainConfig, task: Task, model: nn.Module, parallel: Any) -> Learner[Any]:
    options = config.training
    learner: Learner[Any] = Learner(
        model,
        config.optimizer.init(),
        config.schedule(10**9).init(num_iters=10**9),  # longer than any warm-up: rates don't matter here
        task=task,
        device=_CPU,
        precision=options.precision,
        ema=options.ema,
        parallel=parallel,
    )
    learner.scaler = None  # would look whether gradients are finite
    return learner


def _step(learner: Learner[Any], count: int, batch: Any, recorder: Recorder | None = None) -> tuple[set[int], int]:
    """Take a step; the blocks of the gradients, and their bytes."""
    for number in range(count):
        learner.backward(batch, is_last=number == count - 1)
    grads = [local(parameter.grad) for parameter in learner.model.parameters() if parameter.grad is not None]
    gradients = set() if recorder is None else recorder.blocks_of(grads), sum(grad.nbytes for grad in grads)
    del grads  # or they would live on in the optimizer's step, which drops them
    learner.take_step()
    learner.window.clear()
    return gradients


def _on_fake(model: nn.Module) -> nn.Module:
    """The model with fake tensors of the CPU in place of those on the meta device; tied ones stay tied."""
    fakes: dict[int, Tensor] = {}

    def faked(tensor: Tensor) -> Tensor:
        value = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_CPU)
        return nn.Parameter(value, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else value

    for module in model.modules():
        held: Any = (module._parameters, module._buffers)
        for tensors in held:
            for name, tensor in tensors.items():
                if tensor is not None:
                    if id(tensor) not in fakes:
                        fakes[id(tensor)] = faked(tensor)
                    tensors[name] = fakes[id(tensor)]
    return model


def _residents(learner: Learner[Any]) -> dict[str, list[Tensor]]:
    optimizer: Any = learner.optimizer
    average = [] if learner.ema is None else learner.ema.into_record().tensors.values()
    states = optimizer.into_record().tensors.values()
    tensors = ([*learner.model.parameters(), *learner.model.buffers()], states, average)
    return {name: [local(it) for it in some] for name, some in zip(_RESIDENT, tensors, strict=True)}
