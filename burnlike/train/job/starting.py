"""The start of a run: the first values of its model, which of its parameters are trained, and its loaders."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from ..._patterns import compiled
from ...config import ModuleConfig
from ...data import DataLoader
from ...errors import ConfigError, RecordError, nearest
from ...module import params
from ...record import LoadReport, load
from ...record.loading.load_into import prepare
from ...record.loading.load_options import LoadOptions
from ...record.shortcuts import open_for
from ..runs.record_paths import record_at
from .configs import InitFromConfig, TrainConfig

_SHOWN = 5


def model_config(config: TrainConfig, classes: Sequence[str] | None) -> ModuleConfig:
    """The config of the model, completed by the task and the classes of the data."""
    return config.model.for_task(config.task.head, classes)


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
    check_loaded(report, source)
    return model, [*origin_notes(model), loaded_line(model, source, report.applied)]


def check_loaded(report: LoadReport, source: InitFromConfig) -> None:
    """Refuse patterns without a match, and a record that gave the model nothing."""
    for path, message in _wrong_with(report, source):
        raise ConfigError(f"{path}: {message}")


def loaded_line(model: nn.Module, source: InitFromConfig | str, applied: Collection[str]) -> str:
    """The line for the user about the record that the model begins with."""
    if isinstance(source, str):
        return f"weights   {source}"
    drawn = [it.path for it in params(model) if it.path not in applied]
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
