"""Trial of a config on the meta device: one training step, groups, patterns, the division, the shapes of the layers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..._torch_compat.compiler import compiler_left_out
from ...backend.torch_calls.tables import tensors_in
from ...config import Config, ModuleConfig
from ...config.node import Node, find
from ...config.registry import kinds_in, tag_of
from ...config.root_keys import Input, inputs_of
from ...data.batching import BatchMaker, Request, bad_batch, to_device
from ...data.sources.splits import classes_of
from ...data.texts.configs import TextRowsConfig
from ...errors import BurnlikeError, ConfigError, DataError, DTypeError, Problem, TableError, nearest
from ...module import params
from ...module.groups.param_group import MatchIds
from ...module.torch_objects.wrappers import is_quantized
from ...optim import OptimizerAdaptor
from ..learner.configs import BEST, metric_of
from ..learner.steps import StepOutput, named_numbers, output_of, update_metrics
from ..metrics.configs import AucPrConfig, AurocConfig
from ..parallel.configs import SCHEDULES, DistributedConfig, is_understood
from ..tasks.task import Task
from ..tasks.token_batches import expect_positions, longest_of
from .configs import TrainConfig
from .device import build_on_meta
from .starting import JobData, choose_trained, model_config, record_problems, untrained_problems

if TYPE_CHECKING:
    from ...models.views.shapes import Trace

_DIFFERENT_ITEMS = 4
_SHOWN_FEATURES = 20
_OF_FLOATS = ("activation", "conv", "linear", "norm", "recurrent")
_CPU, _META = torch.device("cpu"), torch.device("meta")

WRONG = (BurnlikeError, RuntimeError, TypeError, ValueError, LookupError, AttributeError)
"""What a model raises of inputs that do not fit it."""


def _quick_shapes(config: Config) -> AbstractContextManager[None]:
    """Shapes without torch's compiler, where all parts are burnlike's: other code may ask for it."""
    return compiler_left_out() if all(map(is_understood, kinds_in(config))) else nullcontext()


def check_batch(config: TrainConfig, data: JobData, module: nn.Module) -> None:
    with _quick_shapes(config), suppress(DataError):  # the loader says so in its turn, or leaves bad items out
        for path, message in batch_problems(config, data, module):
            raise ConfigError(f"{path}: {message}")


def batch_problems(config: TrainConfig, read: JobData, module: nn.Module) -> Iterator[tuple[str, str]]:
    """Problems of a model with its data: shapes, element types, number of classes, patterns that match nothing.

    A model or task that looks at values can't be tried on the meta device, and is left alone. The module, of
    `config.model`, is on the meta device and is changed.
    """
    data = read.data
    try:
        # A task of the trial's own: one of a user may count steps, or keep what `prepare` was given.
        task = read.task(config)
    except BurnlikeError as error:
        path, _, rest = str(error).partition(": ")
        yield (path, rest) if path == "task" or path.startswith("task.") else ("task", str(error))
        return
    try:
        model = task.prepare(module)
    except WRONG as error:
        yield from _problem_of(error, "task")
        return
    untrained = [*untrained_problems(model, config)]
    yield from untrained
    if not untrained:
        choose_trained(model, config)
        yield from _refusals("optimizer", lambda: _update(config.optimizer, model))
    batch = first_batch(config, data, config.training.batch_size)
    if problem := token_problem(module, batch, data):
        yield "model", problem
        return
    if isinstance(config.data, TextRowsConfig):  # not each batch has the longest text
        cut = "cut them by data.max_length: {}"
        long = [*_refusals("data", lambda: expect_positions(model, longest_of(data), remedy=cut))]
        yield from long
        if long:
            return
    names: Sequence[str] = read.facts.get("features", ())
    more = ", ..." if len(names) > _SHOWN_FEATURES else ""
    features = f", {len(names)} features: {', '.join(names[:_SHOWN_FEATURES])}{more}" if names else ""
    running: list[str] = []  # the innermost module that failed is the last one there
    hooks = [hook for path, child in model.named_modules() for hook in _note_running(child, path, running)]
    try:
        # The trial's random numbers are not those of the training, which begin at its seed.
        with (
            torch.random.fork_rng(devices=[]),
            _divided(config.distributed, model, ImportError, ConfigError) as divided,
        ):
            output = task.train_step(divided.train(), to_device(batch, _META))
    except WRONG as error:
        where, rest = config_path(config.model, running[-1]) if running else ("", "")
        place = ".".join(it for it in ("model", where) if it) if running else "task"
        inside = f"{rest}: " if rest else ""
        batch_text = f"with a batch of {_shapes(batch)} from the data{features}"
        shared = f"; layers are divided among {count} processes" if (count := config.distributed.tensor) > 1 else ""
        yield from _problem_of(error, place, inside, f" ({batch_text}{shared})")
        return
    finally:
        for hook in hooks:
            hook.remove()
    if isinstance(output, StepOutput):
        yield from class_problems(config, output, batch, data)
        yield from _metric_problems(config, task, model.eval(), to_device(batch, _META), read.outputs)


def first_batch(config: TrainConfig, data: Any, size: int, device: torch.device = _CPU) -> Any:
    """A batch to train on of any size, which repeats the first items; of items with lengths the longest."""
    count = max(1, min(len(data.train), _DIFFERENT_ITEMS))
    lengths: Any = getattr(data.train, "lengths", None)
    chosen = [*range(count)] if lengths is None else torch.as_tensor(lengths).topk(count).indices.tolist()
    return batch_of(config, data.train, data.batcher, [chosen[number % count] for number in range(size)], device)


def batch_of(config: TrainConfig, dataset: Any, batcher: Any, numbers: list[int], device: torch.device = _CPU) -> Any:
    """The batch of these items; each item is read once. A DataError if it can't be made."""
    # A data set that makes batches itself is asked for one, as in the training.
    items = dataset if batcher is None and callable(getattr(dataset, "batch", None)) else _FirstItems(dataset)
    made_batch = BatchMaker(items, batcher, config.seed, config.training.on_bad_item).make(
        Request(0, 0, numbers), device
    )
    if made_batch.batch is None:
        raise bad_batch(made_batch) from made_batch.cause
    return made_batch.batch


