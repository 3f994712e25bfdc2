"""The start of a run: its data, the first values of its model, which parameters are trained, and its loaders.

Of a model of which each process has a part none ever has the whole: constructors and initializers run without values
(`module/torch_objects/deferred.py`), and the strategy divides what they made on the meta device. Then each process gets
its part of the values that a single one would have, one parameter at a time (`FirstValues`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..._patterns import compiled
from ...config import ModuleConfig
from ...data import DataLoader, transformed
from ...data.configs import NO_TARGET
from ...data.sources.splits import classes_of, outputs_of, parts_of
from ...errors import ArgumentError, BurnlikeError, ConfigError, DataError, RecordError, nearest
from ...interop import start_by_eva
from ...interop.adapters.layers import has_adapters
from ...models.by_path.configs import FROM_TOKENIZER
from ...module import Eva, params, seed_param_ids
from ...module.torch_objects.deferred import Deferred
from ...module.torch_objects.wrappers import bare_name, is_distributed, local
from ...record import LoadReport, load
from ...record.loading.filling import boxes_of
from ...record.loading.load_into import prepare
from ...record.loading.load_options import LoadOptions
from ...record.shortcuts import open_for
from ..learner.steps import evaluation_mode
from ..parallel.single_process import SingleProcess
from ..runs.run_dir import record_at
from ..state.training_state import digest_of, random_state, restore_random
from ..tasks.task import Task
from .configs import InitFromConfig, TrainConfig

_SHOWN = 5
RANKS = "adapter_ranks"
"""The fact of a run's data that says which ranks the adapters of its layers got by it."""


def model_config(
    config: TrainConfig, outputs: Sequence[str] | None, facts: Mapping[str, Any] | None = None
) -> ModuleConfig:
    """The config of the model, completed by the task and by what the data says: the names of what the model is to give,
    and the features and new tokens of its `facts`. Before these are known, None, it has no new tokens.
    """
    model, facts = _with_tokens(config.model, facts), facts or {}
    if RANKS in facts and getattr(model, "eva", None) is not None:
        model = model.replace(ranks={**getattr(model, "ranks", {}), **facts[RANKS]})
    shape = getattr(config.data, "item_shape", None) or ()
    d_input = len(facts["features"]) if facts.get("features") else shape[0] if len(shape) == 1 else None
    completed = model.for_task(config.task.head, outputs)
    return completed.for_sizes(d_input, None if outputs is None else len(outputs))


def _with_tokens(model: Any, facts: Mapping[str, Any] | None) -> ModuleConfig:
    """The config of a model with the numbers of its new tokens."""
    wanted = getattr(model, "new_tokens", ())
    if not wanted or (facts is None and wanted != FROM_TOKENIZER and all(isinstance(it, int) for it in wanted)):
        return model
    if facts is None:
        return model.replace(new_tokens=())
    if wanted == FROM_TOKENIZER:
        size, before = facts.get("vocab_size"), getattr(model, "count_of_tokens", None)
        if size is None or before is None:
            raise ConfigError(
                "model.new_tokens: expected a model with a table of tokens and data with its tokenizer, such as Chat,"
                f" for {FROM_TOKENIZER}"
            )
        if size <= before:
            raise ConfigError(
                f"model.new_tokens: the tokenizer has {size} tokens, and the model has {before}: leave it out, or name"
                " those whose rows are to be trained"
            )
        return model.replace(new_tokens=tuple(range(before, size)))
    numbers = {**facts.get("new_tokens", {}), **{it: it for it in wanted if isinstance(it, int)}}
    if lacking := [it for it in wanted if it not in numbers]:
        raise ConfigError(
            f"model.new_tokens: expected data with a tokenizer, such as Chat, for the name {lacking[0]!r}; or numbers"
        )
    return model.replace(new_tokens=tuple(numbers[it] for it in wanted))


def training_data(config: TrainConfig) -> Any:
    """The config of the data, whose tokenizer gets the new tokens of the model."""
    wanted = getattr(config.model, "new_tokens", ())
    names = () if isinstance(wanted, str) else tuple(it for it in wanted if isinstance(it, str))
    if not names or not hasattr(config.data, "new_tokens"):
        return config.data
    return config.data.replace(new_tokens=tuple(dict.fromkeys((*config.data.new_tokens, *names))))  # pyright: ignore[reportAttributeAccessIssue]


