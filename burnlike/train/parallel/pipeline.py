"""Pipeline parallelism: each process has some stages of a model, and micro-batches go through them one after the other.

The stages and the schedules are those of `torch.distributed.pipelining`. Every process of a pipeline reads the same
batches, so only what a stage gives is sent. The gradient of a batch is that of sum(size * loss) / sum(size) over its
micro-batches, as it is over the batches of a step.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class
from torch.distributed.tensor import DTensor
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ..._torch_compat.pytree import tree_leaves
from ...errors import TrainingError
from ...module import ParamId, params
from ...module.torch_objects.wrappers import local, note_elsewhere
from .configs import SCHEDULES, DistributedConfig
from .mesh import Mesh
from .part_of_model import PartOfModel
from .pipeline_cut import Plan, cut, plan_of
from .step_output import MicroBatch, StepOutput, counting_nothing, joined, micro_batches
from .watch import GONE

_KEPT_SHAPES = 4
"""Shapes of batches whose buffers are kept."""


class _TorchStage(PipelineStage):
    """Exchanges gradients with the processes that have other items in the last batch of a step alone."""

    is_last_batch = True

    def backward_maybe_with_nosync(self, backward_type: Any, bwd_kwargs: Any, last_backward: bool = False) -> Any:
        return super().backward_maybe_with_nosync(backward_type, bwd_kwargs, last_backward and self.is_last_batch)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        if self.is_last_batch:
            super().perform_reduce_grad(grad_scale_factor)


Sent = tuple[tuple[int, ...], torch.dtype, Any]
"""Shape, type and placements of what a stage sends; the shape is that of a process's part."""


class _Shapes(NamedTuple):
    """The schedule for batches of some shape, and what stages send of micro-batches by their number of items."""

    schedule: Any
    stages: Sequence[_TorchStage]
    sent: dict[int, list[Sent]]


