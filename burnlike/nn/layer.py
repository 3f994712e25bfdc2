"""The bases of layers, and the check of their inputs' shapes."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, get_args, get_type_hints

import torch
from torch import Tensor, nn

from .._torch_compat.compiler import is_exporting
from ..config import Config
from ..config.registry import fields_of, tag_of
from ..errors import ArgumentError, ShapeError
from ..module import Content, DisplaySettings, Module, ModuleEnum
from ..tensor.torch_bridge.torch_function import lift
from .call_types import KeepsType


class FromConfig:
    """A layer that is made of its config: without one of that with its defaults, and of nothing else."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = _of_config(cls.__init__)


def _of_config(init: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of a layer, which refuses what is no config in the words of one who looks for Burn's `new`."""
    if [*inspect.signature(init).parameters][1:2] != ["config"]:
        return init

    @functools.wraps(init)
    def made(layer: Any, config: Any = None, *others: Any, **named: Any) -> None:
        if type(layer).__init__ is made and (kinds := _configs_of(init) or _configs_in(type(layer))):
            if config is None and len(kinds) == 1 and not any(value.required for value in fields_of(kinds[0]).values()):
                config = kinds[0]()
            if not any(isinstance(config, kind) or _has_fields(config, kind) for kind in kinds):
                name = kinds[0].__name__
                required = ", ".join(value.name for value in fields_of(kinds[0]).values() if value.required)
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise ArgumentError(
                    f"{type(layer).__name__}: expected a {expected}, got {config!r:.60}; write"
                    f" {name}({required}).init(device)"
                )
        init(layer, config, *others, **named)

    return made


@functools.cache
def _configs_of(init: Callable[..., None]) -> Sequence[type[Config]]:
    """The configs that an `__init__` is annotated with."""
    hint = get_type_hints(init).get("config")
    kinds = get_args(hint) or (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)]


def _configs_in(kind: type) -> Sequence[type[Config]]:
    """The config of a `ConfiguredLayer`, if it has fields."""
    config: type[Config] = getattr(kind, "_config", Config)
    return [config] if config.__struct_fields__ else []


def _has_fields(config: Any, kind: type[Config]) -> bool:
    return all(hasattr(config, name) for name in kind.__struct_fields__) and bool(kind.__struct_fields__)


class Layer(FromConfig, Module):
    """A Module on one line when displayed, as in Burn. An input of other sizes than `forward` says is a ShapeError."""

    def custom_settings(self) -> DisplaySettings:
        return DisplaySettings(new_line_after_attribute=False)


class ConfiguredLayer(Layer):
    """A layer whose attributes are the fields of its config, under the same names, and which displays them.

    Example:
        ```
        class Elu(ConfiguredLayer, config=EluConfig):
            alpha: float
        ```
    """

    _config: ClassVar[type[Config]] = Config

    def __init_subclass__(cls, config: type[Config] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._config = config or cls._config

    def __init__(self, config: Any = None) -> None:
        """Make the layer of its config; None is the config with its defaults."""
        super().__init__()
        config = self._config() if config is None else config
        for name in self._config.__struct_fields__:
            setattr(self, name, getattr(config, name))

    def custom_content(self, content: Content) -> Content:
        for name in self._config.__struct_fields__:
            content.add("lambda" if name == "lambd" else name, getattr(self, name))  # a keyword of Python
        return content


class OfEachElement(KeepsType, ConfiguredLayer):
    """A layer that computes `operation` of each element, or another `forward` of the same kind."""

    operation: ClassVar[Callable[[Tensor], Tensor]]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return type(self).operation(x)


class ChosenLayer(ModuleEnum):
    """One of several layers, as a field of others; which one is part of the record."""

    @classmethod
    def of(cls, config: Any, device: torch.device | str | None = None) -> Self:
        """The layer of `config`. Raises ArgumentError if its class has no tag, by which the variant is called."""
        name = tag_of(type(config))
        if name is None:
            raise ArgumentError(f"{cls.__name__}: expected a config whose class has a tag, got {type(config).__name__}")
        return cls(**{cls._variant(name): config.init(device)})

    @staticmethod
    def _variant(tag: str) -> str:
        return tag

    def forward(self, x: Tensor) -> Tensor:
        """As the layer that it is."""
        return self.value(x)


def divided_sequences(name: str, layers: nn.Module) -> dict[str, str]:
    """The plan of a stack of layers, a list that is called `name`: between them processes share each sequence."""
    paths = [f"{name}.{number}" for number in layers._modules]
    if not paths:
        return {}
    if len(paths) == 1:
        return {paths[0]: "sequence_begin sequence_end"}
    return {paths[0]: "sequence_begin", paths[-1]: "sequence_end"}


def torch_name(name: str, size: int | None = None) -> Any:
    """A property under torch's name of an attribute, or of a size of it, for programs that know torch's layer."""
    if size is not None:
        return property(lambda layer: getattr(layer, name).shape[size])
    return property(lambda layer: getattr(layer, name), lambda layer, value: setattr(layer, name, value))


def exports_to_onnx() -> bool:
    """True if the present code is being exported to ONNX, which does not have the native ops."""
    return is_exporting() and torch.onnx.is_in_onnx_export()


def expect_shape(layer: object, x: Tensor, *sizes: int | str, name: str = "") -> None:
    """Check the shape of a layer's input before anything is computed.

    Each of `sizes` is a number, or the name of a size that may be any; `"..."` as the first or the last stands for any
    number of dimensions. Raises ShapeError such as `Conv2d: expected [batch, 3, height, width], got [8, 1, 28, 28]`.
    """
    shape, last = x.shape, len(sizes)
    if sizes[0] == "...":
        fits, start, offset = len(shape) >= last - 1, 1, len(shape) - last
    elif sizes[-1] == "...":
        fits, start, offset, last = len(shape) >= last - 1, 0, 0, last - 1
    else:
        fits, start, offset = len(shape) == last, 0, 0
    if fits:
        for index in range(start, last):
            size = sizes[index]
            if type(size) is not str and shape[offset + index] != size:
                break
        else:
            return
    raise shape_error(layer, f"[{', '.join(map(str, sizes))}]", list(shape), name=name)


def shape_error(layer: object, expected: str, got: Any, name: str = "") -> ShapeError:
    place = f"{type(layer).__name__}: {name}: " if name else f"{type(layer).__name__}: "
    return ShapeError(f"{place}expected {expected}, got {got}")