class JobData(NamedTuple):
    """The data of a job, and what is known of it.

    Attributes:
        classes: their names, by number; None where the data has none.
        facts: such as the names of its features.
    """

    data: Any
    classes: Sequence[str] | None
    facts: dict[str, Any]

    @classmethod
    def of(cls, data: Any) -> "JobData":
        return cls(data, classes_of(data), dict(getattr(data, "facts", {})))

    @classmethod
    def read(cls, config: TrainConfig) -> "JobData":
        """Read the data of a config, with its transforms; a DataError if a part of it is empty."""
        data = transformed(training_data(config).init(), config.transforms)
        if empty := [name for name, part in parts_of(data).items() if len(part) == 0]:
            raise DataError(f"expected at least one item in each part of the data, got none in {' and '.join(empty)}")
        return cls.of(data)

    @property
    def outputs(self) -> Sequence[str] | None:
        """The names of what a model is to give: the classes, or the targets that are numbers."""
        return outputs_of(self.classes, self.facts)

    def model_config(self, config: TrainConfig) -> ModuleConfig:
        """The config of the model for these classes."""
        return model_config(config, self.outputs, self.facts)

    def task(self, config: TrainConfig) -> Task:
        """A new task, told of the data."""
        task: Task = config.task.init()
        task.take_facts({**self.facts, "classes": self.classes})
        task.take_data(self.data)
        task.take_training_data(self.data)
        return task


def loader_of(
    config: TrainConfig, data: Any, dataset: Any, device: torch.device, **options: Any
) -> DataLoader[Any, Any]:
    """The DataLoader of one split, `dataset`, with the config's settings and more `options` of a loader."""
    training = config.training
    return DataLoader(
        dataset,
        data.batcher,
        batch_size=training.batch_size,
        seed=config.seed,
        device=device,
        num_workers=training.num_workers,
        on_bad_item=training.on_bad_item,
        **options,
    )


def first_model(config: TrainConfig, chosen: ModuleConfig) -> tuple[nn.Module, list[str]]:
    """The model of the config `chosen`, on the CPU, so that initial values do not depend on the device; and lines for
    the user about it, such as where its values come from: none if all were drawn.
    """
    source = config.init_from
    if source is None:
        model = chosen.init("cpu")
        return model, origin_notes(model)
    if isinstance(source, str):
        model = chosen.init_from(record_at(source), "cpu")
        return model, [*origin_notes(model), loaded_line(model, source, ())]
    model = chosen.init("cpu")
    report = load(model, record_at(source.path), **load_options(source))
    for path, message in _wrong_with(report, source):
        raise ConfigError(f"{path}: {message}")
    return model, [*origin_notes(model), loaded_line(model, source, report.applied)]


def begin_by_data(
    config: TrainConfig, read: JobData, model: nn.Module, task: Task, device: torch.device, data_size: int, eva: Eva
) -> str:
    """Give adapters their ranks and first values by the inputs of their layers; returns a line for the user.

    Each process goes through the joined batches, those of a single one, and so gets the same values.
    """
    inner: Any = next(module for module in model.modules() if has_adapters(module))

    def positions(batch: Any) -> Tensor | None:
        tokens = batch.get("input_ids") if isinstance(batch, Mapping) else None
        if not isinstance(tokens, Tensor):
            return None
        mask, labels = batch.get("attention_mask", torch.ones_like(tokens)).bool(), batch.get("labels")
        is_masked = eva.use_label_mask and isinstance(labels, Tensor) and labels.shape == tokens.shape
        return mask & (labels != NO_TARGET) if is_masked else mask

    size = config.training.batch_size * data_size
    loader = loader_of(config, read.data, read.data.train, device, joined_batch_size=size)
    rslora: bool = getattr(config.model, "rslora", False)
    try:
        with evaluation_mode(model):
            forward = partial(task.valid_step, model)
            ranks = start_by_eva(inner, loader, forward, eva, positions=positions, rslora=rslora)
    except ArgumentError as error:
        raise ConfigError(f"model.{error}") from error
    read.facts[RANKS] = ranks
    without = sum(not rank for rank in ranks.values())
    return f"eva       ranks of {min(rank for rank in ranks.values() if rank)} to {max(ranks.values())}" + (
        f"; {without} of {len(ranks)} layers have none" if without else ""
    )


