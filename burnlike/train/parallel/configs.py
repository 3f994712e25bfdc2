"""Configs of the strategies by which several processes train one model, their numbers, and what they can't do together.

Torch is not loaded here.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from ..._env import number_of_ranks, rendezvous_lacks, rendezvous_problem, runs_in_slurm
from ..._terminal import table
from ...config import Config, Meta, ModuleConfig, StrategyConfig, field
from ...config.bounds import Count, Positive
from ...config.node import Location, from_python
from ...config.registry import fields_of, kinds_in, lookup, parts_below, tag_of
from ...config.words import unknown_type
from ...errors import ConfigError, nearest
from ...interop.parallel_words import known_words
from ...nn.containers.layer_facts import facts_of

if TYPE_CHECKING:
    from .single_process import SingleProcess
    from .strategies import Ddp, Fsdp2


_TASKS = ("LanguageModel", "MaskedLanguageModel", "TokenClassification")
"""Tasks that divide the sequences of a batch."""
_CONTAINERS = "burnlike.nn.containers."
"""They hold layers, which are asked by themselves."""
_MODELS = ("DecoderLm", "BertEncoder", "BertMaskedLm", "LoRA", "Pretrained")
"""Models that take parts of sequences; layers state it in their facts."""
_WITH = {
    "fsdp2": "replicate tensor pipeline context expert",
    "ddp": "tensor pipeline context expert",
    "replicate": "tensor pipeline context expert",
    "tensor": "pipeline context expert",
    "context": "expert",
}
WORKS_TOGETHER = frozenset(frozenset((one, other)) for one, others in _WITH.items() for other in others.split())
"""Pairs of a strategy and of sizes above 1."""

_NONE = "a single process trains, so no size can be above 1; expected the strategy fsdp2"
REASONS: dict[frozenset[str], str] = {
    **{frozenset(("none", it)): _NONE for it in ("replicate", "context", "tensor", "pipeline", "expert")},
    frozenset(("pipeline", "expert")): (
        "the balance of experts is over a whole batch, and a pipeline computes it in parts; divide the experts alone,"
        " or with replicate, shard, context and tensor"
    ),
    frozenset(("context", "pipeline")): (
        "the first step proves on the whole model that it takes parts of sequences, and no process of a pipeline has"
        " the whole; divide sequences together with replicate, shard, tensor or expert"
    ),
}
"""Why a pair is refused."""

CONTEXT_IN_FLOAT8 = (
    "expected none with distributed.context: numbers in 8 bits depend on the scale of all tokens that a layer is given,"
    " so that parts of a sequence don't give what the whole does"
)
SCHEDULES = {"GPipe": 1, "1F1B": 1, "LoopedBFS": 2, "Interleaved1F1B": 2, "InterleavedZeroBubble": 2}
"""The stages of a process, by the name of a schedule; torch's schedules in a V can't measure a model (torch 2.13)."""


def context_problems(model: Any, task: Any) -> Iterator[tuple[str, str]]:
    """Models, layers and tasks of a job whose sequences processes can't share, and why.

    A type of one's own is not known here: a run proves of it that it gives for parts what it gives for the whole.
    """
    name = tag_of(type(getattr(task, "task", task)))
    if type(task).__module__.startswith("burnlike.") and name not in _TASKS:
        yield "distributed.context", f"{name} does not divide sequences; the tasks that do are {', '.join(_TASKS)}"
    for path, part in _configs(model):
        kind, tag = type(part), tag_of(type(part))
        if not isinstance(part, ModuleConfig) or not kind.__module__.startswith("burnlike."):
            continue
        if kind.__module__.startswith(_CONTAINERS) or tag in _MODELS or facts_of(part).divides_sequences:
            continue
        yield "distributed.context", f"{tag} ({path}) needs whole sequences; leave out `context`"
        return


def expert_problems(model: Any, size: int) -> Iterator[tuple[str, str]]:
    """Numbers of experts that can't be divided, or that there are none, as far as the config says."""
    with_experts = [(path, it) for path, it in _configs(model) if isinstance(getattr(it, "n_experts", None), int)]
    for path, part in with_experts:
        if part.n_experts % size:
            yield f"{path}.n_experts", f"expected a multiple of {size} (distributed.expert), got {part.n_experts}"
    kinds = [it for it in kinds_in(model) if issubclass(it, ModuleConfig)]
    if not with_experts and all(map(is_understood, kinds)):
        yield (
            "distributed.expert",
            f"{tag_of(type(model))} has no experts; leave out `expert`, or take a model with MixtureOfExperts, such as"
            " DecoderLm with feed_forward: {type: Experts}",
        )


