"""The model that is exported, an example of what it is called with, and both as a `Program`, which exporters take.

A program has tensors by name in and out, of which the batch and the length of sequences may vary.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim

from ...config import ModuleConfig
from ...config.registry import tag_of
from ...config.root_keys import Input
from ...data import transformed
from ...data.sources.splits import outputs_of as outputs_of_classes
from ...errors import ArgumentError, BurnlikeError, ConfigError
from ...interop import merge_adapters
from ...interop.adapters.layers import adapted
from ...nn.containers.configs import GraphConfig
from ...record import load
from ..job.loaded_run import LoadedRun
from ..job.starting import RANKS, model_config
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
    tags = ("Normalize", "torchvision.Normalize")
    normalize = [(it.mean, it.std) for it in config.transforms if tag_of(type(it)) in tags]  # pyright: ignore[reportAttributeAccessIssue]
    about = {
        "run": str(run.path),
        "step": run.step,
        "weights": run.weights,
        "facts": {name: fact for name, fact in run.facts.items() if name not in ("classes", RANKS)},
    }
    model = run.task.export(run.model).to("cpu").eval()
    config_of_model = model_config(config, outputs_of_classes(run.classes, run.facts), run.facts)
    if adapted(model):
        merge_adapters(model)
    base = getattr(config_of_model, "with_new_tokens", config_of_model)
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
    """Example inputs of the model, in its dtype: `inputs` with random values, or else items of the run's
    validation data.

    Raises:
        ConfigError: neither the data nor the config says what the model takes.
    """
    example = _example_of(source, inputs)
    dtype = next((it.dtype for it in source.model.parameters() if it.is_floating_point()), torch.float32)
    return example._replace(
        inputs={name: it.to(dtype) if it.is_floating_point() else it for name, it in example.inputs.items()}
    )


def _example_of(source: Source, inputs: Sequence[Input]) -> Example:
    reason = ""
    if not inputs and source.run is not None:
        try:
            return Example(_called_with(source, _batch(source.run)), f"{_EXAMPLES} items of the validation data")
        except (BurnlikeError, OSError) as error:  # the data may be gone
            reason = f", as the data of the run can't be read ({' '.join(str(error).split())})"
    if not inputs and source.config is not None:
        implied = implied_inputs(source.config if source.training is None else source.training, source.config)
        inputs = [tensor._replace(shape=(_EXAMPLES, *tensor.shape[1:])) for tensor in implied]
    if not inputs:
        raise ConfigError("say by --input what the model is called with, such as --input float32[1,3,224,224]")
    torch.manual_seed(0)  # so that the same model gives the same file, checks and all
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

    # By an exception, since only the arguments are wanted: the model need not compute.
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
    tensors = {name: value for name, value in bound.items() if isinstance(value, Tensor) and name not in _NOT_FOR_USE}
    least = min((tensor.shape[0] for tensor in tensors.values() if tensor.dim()), default=_EXAMPLES)
    repeats = -(-_EXAMPLES // max(least, 1))  # of packed texts a batch has fewer rows than items
    # Of a view torch.export would note what it is a view of.
    return {
        name: (torch.cat([tensor.detach()] * repeats) if tensor.dim() and repeats > 1 else tensor.detach()).clone(
            memory_format=torch.contiguous_format
        )
        for name, tensor in tensors.items()
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

    handles = [child.register_forward_pre_hook(note(name)) for name, child in source.model.named_children()]
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


Outputs = dict[str, Tensor]


class Program(nn.Module):
    """Calls a model with tensors by name and gives the tensors of its result as a tuple.

    Attributes:
        input_names: the arguments, in order.
        output_names: the fields of the result, `output` where it is a tensor; known after the first call.
        normalizes: whether the first input of floats is normalized here, before the model.
        keeps_tensor: whether a result that is one tensor is given as it is, in place of a tuple of one.
    """

    def __init__(
        self, model: nn.Module, example: Mapping[str, Tensor], normalize: Sequence[tuple[Any, Any]] = ()
    ) -> None:
        super().__init__()
        self.model = model
        self.keeps_tensor = False
        self.input_names, self.output_names = [*example], [""]
        self.normalized = next((name for name, value in example.items() if value.is_floating_point()), None)
        dtype = next((it.dtype for it in model.parameters() if it.is_floating_point()), torch.float32)
        for number, pair in enumerate(normalize):
            for name, values in zip(("mean", "std"), pair, strict=True):
                shape = (-1, *(1,) * (example[self.normalized].dim() - 2)) if self.normalized else (-1,)
                tensor = torch.tensor(values).reshape(shape)
                self.register_buffer(f"{name}_{number}", tensor.to(dtype))
        self._count = len(normalize) if self.normalized else 0
        # torch.export and ONNX name the inputs by the signature.
        self.forward = with_signature(self._run, self.input_names)

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Any:
        """Names by which exporters can look modules up: `forwards` for the child `forward` of layers that read both
        ways, as the attribute `forward` is their method.
        """
        for path, module in super().named_modules(memo, prefix, remove_duplicate):
            yield ".".join("forwards" if it == "forward" else it for it in path.split(".")), module

    @property
    def normalizes(self) -> bool:
        return self._count > 0

    def _run(self, *arguments: Tensor, **keywords: Tensor) -> Tensor | tuple[Tensor, ...]:
        named = {**dict(zip(self.input_names, arguments, strict=False)), **keywords}
        if self._count and self.normalized is not None:
            for number in range(self._count):
                mean, std = getattr(self, f"mean_{number}"), getattr(self, f"std_{number}")
                named[self.normalized] = (named[self.normalized] - mean) / std
        # Inputs that a model takes by position only, `others_0` of a `*others`, and those before these.
        parameters = [*inspect.signature(self.model.forward).parameters.values()]
        rest = next((it.name for it in parameters if it.kind is inspect.Parameter.VAR_POSITIONAL), None)
        others = [it for it in named if rest is not None and it.startswith(f"{rest}_")]
        plain = [it.name for it in parameters if it.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        positional = [named.pop(it) for it in [*filter(named.__contains__, plain), *others]] if others else []
        result = self.model(*positional, **named)
        outputs = outputs_of(result)
        self.output_names[:] = [*outputs]
        return result if self.keeps_tensor and isinstance(result, Tensor) else tuple(outputs.values())


def with_signature(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function as one of arguments with these names."""
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, positional) for name in names]

    def forward(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    forward.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return forward


def outputs_of(output: Any, name: str = "output") -> Outputs:
    """The tensors of what a model gives, by the names of its fields."""
    if isinstance(output, Tensor):
        return {name: output}
    if isinstance(output, Mapping):
        pairs = [*output.items()]
    elif hasattr(output, "_fields"):
        pairs = [*zip(output._fields, output, strict=True)]
    elif is_dataclass(output):
        pairs = [(field.name, getattr(output, field.name)) for field in fields(output)]
    elif isinstance(output, tuple | list):
        pairs = [(f"{name}_{number}", it) for number, it in enumerate(output)]
    else:
        return {}
    return {key: it for first, value in pairs for key, it in outputs_of(value, str(first)).items()}


def program_of(model: nn.Module, example: Mapping[str, Tensor], normalize: Sequence[Any] = ()) -> Program:
    """The program of a model, which has been called once; a ConfigError if it gives no tensors."""
    config: Any = getattr(model, "config", None)
    if getattr(config, "use_cache", None) is True:
        config.use_cache = False  # else models of transformers give their caches with the result
    program = Program(model, example, normalize).eval()
    with torch.no_grad():
        if not program(**example):
            raise ConfigError(f"{type(model).__name__} gives no tensors for {', '.join(example)}")
    return program


def may_vary(example: Mapping[str, Tensor]) -> dict[str, dict[int, Any]]:
    """The dimensions that may have other sizes than in the example: batches, and sequences of integers or bools."""
    batch = max((value.shape[0] for value in example.values() if value.dim()), default=0)
    dims: dict[str, dict[int, Any]] = {}
    for name, tensor in example.items():
        has_batch = tensor.dim() > 0 and tensor.shape[0] == batch
        is_sequence = tensor.dim() > 1 and not tensor.is_floating_point()
        dims[name] = dict.fromkeys([*([0] if has_batch else []), *([1] if is_sequence else [])], Dim.AUTO)
    return dims


def others_of(example: Mapping[str, Tensor], dims: Mapping[str, Mapping[int, Any]]) -> dict[str, Tensor]:
    """An example with one item more and sequences one shorter, as far as `dims` may vary."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in example.items():
        if 0 in dims[name]:
            tensor = torch.cat((tensor, tensor[:1]))
        # The second token goes: the classifier of BART reads the last one, the end of each text.
        is_shorter = 1 in dims[name] and tensor.shape[1] > 1
        tensors[name] = torch.cat((tensor[:, :1], tensor[:, 2:]), 1) if is_shorter else tensor
    return tensors