def loaded_line(model: nn.Module, source: InitFromConfig | str, applied: Collection[str]) -> str:
    """The line for the user about the record that the model begins with."""
    if isinstance(source, str):
        return f"weights   {source}"
    drawn = [parameter.path for parameter in params(model) if parameter.path not in applied]
    rest = f"; drawn: {_listed(drawn)}" if drawn else ""
    return f"weights   {len(applied)} of {len(applied) + len(drawn)} tensors of {source.path}{rest}"


def origin_notes(model: nn.Module) -> list[str]:
    """Notes of the parts of a model on their origin, such as a directory of weights (`burnlike_origin`)."""
    return [line for module in model.modules() for line in vars(module).get("burnlike_origin", ())]


def record_problems(config: TrainConfig, model: nn.Module) -> Iterator[tuple[str, str]]:
    """The path in the config of an `init_from` that does not fit the model, which is not changed, and why."""
    if config.init_from is None:
        return
    source = InitFromConfig(path=config.init_from) if isinstance(config.init_from, str) else config.init_from
    try:
        prepared = prepare(open_for(model, record_at(source.path)), model, LoadOptions(**load_options(source)))
    except RecordError as error:
        yield "init_from", " ".join(str(error).split())
        return
    prepared.undo()
    yield from _wrong_with(prepared.report, source)


def load_options(source: InitFromConfig) -> dict[str, Any]:
    """The options of a load that the config asks for."""
    options: dict[str, Any] = {"strict": source.strict, "remap": source.rename}
    if source.skip:
        options["filter"] = lambda path: not any(compiled(pattern).search(path) for pattern in source.skip)
    return options


def _wrong_with(report: LoadReport, source: InitFromConfig) -> Iterator[tuple[str, str]]:
    """The paths in the config of patterns without a match, and of a record that gave the model nothing."""
    for place, pattern in enumerate(source.skip):
        if not any(compiled(pattern).search(path) for path in report.skipped):
            names = _listed([*report.applied, *report.unexpected])
            yield f"init_from.skip.{place}", f"matches nothing in the model or in {source.path} ({names}): '{pattern}'"
    if not report.applied:
        names = f"the model has {_listed([*report.missing])}, the record {_listed([*report.unexpected])}"
        yield "init_from", f"nothing of {source.path} is loaded: {names}; `rename` says which is which"


def choose_trained(model: nn.Module, config: TrainConfig) -> None:
    """Freeze what `freeze` and `trainable` say, in place."""
    for path, message in untrained_problems(model, config):
        raise ConfigError(f"{path}: {message}")
    # By all of its names: a tied parameter, such as that of a head, is meant by any of them.
    for param in params(model, "weight") if config.freeze or config.trainable else ():
        paths = (param.path, *param.aliases)
        if _matches(config.trainable, paths):
            param.set_require_grad(True)
        elif not config.freeze or _matches(config.freeze, paths):
            param.set_require_grad(False)


def untrained_problems(model: nn.Module, config: TrainConfig) -> Iterator[tuple[str, str]]:
    """The paths in the config of patterns that match no parameter, and of one that leaves nothing to train."""
    if not (config.freeze or config.trainable):
        return
    weights = [(param, (param.path, *param.aliases)) for param in params(model, "weight")]
    names = [paths[0] for _, paths in weights]
    before = [*_unmatched("freeze", config.freeze, names, weights)]
    before += _unmatched("trainable", config.trainable, names, weights)
    yield from before
    left = any(
        _matches(config.trainable, paths)
        or (param.trainable and bool(config.freeze) and not _matches(config.freeze, paths))
        for param, paths in weights
    )
    if not (before or left):
        yield "freeze", "leaves no parameter to train"