def is_understood(kind: type) -> bool:
    """True if a class of configs is burnlike's and makes nothing of other libraries: its code is known."""
    return kind.__module__.startswith("burnlike.") and tag_of(kind) != "Pretrained"


def quantized_problems(model: Any, distributed: Any) -> Iterator[tuple[str, str]]:
    """Weights in 8 or 4 bits that can't be divided as the config asks, with what can."""
    for path, part in _configs(model):
        scheme = getattr(part, "quantize", None)
        if scheme is None or not isinstance(part, ModuleConfig):
            continue
        for size in ("tensor", "pipeline"):
            if getattr(distributed, size) > 1:
                yield f"{path}.quantize", f"weights in {scheme} can't be divided by `{size}`; {_WHOLE}"
        if scheme == "int8" and distributed.name == "fsdp2":
            yield f"{path}.quantize", f"weights in int8 can't be divided by fsdp2; take nf4, or {_WHOLE}"


_WHOLE = "take `strategy: ddp` alone, with which each process has all of them"


REDUCED_ON_CPU = (
    "torch's DistributedDataParallel sums up in bfloat16 on GPUs only; leave it out on a CPU, or use the strategy fsdp2"
)
IN_INT8 = "expected bfloat16 or float32 with several processes, int8_mixed computes in a single one"


def pipeline_problems(precision: str, *, compiles: bool) -> Iterator[tuple[str, str]]:
    """Settings of a config, or of a program's Learner, that don't go together with a pipeline, and why."""
    if precision == "float16":
        yield "training.precision", "expected bfloat16 or float32 with a pipeline, whose stages share no loss scale"
    if compiles:
        yield "training.compile", "expected false with a pipeline, whose stages end in the middle of the model"


def _configs(model: Any) -> Iterator[tuple[str, Any]]:
    """The config of a model and those in it, with their paths."""
    yield "model", model
    yield from ((path, part) for path, _, part in parts_below(model, "model") if isinstance(part, Config))