class Pipeline(PartOfModel):
    """The stages of this process, and the schedule by which micro-batches go through all.

    Attributes:
        stages: of this process, each a module with its parameters.
        elsewhere: paths of modules that are on none of them.
        has_last: whether the last stage, which computes losses and predictions, is one of them.
    """

    def __init__(
        self, model: nn.Module, optimizer: Any, config: DistributedConfig, mesh: Mesh, device: torch.device
    ) -> None:
        """Cut a model in place; a ConfigError where it can't be."""
        assert mesh.pipeline is not None
        super().__init__(model, optimizer, mesh.pipeline.get_group(), device)
        self._kind: Any = get_schedule_class(config.schedule)
        self._n_micro_batches = config.n_microbatches
        rank = dist.get_rank(self.group)
        self.rank_of = [*range(mesh.sizes.pipeline)] * SCHEDULES[config.schedule]
        self.plan = plan_of(model, len(self.rank_of), config.stages)
        self._model = model
        self._tied = TiedGradients(model, self.plan, self.rank_of, mesh)
        numbers = [stage for stage, owner in enumerate(self.rank_of) if owner == rank]
        self._runner, self.stages = cut(model, self.plan, numbers, device)
        note_elsewhere(model, {*self._names} - {parameter.path for parameter in params(model)})
        self._share(model, optimizer, self._tied.counted_elsewhere)
        self.wrapped: list[nn.Module] = [*self.stages]
        self.elsewhere = frozenset(path for path, its in self.plan.stages_of.items() if its.isdisjoint(numbers))
        self.has_last = numbers[-1] == len(self.rank_of) - 1
        self._by_shape: OrderedDict[Any, _Shapes] = OrderedDict()
        self._parts: list[MicroBatch] = []
        self._shapes: _Shapes | None = None
        self._sent: dict[int, list[Sent]] = {}
        self._devices, self._seed = [device] if device.type == "cuda" else [], 0
        self._tensor_mesh = mesh.tensor
        self._has_others = mesh.sizes.mean > 1
        self._outputs: dict[int, StepOutput] = {}
        for stage in self.stages:
            stage.run = self._run

    def backward(
        self,
        batch: Any,
        forward: Callable[[Any], StepOutput],
        weigh: Callable[[StepOutput], Tensor | None],
        *,
        is_last: bool,
    ) -> StepOutput:
        """Accumulate the gradients of a batch, and return its result; predictions are on the last stage.

        Args:
            forward: the task's step on the items of a micro-batch, of which each stage computes its part.
            weigh: the loss to differentiate; None for one of no items.
            is_last: whether gradients are exchanged with the processes that have other items.
        """

        def loss_of(part: MicroBatch) -> Tensor:
            output = forward(part.batch)
            self._outputs[part.number] = output = output if part.counts else output._replace(size=0)
            loss = weigh(output)
            return counting_nothing(output.loss) if loss is None else loss

        with self._passing(batch, loss_of, forward) as (shapes, numbers):
            for stage in shapes.stages:
                stage.is_last_batch = is_last
            shapes.schedule.step(numbers, number=numbers, target=numbers, return_outputs=False)
        if is_last:
            self._tied.add_up(self._model)
        return self._shared(joined([*self._outputs.values()]))

    @torch.no_grad()
    def measure(self, compute: Callable[[Any], StepOutput], batch: Any) -> StepOutput:
        """The result of a batch that nothing is learned by; predictions are on the last stage."""

        def loss_of(part: MicroBatch) -> Tensor:
            output = compute(part.batch)
            self._outputs[part.number] = output if part.counts else output._replace(size=0)
            return torch.zeros(())

        with self._passing(batch, loss_of, compute) as (shapes, numbers):
            shapes.schedule.eval(numbers, number=numbers, target=numbers, return_outputs=False)
        return self._shared(joined([*self._outputs.values()]))

    @contextmanager
    def _passing(
        self, batch: Any, loss_of: Callable[[MicroBatch], Tensor], compute: Callable[[Any], StepOutput]
    ) -> Iterator[tuple[_Shapes, Tensor]]:
        """The schedule for a batch, and the numbers of its micro-batches, which stages are given for these."""
        self._parts = micro_batches(batch, self._n_micro_batches)
        # From the generator of the first process, on which a resumed training goes on; the others draw, too.
        seed = torch.randint(2**62, (), device=self._device)
        dist.broadcast(seed, group=self.group, group_src=0)
        self._seed = 0 if is_fake(seed) else int(seed)
        self._outputs = {}
        key = tuple(leaf.shape if isinstance(leaf, Tensor) else None for leaf in tree_leaves(batch))
        try:
            # As many micro-batches go through the stages first as in other pipelines, which gather parameters together
            # with this one.
            trials = 0 if key in self._by_shape else len({it.size for it in self._parts})
            if self._has_others:
                count = torch.tensor(trials)
                dist.all_reduce(count, dist.ReduceOp.MAX)
                trials = int(count)
            if trials:
                self._shapes, self._loss_of = None, lambda part: compute(part.batch).loss
                self._by_shape[key] = self._new_shapes(trials)
                if len(self._by_shape) > _KEPT_SHAPES:
                    self._by_shape.popitem(last=False)
            self._by_shape.move_to_end(key)
            self._loss_of, self._shapes = loss_of, self._by_shape[key]
            self._sent = self._shapes.sent
            yield self._by_shape[key], torch.arange(len(self._parts), device=self._device)
        except RuntimeError as error:  # as torch's stages tell what a forward raised
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from None
            raise
        finally:
            self._parts = []

    def _run(self, stage: int, received: Tensor | None, number: int) -> Tensor:
        part, shapes = self._parts[number], self._shapes
        if received is not None:
            shape, _, placements = self._sent[part.size][stage - 1]
            received = received[tuple(map(slice, shape))]
            if placements is not None:
                received = DTensor.from_local(received, self._tensor_mesh, placements, run_check=False)
        with torch.random.fork_rng(self._devices):
            # What a task draws, such as the tokens that it hides, is the same on all stages.
            torch.manual_seed(self._seed + number)
            output = self._runner.run(stage, received, lambda: self._loss_of(part))
        if shapes is None:
            return output
        if stage == len(self.rank_of) - 1:
            return output.float()  # as the stages were told: torch 2.11 refuses another type; the gradient is 1 in any
        # Padded to the shape of the largest micro-batch, of which torch has made buffers.
        sent, shape = local(output), self._sent[self._parts[0].size][stage][0]
        lacking = [total - size for total, size in zip(shape, sent.shape, strict=True)]
        return functional.pad(sent, [it for lack in reversed(lacking) for it in (0, lack)]) if any(lacking) else sent

    def _new_shapes(self, trials: int) -> _Shapes:
        self._sent = {}
        parts = [*{part.size: part for part in self._parts}.values()]
        for part in parts + parts[-1:] * (trials - len(parts)):
            self._find_sent(part)
        # A new PipelineStage drops the gradients of gathered parameters, which may be there from the batch before.
        for module in (it for stage in self.stages for it in stage.modules() if isinstance(it, FSDPModule)):
            module.reshard()
        largest = [
            torch.empty(shape, dtype=dtype, device=self._device, requires_grad=dtype.is_floating_point)
            for shape, dtype, _ in self._sent[self._parts[0].size]
        ]
        n_stages, number = len(self.rank_of), torch.zeros(1, dtype=torch.int64, device=self._device)
        ends = [number, *largest, torch.empty((), device=self._device)]
        stages = [
            _TorchStage(
                *(module, stage.number, n_stages, self._device),
                input_args=ends[stage.number],
                output_args=ends[stage.number + 1],
                group=self.group,
            )
            for stage, module in zip(self.stages, self.wrapped, strict=True)
        ]
        schedule_stages: Any = stages[0] if issubclass(self._kind, PipelineScheduleSingle) else stages
        # The last stage's output is the loss, weighed already: torch is not to divide by the number of micro-batches.
        schedule = self._kind(schedule_stages, len(self._parts), loss_fn=lambda loss, _: loss, scale_grads=False)
        return _Shapes(schedule, stages, self._sent)

    @torch.no_grad()
    def _find_sent(self, part: MicroBatch) -> None:
        """Find out what each stage sends of a micro-batch, by its forward pass; what fails there is raised by all."""
        sent = self._sent[part.size] = []
        number = torch.tensor([part.number])
        for stage, owner in enumerate(self.rank_of):
            answer: list[Any] = [None]
            error: Exception | None = None
            if owner == dist.get_rank(self.group):
                module = next(it for it, of in zip(self.wrapped, self.stages, strict=True) if of.number == stage)
                shape, dtype, _ = sent[-1] if sent else ((1,), torch.int64, None)
                try:
                    output = module(torch.zeros(shape, dtype=dtype, device=self._device), number)
                    answer = [(tuple(local(output).shape), output.dtype, getattr(output, "placements", None))]
                except Exception as caught:
                    error, answer = caught, [f"{type(caught).__name__}: {caught}"]
            dist.broadcast_object_list(answer, group=self.group, group_src=owner)
            if error is not None:
                raise error
            if isinstance(answer[0], str):
                kind = RuntimeError if any(it in answer[0] for it in GONE) else TrainingError
                raise kind(f"stage {stage} of the pipeline, of another process, failed: {answer[0]}")
            sent.append(answer[0])
        sent.pop()  # of the last stage: its loss is sent to none

    def from_last(self, value: Any) -> Any:
        """The value of the process with the last stage; plain values."""
        values = [value]
        dist.broadcast_object_list(values, group=self.group, group_src=self.rank_of[-1])
        return values[0]

    def _shared(self, output: StepOutput | None) -> StepOutput:
        """The result that the process with the last stage has; the others get no predictions."""
        facts: Any = None
        if output is not None:
            facts = (output.loss.item(), output.size, {name: part.item() for name, part in output.parts.items()})
        loss, size, parts = self.from_last(facts)
        if output is not None:
            return output
        numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in {**parts, "": loss}.items()}
        return StepOutput(numbers.pop(""), size, parts=numbers)