class _FirstItems:
    """The items of a data set, each read once."""

    def __init__(self, dataset: Any) -> None:
        self.draws = getattr(dataset, "draws", True)
        self._dataset = dataset
        self._items: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        if index not in self._items:
            self._items[index] = self._dataset[index]
        return self._items[index]


def config_path(config: ModuleConfig, module_path: str) -> tuple[str, str]:
    """The path in a config of what makes a module, or the nearest above it, and the module's path in that."""
    places, names = [], module_path.split(".") if module_path else []
    while names and (part := config.part(names[0])) is not None:
        place, config = part
        places += [place] if place else []
        del names[0]
    return ".".join(places), ".".join(names)


def error_text(error: Exception) -> str:
    """An error on one line, with its type where the text does not say it."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    return text if isinstance(error, BurnlikeError) and text else f"{kind}: {text}"


def needs_values(error: Exception) -> bool:
    """True if an error only says that tensors of the meta device have no values."""
    return isinstance(error, NotImplementedError) or "meta" in str(error).lower()


def _problem_of(error: Exception, path: str, before: str = "", after: str = "") -> Iterator[tuple[str, str]]:
    if not needs_values(error):
        yield (path, f"{before}{error_text(error)}{after}")


def _note_running(module: nn.Module, path: str, running: list[str]) -> list[Any]:
    """Hooks that keep the paths of the modules whose forward goes on, the innermost last.

    They refuse what the meta device lets pass for a layer of floats: integers, and float64 beside other weights.
    """
    package = type(module).__module__.replace("torch.nn.modules", "burnlike.nn").split(".")[:3]
    needs_floats = package[:2] == ["burnlike", "nn"] and package[2] in _OF_FLOATS

    def begins(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        running.append(path)
        first, weight = inputs[0] if inputs and needs_floats else None, next(module.parameters(), None)
        if not isinstance(first, Tensor) or weight is None:
            return
        if not (first.is_floating_point() or first.is_complex()):
            expected, remedy = "floats", "tokens go through an Embedding first"
        elif first.dtype != weight.dtype and torch.float64 in (first.dtype, weight.dtype) and package[2] != "norm":
            expected = f"{str(weight.dtype).removeprefix('torch.')}, as its parameters are"
            remedy = f"return x.to({weight.dtype}) from the dataset"
        else:
            return
        raise DTypeError(f"{type(module).__name__}: expected {expected}, got {_shapes(first)}; {remedy}")

    def ended(*_: Any) -> None:
        running.pop()

    return [module.register_forward_pre_hook(begins), module.register_forward_hook(ended)]


def _metric_problems(
    config: TrainConfig, task: Task, model: nn.Module, batch: Any, classes: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    if not config.metrics:
        return
    try:
        with torch.random.fork_rng(devices=[]):
            output = output_of(task.valid_step(model, batch), batch, is_training=False)
    except WRONG as error:
        yield from _problem_of(error, "task", "validation: ")
        return
    for place, (name, metric) in enumerate(zip(config.metric_names(), config.metrics, strict=True)):
        if isinstance(metric, AurocConfig | AucPrConfig) and classes is not None and len(classes) == 1:
            kind = tag_of(type(metric))
            message = f"{kind} tells two classes apart, and the data has only '{classes[0]}'"
            yield f"metrics.{place}", f"{message}; look at data.target, or leave {kind} out"
            continue
        computed = metric.for_classes(classes).init()
        try:
            update_metrics({name: computed}, output)
        except WRONG as error:
            yield from _problem_of(error, f"metrics.{place}")
            continue
        yield from _unknown_values(config, name, computed)


def _unknown_values(config: TrainConfig, name: str, metric: Any) -> Iterator[tuple[str, str]]:
    """Problems of what decides the best weights, where it is to be one of several values of the metric `name`."""
    wanted = {best: chosen.metric for best in BEST if (chosen := getattr(config.training, best)) is not None}
    wanted = {best: value for best, value in wanted.items() if metric_of(value, config.metric_names()) == name}
    if not wanted:
        return
    try:
        available = [it for names, _ in named_numbers(name, metric.compute()) for it in names]
    except WRONG:  # of a metric that looks at values; the first validation says so
        return
    for best, value in wanted.items():
        if value not in available:
            remedy = f"it has {', '.join(available)}{nearest(value, available)}"
            yield f"training.{best}.metric", f"'{name}' has no value '{value}', {remedy}"


def _shapes(batch: Any) -> str:
    shown = (f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in tensors_in(batch))
    return ", ".join(shown) or type(batch).__name__


def trial_problems(config: Any, *, data: bool) -> list[tuple[str, str]]:
    """Problems of a training's config, by path; its data may be left unread."""
    if not (isinstance(config, TrainConfig) and isinstance(config.model, ModuleConfig)):
        return []
    if not data:
        return [*_model_problems(config, None, lambda module: untrained_problems(module, config))]
    try:
        read = JobData.read(config)
        batches = config.training.batches_of(len(read.data.train))
    except Exception as error:  # of a class of one's own, anything
        return [
            *_model_problems(config, None, lambda module: record_problems(config, module)),
            ("data", str(error) if isinstance(error, TableError) else error_text(error)),
        ]
    problems = _model_problems(config, read, lambda module: _data_problems(config, read, batches, module))
    return [*dict.fromkeys(problems)]  # whole parameters may be refused as divided ones are