def refused_pairs(kinds: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The pairs among kinds of parallelism that no test has trained together, and why they are refused."""
    for one, other in combinations(kinds, 2):
        pair = frozenset((one, other))
        if pair not in WORKS_TOGETHER:
            yield one, other, REASONS.get(pair, "they have not been trained together yet")


def schedule_problems(
    schedule: str, pipeline: int, microbatches: int | None, stages: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Settings of a pipeline's schedule that do not fit each other, by field."""
    if schedule not in SCHEDULES:
        hint = nearest(schedule, [*SCHEDULES])
        yield "schedule", f"expected one of {', '.join(SCHEDULES)}, got {schedule!r}{hint}"
        return
    if pipeline == 1:
        for name, value in (("microbatches", microbatches), ("stages", stages)):
            if value:
                yield name, "is of a pipeline; expected pipeline: 2 or more, or leave it out"
        return
    n_stages = pipeline * SCHEDULES[schedule]
    if microbatches is not None and microbatches < pipeline and schedule != "GPipe":
        yield "microbatches", f"expected at least one for each of the {pipeline} processes, got {microbatches}"
    if microbatches is not None and "Interleaved" in schedule and microbatches % max(1, microbatches // pipeline):
        yield "microbatches", f"expected a multiple of the {pipeline} processes for {schedule}, got {microbatches}"
    if stages and len(stages) not in (n_stages - 1, n_stages):
        expected = f"the first module of each of the {n_stages} stages, of which the first may be left out"
        yield "stages", f"expected {expected}, got {len(stages)}: {', '.join(stages)}"


Name = Annotated[str, Meta(min_length=1, extra_json_schema={"examples": ["none", "ddp", "fsdp2"]})]
Size = Annotated[int, Meta(ge=-1, lt=2**31, extra_json_schema={"examples": [1, 2, -1]})]
Schedule = Annotated[str, Meta(extra_json_schema={"examples": [*SCHEDULES]})]
SharedDtype = Literal["float32", "bfloat16"]
_DIVIDED = {
    "pipeline": "the layers of the model, one after the other",
    "replicate": "items; each has a copy of the model",
    "shard": "items, each parameter, its gradient and its optimizer state",
    "context": "each sequence",
    "tensor": "each layer",
    "expert": "the experts of a layer, among the processes of shard",
}
_SHOWN = 4
_SLURM = "srun --ntasks=2 burnlike train ..., or by the script that burnlike launch --slurm writes"


class MeshSizes(NamedTuple):
    """The processes of a job, by what they divide among them; their product is the number of processes.

    Attributes:
        pipeline: stages of the model, one after the other.
        replicate: copies of all that the others divide.
        shard: parts of each parameter, each of which reads items of its own.
        context: parts of each sequence.
        tensor: parts of each layer.
        expert: parts of the experts of a layer, among the processes of `shard`, of `replicate` where
            that is 1; no factor of the product.
    """

    pipeline: int = 1
    replicate: int = 1
    shard: int = 1
    context: int = 1
    tensor: int = 1
    expert: int = 1

    @property
    def data(self) -> int:
        """The number of processes that read items of their own."""
        return self.replicate * self.shard

    @property
    def mean(self) -> int:
        """Number of processes with gradients of their own, over which a step takes the mean."""
        return self.data * self.context

    @property
    def layout(self) -> list[int]:
        """The sizes that decide which items, part of a sequence and part of the model each process has."""
        return [self.pipeline, self.data, self.context, self.tensor]

    def __str__(self) -> str:
        return " x ".join(f"{name} {size}" for name, size in self._asdict().items() if size > 1) or "one process"

    @property
    def world(self) -> int:
        return prod(self[:-1])


def mesh_table(sizes: MeshSizes, items: int = 1) -> list[str]:
    """A row for each size above 1: which processes share it with rank 0, and what they divide.

    Args:
        sizes: of the mesh.
        items: of a step of each process that reads items of its own.
    """
    rows = [("size", "", "with rank 0", "they divide")]
    stride = sizes.world
    for name, size in sizes._asdict().items():
        # Experts lie among the processes of `shard`, the nearest first.
        stride = sizes.context * sizes.tensor if name == "expert" else stride // size
        if size > 1:
            ranks = [str(stride * place) for place in range(min(size, _SHOWN))]
            rows.append((name, str(size), ", ".join(ranks) + ", ..." * (size > _SHOWN), _DIVIDED[name]))
    world = f"{sizes.world} process{'es' * (sizes.world > 1)}"
    return [*table(rows), f"{world}, {sizes.data} with items of their own: a step has {sizes.data * items} items"]


class SingleProcessConfig(StrategyConfig["SingleProcess"], tag="none", builds=".single_process"):
    """A single process trains."""

    is_single = True


class DdpConfig(StrategyConfig["Ddp"], tag="ddp", builds=".strategies"):
    """Each process has the whole model; gradients are averaged."""

    is_replicated = True
    options = frozenset({"precision.reduce"})


class Fsdp2Config(StrategyConfig["Fsdp2"], tag="fsdp2", builds=".strategies"):
    """Each process has a part of each parameter, of its gradient and of the optimizer's state."""

    options = frozenset(
        {"precision.params", "precision.reduce", "precision.output", "offload"}
        | {"reshard_after_forward", "reshard_after_backward"}
    )


_FSDP2_OPTIONS = ", ".join(sorted(Fsdp2Config.options))


class SharedPrecisionConfig(Config):
    """The types in which processes exchange parameters and gradients, which are kept in their own.

    torch calls it `MixedPrecisionPolicy`. None is the type of the parameters.

    Attributes:
        params: of the gathered parameters, in which the model computes, and of its floating point inputs.
        reduce: in which gradients are summed up.
        output: of what the model gives.
    """

    params: SharedDtype | None = None
    reduce: SharedDtype | None = None
    output: SharedDtype | None = None


class DistributedConfig(Config):
    """Training of one model by several processes, started by torchrun.

    Each reads its own `training.batch_size` items of each batch, so that N processes train as one does with N times as
    large batches.

    Attributes:
        strategy: `none`: a single process. `ddp`: each has the whole model, gradients are averaged. `fsdp2`: each has a
            part of each parameter, of its gradient and of the optimizer's state. Or the config of one.
        replicate: copies of the model, whose gradients are averaged; -1: as many as the other sizes leave. It is the
            size that `ddp` has; of `fsdp2`, each copy is divided among `shard` processes.
        shard: processes that a copy of the model is divided among; -1: as many as the other sizes leave.
        context: processes that a sequence is divided among.
        tensor: processes that each layer is divided among.
        pipeline: stages of the model, each with some of its layers.
        expert: processes that the experts of a layer are divided among; they are some of `shard`,
            of `ddp` of `replicate`.
        schedule: of a pipeline, as torch names it: `1F1B`, `GPipe`, `Interleaved1F1B` and so on.
        microbatches: parts of a batch, which go through the stages one after the other; None: twice as many as
            `pipeline`.
        stages: of a pipeline, the path of the first module of each stage, of which that of the first may be left out.
            Empty: of about equal size.
        plan: of `tensor`, by the path of a module (`*` stands for one part of it) how processes share it: see
            docs/parallelism.md. It goes before what the model says itself.
        precision: the types in which processes exchange parameters and gradients; None: those of the parameters.
        offload: `cpu`: parameters, gradients and states stay in the memory of the CPU, and a block's parameters go to
            the device while it computes. None: on the device. On a CPU it changes nothing.
        reshard_after_forward: true: drop a block's gathered parameters after its forward pass, and gather them again
            for the backward pass. false: keep them until then. A number: keep a part, divided among so many processes,
            a divisor of `shard`. None: true, but for what lies in no block.
        reshard_after_backward: false: keep gathered parameters from one batch of a step to the next, where a step has
            several (`training.accumulation_steps`). None: true.
        timeout_minutes: how long a process waits for the others before it ends the job.
    """

    strategy: Name | StrategyConfig = "none"
    replicate: Size = 1
    shard: Size = -1
    context: Count = 1
    tensor: Count = 1
    pipeline: Count = 1
    expert: Count = 1
    schedule: Schedule = "1F1B"
    microbatches: Count | None = None
    stages: tuple[str, ...] = ()
    plan: dict[str, str] = field(default_factory=dict)
    precision: SharedPrecisionConfig | None = None
    offload: Literal["cpu"] | None = None
    reshard_after_forward: bool | Count | None = None
    reshard_after_backward: bool | None = None
    timeout_minutes: Positive = 10.0

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in ("replicate", "shard"):
            if getattr(self, name) == 0:
                yield name, "expected a number of processes, or -1 for as many as the other sizes leave, got 0"
        strategy = self.strategy
        is_named = isinstance(strategy, str)
        strategy_type: Any = lookup(StrategyConfig, strategy) if is_named else type(strategy)
        if strategy_type is None:
            yield "strategy", unknown_type(from_python(self.strategy, Location()), StrategyConfig)
            return
        if is_named and (needed := [key for key, field in fields_of(strategy_type).items() if field.required]):
            options = ", ".join(f"{key}: ..." for key in needed)
            yield "strategy", f"expected {{type: {self.strategy}, {options}}}, as it needs more than its name"
            return
        yield from self._size_problems(strategy_type)
        yield from self._option_problems(strategy_type)

    def _size_problems(self, strategy: Any) -> Iterable[tuple[str, str]]:
        if self.replicate == self.shard == -1 and not strategy.is_replicated:
            yield "replicate", "is -1 as `shard` is; only one size can be what the others leave"
        if (strategy.is_replicated or strategy.is_single) and self.shard not in (-1, 1):
            yield "shard", f"{self.name} divides no parameters; expected fsdp2, or no `shard`, got {self.shard}"
        for one, other, reason in refused_pairs(self.kinds):
            yield other, f"{other} does not work together with {one}: {reason}"
        if self.plan and self.tensor == 1:
            yield "plan", "says how `tensor` processes share layers, and tensor is 1; leave one out"
        for path, words in self.plan.items():
            if problem := known_words(words)[1]:
                yield f"plan.{path}", problem
        yield from schedule_problems(self.schedule, self.pipeline, self.microbatches, self.stages)
        if self.computes_weights_later and self.reshard_after_forward not in (None, False):
            yield "reshard_after_forward", f"expected false for {self.schedule}, which needs all parameters of a stage"

    def _option_problems(self, strategy: Any) -> Iterable[tuple[str, str]]:
        precision: Any = self.precision or SharedPrecisionConfig()
        used = [f"precision.{name}" for name in precision.__struct_fields__ if getattr(precision, name) is not None]
        options = ("offload", "reshard_after_forward", "reshard_after_backward")
        used += [name for name in options if getattr(self, name) is not None]
        for name in used:
            if name not in strategy.options:
                names = ", ".join(sorted(strategy.options)) or "none"
                yield name, f"{self.name} has no such option, it has {names}; those of fsdp2 are {_FSDP2_OPTIONS}"

    @property
    def chosen(self) -> StrategyConfig:
        """The config of the strategy, which may only be named."""
        if isinstance(self.strategy, StrategyConfig):
            return self.strategy
        strategy_type: Any = lookup(StrategyConfig, self.strategy)  # validate() has looked it up
        return strategy_type()

    @property
    def name(self) -> str:
        return tag_of(type(self.chosen)) or type(self.chosen).__name__

    @property
    def kinds(self) -> tuple[str, ...]:
        """The strategy, and the sizes above 1 that it does not consist of."""
        wanted = {name: getattr(self, name) for name in ("replicate", "context", "tensor", "pipeline", "expert")}
        if self.chosen.is_replicated:
            del wanted["replicate"]
        return (self.name, *(name for name, size in wanted.items() if size != 1))

    @property
    def is_single(self) -> bool:
        return self.chosen.is_single

    @property
    def computes_weights_later(self) -> bool:
        """True if torch's pipelines compute gradients of weights themselves, out of sight of wrappers."""
        return self.pipeline > 1 and "ZeroBubble" in self.schedule

    @property
    def n_microbatches(self) -> int:
        return self.microbatches or 2 * self.pipeline

    def sizes(self, world_size: int) -> MeshSizes:
        """The sizes of the mesh for `world_size` processes; a ConfigError where they do not come out even."""
        if self.is_single and world_size > 1:
            raise ConfigError(
                f"distributed.strategy: {self.name} is a single process, there are {world_size}; expected ddp or fsdp2"
            )
        fixed = self.context * self.tensor * self.pipeline
        replicate, shard = self.replicate, self.shard
        if self.chosen.is_replicated:
            shard = 1
            replicate = -1 if replicate == 1 else replicate
        # 1 where there are too few processes: the message below then says how many the sizes need.
        left = world_size // (fixed * max(replicate, 1) * max(shard, 1)) or 1
        sizes = MeshSizes(
            pipeline=self.pipeline,
            replicate=left if replicate == -1 else replicate,
            shard=left if shard == -1 else shard,
            context=self.context,
            tensor=self.tensor,
            expert=self.expert,
        )
        name, size = ("shard", sizes.shard) if sizes.shard > 1 else ("replicate", sizes.replicate)
        if size % sizes.expert:
            raise ConfigError(
                f"distributed.expert: expected a divisor of {name}, which is {size} here, got {sizes.expert}"
            )
        reshard = self.reshard_after_forward
        if not isinstance(reshard, bool | None) and (sizes.shard * sizes.context) % reshard:
            raise ConfigError(
                "distributed.reshard_after_forward: expected true, false, or a divisor of the"
                f" {sizes.shard * sizes.context} processes that parameters are divided among, got {reshard}"
            )
        if self.computes_weights_later and self.chosen.is_replicated and sizes.replicate > 1:
            raise ConfigError(
                f"distributed.schedule: of {self.schedule} torch's DistributedDataParallel does not see the gradients,"
                " so that it can't average them; expected another schedule, or the strategy fsdp2"
            )
        if sizes.world != world_size:
            several = " or a multiple of that" if -1 in (replicate, shard) else ""
            raise ConfigError(
                f"distributed: the sizes ({sizes}) need {sizes.world} processes{several}, there are {world_size}"
            )
        return sizes

    def check_launched(self) -> None:
        """Refuse a strategy of several processes where no launcher has said where they find each other."""
        lacking = rendezvous_lacks()
        if self.is_single:
            return
        if not lacking:
            if problem := rendezvous_problem():
                raise ConfigError(f"{problem}; this variable is set by what starts the processes, such as torchrun")
            return
        how = _SLURM if runs_in_slurm() else "burnlike launch CONFIG --nproc 2 ... (or torchrun)"
        if number_of_ranks() == 1:
            raise ConfigError(
                f"distributed.strategy: {self.name} needs several processes: start them by {how}, or leave it out"
            )
        raise ConfigError(
            f"distributed.strategy: {self.name}: this is one of several processes of srun or mpirun, which do not tell"
            f" where to find the others ({', '.join(lacking)} are not known); start them by {how}; or set these"
            " variables for each"
        )
