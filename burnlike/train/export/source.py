"""The model that is exported, and an example of what it is called with."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...config import ModuleConfig
from ...config.registry import tag_of
from ...config.root_keys import Input
from ...data import transformed
from ...data.sources.splits import outputs_of
from ...errors import ArgumentError, BurnlikeError, ConfigError
from ...interop import merge_adapters
from ...interop.adapters.layers import adapted
from ...models.lora.configs import LoRAConfig
from ...nn.containers.configs import GraphConfig
from ...record import load
from ..job.loaded_run import LoadedRun
from ..job.starting import model_config
from ..job.trial import batch_of, implied_inputs
from ..tasks.task import Task

_EXAMPLES = 2
"""Items of the batch that a model is exported with; of one item, torch would take the number for fixed."""
_NOT_FOR_USE = ("labels", "position_ids", "past_key_values", "use_cache", "return_dict")
"""Arguments of transformers' models that belong to a training, as the positions of packed texts do, or that change only
what a call gives beside its result.
"""


class Source(NamedTuple):
    """A model, in evaluation mode on the CPU, and what is known of it.

    Attributes:
        config: of the model, completed by its task and the classes; None for one that Python code has made.
        classes: their names, by number.
        normalize: the mean and the std of each `Normalize` that its inputs have gone through, in order.
        about: plain values that say where it is from.
        run: the run that it is of; None for one of a config and a record.
        training: the config whose model it is; None for a model alone.
    """

    model: nn.Module
    config: ModuleConfig | None
    classes: Sequence[str] | None
    normalize: Sequence[tuple[Sequence[float], Sequence[float]]]
    about: Mapping[str, Any]
    run: LoadedRun | None = None
    training: Any = None

    @property
    def task(self) -> Task | None:
        return None if self.run is None else self.run.task


class Example(NamedTuple):
    """Tensors by the names of the model's arguments; and where they are from, for the user."""

    inputs: dict[str, Tensor]
    origin: str


def source_of_run(run: LoadedRun) -> Source:
    """The model of a run as it is used: with low-rank adapters of its layers added to their weights, in place."""
    config = run.config
    normalize = [(it.mean, it.std) for it in config.transforms if tag_of(type(it)) == "Normalize"]  # pyright: ignore[reportAttributeAccessIssue]
    about = {
        "run": str(run.path),
        "step": run.step,
        "weights": run.weights,
        "facts": {name: it for name, it in run.facts.items() if name != "classes"},
    }
    model = run.task.export(run.model).to("cpu").eval()
    config_of_model = model_config(config, outputs_of(run.classes, run.facts))
    if adapted(model):
        merge_adapters(model)
    base = config_of_model.of if isinstance(config_of_model, LoRAConfig) else config_of_model
    return Source(model, base, run.classes, normalize, about, run, config)


def source_of_config(config: ModuleConfig, record: Path | None, training: Any = None) -> Source:
    """The model of a config, maybe that of a training, with the values of a record, or with initial values."""
    model = config.init("cpu")
    if record is not None:
        load(model, record)
    about = {} if record is None else {"record": str(record)}
    return Source(model.eval(), config, None, (), about, training=training)


def source_of_function(place: str) -> Source:
    """The model that a function gives: `my_package.nets:make_net`, of a module that has been imported.

    Raises:
        ArgumentError: there is no such function, or it gives no module.
    """
    module, _, name = place.partition(":")
    function = getattr(sys.modules[module], name, None)
    if not callable(function):
        raise ArgumentError(f"{place}: the module {module} has no function {name}")
    model = function()
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"{place}: expected a function that gives an nn.Module, got {type(model).__name__}")
    return Source(model.eval(), None, None, (), {})