def _unmatched(field: str, patterns: Sequence[str], names: list[str], weights: Any) -> Iterator[tuple[str, str]]:
    for place, pattern in enumerate(patterns):
        if not any(_matches((pattern,), paths) for _, paths in weights):
            hint = nearest(pattern, names) or f" ({_listed(names)})"
            yield f"{field}.{place}", f"matches no parameter of the model{hint}: '{pattern}'"


def _matches(patterns: Sequence[str], paths: Sequence[str]) -> bool:
    return any(compiled(pattern).search(path) for pattern in patterns for path in paths)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if names[_SHOWN:] else "") or "nothing"


class FirstValues:
    """Initial values of a divided model; each process makes its own part. Called once, after the division."""

    def __init__(
        self, config: TrainConfig, device: torch.device, deferred: Deferred, fakes: Mapping[str, Tensor]
    ) -> None:
        self._deferred, self._fakes = deferred, fakes
        self._device = torch.device("cpu") if config.distributed.offload == "cpu" else device

    def digests(self, model: nn.Module, parallel: SingleProcess, tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
        """Digests of the values of the undivided model's tensors; each process makes some of the values, one by one."""
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        fakes = {it.path: self._fakes.get(bare_name(names.get(id(it.tensor), ""))) for it in params(model)}
        digests: dict[str, bytes] = {}
        for number, (path, tensor) in enumerate(tensors.items()):
            if number % parallel.world_size == parallel.rank:
                fake = fakes.get(path)
                digests[path] = digest_of(tensor if fake is None else self._deferred.values(fake))
        digest_at = {path: value for part in parallel.gather(digests) for path, value in part.items()}
        yield from (digest_at[path] for path in tensors)

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> None:
        """Give all parameters memory, and values."""
        _make_memory(model, self._device)
        for name, parameter in model.named_parameters():
            fake = self._fakes.get(bare_name(name))
            if fake is not None and is_distributed(parameter):
                shard = local(parameter.detach())
                for box in boxes_of(parameter):
                    target = shard
                    for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
                        target = target.narrow(dim, start, length)
                    target.copy_(self._deferred.part(fake, box))
            elif fake is not None:
                parameter.copy_(self._deferred.part(fake, None))
        self._fakes = {}


def deferred_model(
    config: TrainConfig, chosen: ModuleConfig, task: Task, device: torch.device
) -> tuple[nn.Module, list[str], FirstValues] | str:
    """The model of the config `chosen`, prepared by the task, with its parameters on the meta device, lines for the
    user about it, and what gives it values; or why it can't be built so, with the random generators as they were.
    """
    before = random_state()
    deferred = Deferred()
    try:
        with deferred:
            model, notes = first_model(config, chosen)
            model = task.prepare(model)
        return model, notes, FirstValues(config, device, deferred, deferred.settle(model))
    except Exception as error:  # of anyone's constructor; what is wrong with the config is told where values are made
        # The model is built again, whole: with the numbers and ids that were drawn for this attempt.
        restore_random(before)
        seed_param_ids(config.seed)
        cause = error.__cause__ if isinstance(error, BurnlikeError) and error.__cause__ is not None else error
        return " ".join(f"{type(cause).__name__}: {cause}".split())[:200]


def _make_memory(model: nn.Module, device: torch.device) -> None:
    """Give parameters on the meta device memory, and leave all other tensors as they are."""
    buffers = [(part, name, it) for part in model.modules() for name, it in part._buffers.items() if it is not None]
    # `to_empty` gives every tensor new memory, also one that has values.
    kept = {name: local(parameter).clone() for name, parameter in model.named_parameters() if not parameter.is_meta}
    slots = [(part, name, it) for part in model.modules() for name, it in part._parameters.items() if it is not None]
    model.to_empty(device=device)
    new_of: dict[int, Any] = {}
    for part, name, tensor in slots:  # torch makes a parameter of its own of each that is tied
        part._parameters[name] = new_of.setdefault(id(tensor), part._parameters[name])
    for part, name, tensor in buffers:
        part._buffers[name] = tensor.to(device)
    for name, tensor in model.named_parameters():
        if name in kept:
            local(tensor).copy_(kept[name])