def _model_problems(
    config: Any, read: JobData | None, more: Callable[[nn.Module], Iterable[tuple[str, str]]]
) -> Iterator[tuple[str, str]]:
    """Problems of building the model for the data; if it can be built, problems of its groups, of its division among
    processes, and `more`.
    """
    completed = model_config(config, None) if read is None else read.model_config(config)
    if read is None and completed.lacks_sizes:
        return
    try:
        module = build_on_meta(completed)
    except Exception as error:  # of a class of one's own, anything
        yield from _problem_of(error, "model")
        return
    yield from unmatched_groups(config, module)
    yield from division_problems(config.distributed, config.optimizer, module)
    yield from more(module)


def _data_problems(config: Any, read: JobData, batches: int, module: Any) -> Iterator[tuple[str, str]]:
    data = read.data
    yield from record_problems(config, module)
    if config.training.on_bad_item == "raise":
        yield from (("data", text) for text in getattr(data.train, "unreadable", ()) if text)
    if config.training.steps_per_epoch is None:
        steps = config.training.epochs * config.training.steps_of(batches)
        if not batches:
            message = f"leaves no batch of {len(data.train)} items; lower training.batch_size, or leave out drop_last"
            yield "training.drop_last", message
        reason = f"training.epochs times the batches of {len(data.train)} items"
        yield from config.schedule_problems(steps, reason)
    try:
        with _quick_shapes(config):
            problems = [*batch_problems(config, read, module)]
        yield from problems
    except BurnlikeError as error:
        yield "data", error_text(error)