def example_of(source: Source, inputs: Sequence[Input] = ()) -> Example:
    """Example inputs of the model: `inputs` with random values, or else items of the run's validation data.

    Raises:
        ConfigError: neither the data nor the config says what the model takes.
    """
    reason = ""
    if not inputs and source.run is not None:
        try:
            return Example(_called_with(source, _batch(source.run)), f"{_EXAMPLES} items of the validation data")
        except (BurnlikeError, OSError) as error:  # the data may be gone
            reason = f", as the data of the run can't be read ({' '.join(str(error).split())})"
    if not inputs and source.config is not None:
        implied = implied_inputs(source.config if source.training is None else source.training, source.config)
        inputs = [it._replace(shape=(_EXAMPLES, *it.shape[1:])) for it in implied]
    if not inputs:
        raise ConfigError("say by --input what the model is called with, such as --input float32[1,3,224,224]")
    torch.manual_seed(0)
    tensors: list[tuple[str, Tensor]] = []
    for spec in inputs:  # normal numbers, or small integers, which any vocabulary has, for at least two items
        dtype = getattr(torch, spec.dtype)
        shape = (max(spec.shape[0], _EXAMPLES), *spec.shape[1:]) if spec.shape else ()
        values = torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 2, shape)
        tensors.append((spec.name, values.to(dtype)))
    arguments = tuple(tensor for name, tensor in tensors if not name)
    named = {name: tensor for name, tensor in tensors if name}
    return Example(_bound(source, arguments, named), f"random values{reason}")


def _batch(run: LoadedRun) -> Any:
    data = transformed(run.read_data(), run.config.transforms)
    return batch_of(run.config, data.valid, data.batcher, [number % len(data.valid) for number in range(_EXAMPLES)])


class _Called(Exception):
    """The arguments of the first call of a model."""

    def __init__(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.keywords = arguments, keywords


def _called_with(source: Source, batch: Any) -> dict[str, Tensor]:
    """The tensors that the task calls the model with for a batch."""

    def note(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        raise _Called(arguments, keywords)

    handle = source.model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        assert source.task is not None
        source.task.valid_step(source.model, batch)
    except _Called as call:
        bound = _bound(source, call.arguments, call.keywords)
    else:
        kind = type(source.model).__name__
        raise ConfigError(f"the task never calls the forward of this {kind}: say by --input what it takes")
    finally:
        handle.remove()
    others = {name for name, it in bound.items() if it is not None and not isinstance(it, Tensor)} - {*_NOT_FOR_USE}
    if others:
        raise ConfigError(f"the task calls the model with {', '.join(sorted(others))}, which is no tensor")
    tensors = {name: it for name, it in bound.items() if isinstance(it, Tensor) and name not in _NOT_FOR_USE}
    least = min((it.shape[0] for it in tensors.values() if it.dim()), default=_EXAMPLES)
    repeats = -(-_EXAMPLES // max(least, 1))  # of packed texts a batch has fewer rows than items
    # Of a view torch.export would note what it is a view of.
    return {
        name: (torch.cat([it.detach()] * repeats) if it.dim() and repeats > 1 else it.detach()).clone(
            memory_format=torch.contiguous_format
        )
        for name, it in tensors.items()
    }


def called_parts(source: Source) -> dict[str, Tensor]:
    """The first tensor that each network of a model is called with by its task, for items of the validation data.

    Raises:
        ConfigError: the model is of no run, or the task calls a network with no tensor.
    """
    if source.run is None or source.task is None:
        raise ConfigError(
            "networks that a task calls one by one: export a run, whose data say what each is called with"
        )
    tensors: dict[str, Tensor] = {}

    def note(name: str) -> Any:
        return lambda _, arguments: tensors.setdefault(name, arguments[0].detach().clone())

    handles = [it.register_forward_pre_hook(note(name)) for name, it in source.model.named_children()]
    try:
        with torch.no_grad():
            source.task.valid_step(source.model, _batch(source.run))
    finally:
        for handle in handles:
            handle.remove()
    return tensors


def _bound(source: Source, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names in the signature of the forward, or in the config of a graph."""
    signature = inspect.signature(source.model.forward)
    names = source.config.inputs if isinstance(source.config, GraphConfig) else ()
    try:
        bound = signature.bind(*arguments, **keywords).arguments
    except TypeError as error:
        raise ArgumentError(f"{type(source.model).__name__} can't be called so: {error}") from error
    flat: dict[str, Any] = {}
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            flat |= {names[at] if at < len(names) else f"{name}_{at}": it for at, it in enumerate(value)}
        else:
            flat |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return flat
