"""A model as exporters take it: tensors by name in and out, of which the batch and the length of sequences may vary."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from ...errors import ConfigError

Outputs = dict[str, Tensor]


class Program(nn.Module):
    """Calls a model with tensors by name and gives the tensors of its result as a tuple.

    Attributes:
        input_names: the arguments, in order.
        output_names: the fields of the result, `output` where it is a tensor; known after the first call.
        normalizes: whether the first input of floats is normalized here, before the model.
    """

    def __init__(
        self, model: nn.Module, example: Mapping[str, Tensor], normalize: Sequence[tuple[Any, Any]] = ()
    ) -> None:
        super().__init__()
        self.model = model
        self.input_names, self.output_names = [*example], [""]
        self.normalized = next((name for name, it in example.items() if it.is_floating_point()), None)
        dtype = next((it.dtype for it in model.parameters() if it.is_floating_point()), torch.float32)
        for number, pair in enumerate(normalize):
            for name, values in zip(("mean", "std"), pair, strict=True):
                shape = (-1, *(1,) * (example[self.normalized].dim() - 2)) if self.normalized else (-1,)
                tensor = torch.tensor(values).reshape(shape)
                self.register_buffer(f"{name}_{number}", tensor.to(dtype))
        self._count = len(normalize) if self.normalized else 0
        # torch.export and ONNX name the inputs by the signature.
        self.forward = with_signature(self._run, self.input_names)

    @property
    def normalizes(self) -> bool:
        return self._count > 0

    def _run(self, *arguments: Tensor, **keywords: Tensor) -> tuple[Tensor, ...]:
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
        outputs = outputs_of(self.model(*positional, **named))
        self.output_names[:] = [*outputs]
        return tuple(outputs.values())


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
        pairs = [(it.name, getattr(output, it.name)) for it in fields(output)]
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
    batch = max((it.shape[0] for it in example.values() if it.dim()), default=0)
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
        tensors[name] = tensor[:, :-1].clone() if 1 in dims[name] and tensor.shape[1] > 1 else tensor
    return tensors