def unmatched_groups(config: Any, module: Any) -> Iterator[tuple[str, str]]:
    """Groups that match no parameter of the model: their paths and the problem.

    Groups by id are left out: ids are drawn when the training begins.
    """
    weights = params(module, "weight")
    for part in ("optimizer", "lr_scheduler"):
        groups: Sequence[Any] = getattr(getattr(config, part), "groups", ())
        for place, group in enumerate(groups):
            if not (_is_by_ids(group) or any(group.params.matches(param) for param in weights)):
                names = ", ".join(param.path for param in weights[:5]) + (", ..." if weights[5:] else "")
                yield f"{part}.groups.{place}.params", f"matches no parameter of the model ({names}): {group.params}"


def _is_by_ids(group: Any) -> bool:
    return any(isinstance(rule, MatchIds) for rule in (*group.params.match, *group.params.excludes))


def traced(config: Any, tree: Node, inputs: list[Input]) -> tuple["Trace", list[Problem]]:
    """Run the model of a config without values: the calls, and problems at their places in the tree that the config was
    read from. Without `inputs`, it gets those that the config implies.
    """
    from ...models.views.shapes import Trace, trace  # torch's counter of operations imports Triton

    path, model = ("", config) if isinstance(config, ModuleConfig) else ("model", getattr(config, "model", None))
    if not isinstance(model, ModuleConfig):
        raise ConfigError(f"--shapes: {type(config).__name__} has no model")
    if isinstance(config, TrainConfig):
        model = model_config(config, None)
        model = JobData.read(config).model_config(config) if model.lacks_sizes else model
    place = find(tree, path).place
    model_inputs = inputs or implied_inputs(config, model, tree)
    try:
        module = build_on_meta(model)
    except (BurnlikeError, RuntimeError, NotImplementedError) as error:
        return Trace([]), [place.problem(path, f"can't be built without values: {' '.join(str(error).split())}")]
    with _quick_shapes(config):
        calls = trace(module, model_inputs)
    if calls.failed is None:
        return calls, []
    below, rest = config_path(model, calls.failed.path)
    path = ".".join(it for it in (path, below) if it)
    kind = calls.failed.type
    message = calls.message if calls.message.startswith(f"{kind}: ") else f"{kind}: {calls.message}"
    return calls, [find(tree, path).place.problem(path, f"{rest}: {message}" if rest else message)]


def implied_inputs(config: Any, model: ModuleConfig, tree: Node | None = None) -> list[Input]:
    """The inputs that a config implies: its `inputs:`, its data's tokens or images, or the examples of the model's
    class.
    """
    if config is model and tree is not None and (from_file := inputs_of(tree, ModuleConfig)):
        return from_file
    data = getattr(config, "data", None)
    length, shape = getattr(data, "context_length", None), getattr(data, "item_shape", None)
    if length is not None:
        return [Input((config.training.batch_size, length), "int64")]
    if shape is not None:
        for transform in config.transforms:
            shape = transform.item_shape(shape) if "train" in transform.parts else shape
        return [Input((config.training.batch_size, *shape), "float32")]
    examples = [Input(shape, dtype, name) for name, (dtype, shape) in model.example_inputs().items()]
    if not examples:
        raise ConfigError(
            "the config does not say what the model's inputs are; give them by --input, such as"
            " --input 8,3,32,32 or --input tokens=int64:8,128, or as `inputs: [8, 3, 32, 32]` in the file of a model"
        )
    return examples


def class_problems(config: TrainConfig, output: StepOutput, batch: Any, data: Any) -> Iterator[tuple[str, str]]:
    """Fewer classes among the logits than in the data, by its names, its vocabulary and its first targets."""
    logits, targets = output.predictions, output.targets
    if not (isinstance(logits, Tensor) and isinstance(targets, Tensor)):
        return
    if targets.is_floating_point() or logits.dim() != targets.dim() + 1:
        return
    n_classes = logits.shape[-1 if logits.shape[:-1] == targets.shape else 1]
    n_classes = 2 if n_classes == 1 and output.logits else n_classes  # one of two
    classes = classes_of(data)
    needed = (getattr(data, "vocab_size", None) or 0) if classes is None else len(classes)
    task: Any = config.task
    ignored = getattr(getattr(task, "task", task), "ignore_index", None)
    # The part of a batch that has targets, where it is known: tokens of an input are no classes.
    is_pair = isinstance(batch, tuple | list) and len(batch) == 2
    part = batch.get("labels", batch) if isinstance(batch, Mapping) else batch[1] if is_pair else batch
    for tensor in tensors_in(part):
        if tensor.shape == targets.shape and tensor.dtype == targets.dtype and tensor.numel():
            counted = tensor if ignored is None else tensor[tensor != ignored]
            needed = max(needed, int(counted.max()) + 1 if counted.numel() else 0)
    if n_classes < needed:
        yield ("model", f"gives logits of {n_classes} classes, and the data has {needed} at least")