class TiedGradients:
    """Sums gradients of shared parameters over the processes that have them, so that all take the same steps.

    Attributes:
        counted_elsewhere: ids of those of this process that a process of an earlier stage has, too.
    """

    def __init__(self, model: nn.Module, plan: Plan, owners: Sequence[int], mesh: Mesh) -> None:
        """Find them in the whole model; all processes of the job do."""
        stages: dict[int, set[int]] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            for parameter in module.parameters(recurse=False):
                stages.setdefault(id(parameter), set()).update(plan.stages_of[path])
        own_rank, groups = mesh.coordinates["pipeline"], {}
        counted_elsewhere: set[ParamId] = set()
        self._groups: dict[str, Any] = {}
        for param in params(model, "weight"):
            ranks = tuple(sorted({owners[stage] for stage in stages[id(param.tensor)]}))
            if len(ranks) == 1:
                continue
            if ranks not in groups:
                groups[ranks] = mesh.group_of_stages(ranks)
            if own_rank in ranks:
                self._groups[param.path] = groups[ranks]
                if own_rank != owners[min(stages[id(param.tensor)])]:
                    counted_elsewhere.add(param.id)
        self.counted_elsewhere = frozenset(counted_elsewhere)

    @torch.no_grad()
    def add_up(self, model: nn.Module) -> None:
        for param in params(model, "weight") if self._groups else ():
            group = self._groups.get(param.path)
            if group is not None and param.tensor.requires_grad:
                if param.tensor.grad is None:
                    param.tensor.grad = torch.zeros_like(param.tensor)
                dist.all_reduce(local(param.tensor.grad), group=group)