def token_problem(module: nn.Module, batch: Any, data: Any) -> str:
    """The problem of data with tokens for which a model of transformers has no vector; empty if it has all."""
    embedding: Any = getattr(module, "get_input_embeddings", None)
    tokens = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if not (callable(embedding) and isinstance(tokens, Tensor)) or tokens.is_floating_point() or not tokens.numel():
        return ""
    try:
        n_vectors = getattr(embedding(), "num_embeddings", None)
    except (NotImplementedError, AttributeError):  # of a model that reads no tokens
        return ""
    needed = max(getattr(data, "vocab_size", None) or 0, int(tokens.max()) + 1)
    if n_vectors is None or needed <= n_vectors:
        return ""
    has_tokenizer = needed == getattr(data, "facts", {}).get("vocab_size")
    more = "if these are new ones, write `new_tokens: from_tokenizer` under `model:`; else " if has_tokenizer else ""
    return f"knows {n_vectors} tokens, and the data has {needed}: {more}its tokenizer is that of another model"


def division_problems(config: DistributedConfig, optimizer: Any, module: nn.Module) -> Iterator[tuple[str, str]]:
    """Problems of dividing a model, by their paths in the job's config; the module, on the meta device, is not changed.

    Args:
        optimizer: the config of what updates the parts.
    """
    if config.pipeline > 1:
        from ..parallel.pipeline_cut import plan_of  # torch.distributed takes time

        stages = config.pipeline * SCHEDULES[config.schedule]
        yield from _refusals("distributed.pipeline", lambda: plan_of(module, stages, config.stages))
    if config.tensor > 1:
        yield from _refusals("distributed.tensor", lambda: _divide(config, optimizer, module))
    if config.name == "fsdp2":
        from ..parallel.strategies import blocks_of, check_divisible

        # What is gathered together of stages and of experts depends on the processes.
        units = [[it] for it in (*blocks_of(module), module)] if config.pipeline == config.expert == 1 else []
        problems = [*_refusals("distributed.strategy", lambda: check_divisible(module, units))]
        yield from problems or _refusals("distributed.strategy", lambda: _shard(optimizer, module))


def _shard(optimizer: Any, module: nn.Module) -> None:
    import torch.distributed as dist

    from ..._torch_compat.fake_processes import fake_processes

    if dist.is_initialized() or any(is_quantized(parameter) for parameter in module.parameters()):
        return
    with suppress(ImportError), fake_processes(2, 0):
        from torch.distributed.fsdp import fully_shard

        sharded = deepcopy(module)  # `fully_shard` changes it in place, and `check` goes on with it
        fully_shard(sharded, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
        _update(optimizer, sharded)


def _update(optimizer: Any, module: nn.Module) -> None:
    """Ask the optimizer of a config about the parameters, whole or divided, but not by ids, which are drawn later."""
    updater = optimizer.init()
    if isinstance(updater, OptimizerAdaptor) and not any(_is_by_ids(it) for it in getattr(optimizer, "groups", ())):
        try:
            updater.rules.check(module, is_whole=False)  # groups that match nothing are told by themselves
        except ConfigError as error:
            raise ConfigError(f"optimizer: {error}") from error


def _divide(config: DistributedConfig, optimizer: Any, module: nn.Module) -> None:
    from ...interop.parallel_plans import plan_of

    plan_of(module, config.plan)
    with _divided(config, module, ImportError) as divided:
        _update(optimizer, divided)


@contextmanager
def _divided(config: DistributedConfig, module: nn.Module, *passed_over: type[Exception]) -> Iterator[nn.Module]:
    """A copy whose layers are divided, as one of several processes has it; the module itself where that fails."""
    if config.tensor == 1:
        yield module
        return
    import torch.distributed as dist

    from ..._torch_compat.fake_processes import fake_processes
    from ...interop.parallel_plans import parallelize

    with ExitStack() as stack:
        if not dist.is_initialized():
            with suppress(*passed_over):
                stack.enter_context(fake_processes(config.tensor, 0))
                mesh = dist.device_mesh.init_device_mesh("cpu", (config.tensor,))
                module = parallelize(deepcopy(module), mesh, config.plan)
        yield module


def _refusals(place: str, tried: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        tried()
    except ConfigError as error:
        path, _, message = str(error).partition(": ")
        yield (path, message) if path.startswith(("distributed.", "optimizer", "data.")) else (place, str(error))
