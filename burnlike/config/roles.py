"""The roles that a config can play: each is an open union, filled by every tagged subclass.

A field annotated with one of these takes any registered subclass, picked by `type:`. Make your own role the same way:
an untagged subclass of `Config` without fields of its own.

    class Noise(Config): ...                 # a role: no tag, no fields

    class GaussianNoise(Noise, tag="Gaussian"):
        deviation: float = 1.0

    class CorruptedConfig(ModuleConfig["corrupted.Corrupted"], tag="Corrupted"):
        noise: Noise = GaussianNoise()       # `noise: {type: Gaussian, deviation: 0.5}` in YAML

    CorruptedConfig().init()                 # type checkers know that this is a `Corrupted`

Type checkers read `class ModuleConfig(Config, Generic[Built])`: the brackets bind `Built`, the result of `init`, to the
class of that name (the module is imported under `TYPE_CHECKING`). When the program runs, `Builds` is `Config` itself,
and the brackets say what to import (see `base.py`): with `Generic`, msgspec would bind the variable in every field.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import msgspec
import msgspec.inspect as mi
from msgspec import Meta
from typing_extensions import TypeVar

from burnlike._lazy import resolve
from burnlike.errors import ConfigError, Problem

from .base import Config, built
from .bounds import FROM_DATA, PER_LAYER
from .node import Tree
from .registry import ConfigType, fields_of, tag_of, types_in
from .root_keys import without_inputs

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Generic as Builds

    import torch
else:
    Builds = Config  # `Config[Built]` gives a role as a base, whatever stands in the brackets

Built = TypeVar("Built", default=Any, covariant=True)
"""The result of a config's `init`: `class LinearConfig(ModuleConfig["Linear"], ...)`."""

_MOST_LAYERS = 32_768
"""Of a module, those that repeated layers hold counted each time."""


class ModuleConfig(Config, Builds[Built]):
    """A config that builds a module.

    The class line says what `init` builds: a class (or a function) whose arguments are `config` and, if it has
    tensors, `device`. It is imported at the first call, so that a file of configs imports no torch. The name in
    brackets tells type checkers what `init` returns.

    Example:
        ```
        class LinearConfig(ModuleConfig["Linear"], tag="Linear", builds=".linear"):
            d_input: Annotated[int, Meta(ge=1)]
            d_output: Annotated[int, Meta(ge=1)]
            bias: bool = True
        ```
    """

    usual_outputs: ClassVar[int | None] = None
    """The number in the place of `Outputs` that neither the config nor data says; None where it has to be said."""

    def __post_init__(self) -> None:
        """Check the fields, and that layers within repeated layers are not beyond all use."""
        super().__post_init__()
        if (count := _layers(self)) > _MOST_LAYERS:
            message = f"makes {count:,} layers, those within repeated layers counted; expected at most {_MOST_LAYERS:,}"
            raise ConfigError.of([Problem(message, source=type(self).__name__)])

    @classmethod
    def from_tree(cls, tree: Tree) -> Self:
        """See `Config.from_tree`. At the root of a file, `inputs:` says what `check --shapes` runs the model with."""
        root, problems = without_inputs(tree.root, cls)
        return super().from_tree(Tree(root, [*tree.problems, *problems]))

    def init(self, device: "torch.device | str | None" = None) -> Built:
        """Build the module with its parameters initialized, on `device` (default: torch's default device).

        It is a DeviceError if this machine does not have the device.
        """
        if names := self._sizes_from_data:
            if self.usual_outputs is not None:
                return self.for_sizes(None, self.usual_outputs).init(device)
            raise ConfigError(
                f"{tag_of(type(self)) or type(self).__name__}: expected `{names[0]}`, how many classes or numbers the"
                f" model is to give, such as `{names[0]}: 10`. It may be left out only in a training whose data names"
                " its classes or targets; those of masks have no names"
            )
        if device is not None:
            device = resolve("burnlike.backend.torch_backend:named_device")(device)
        return built(self, "init(device)", device=device)

    def init_from(
        self, source: "str | os.PathLike[str] | Any", device: "torch.device | str | None" = None, **options: Any
    ) -> Any:
        """Build the module and fill it from a record or its file, running no initializer.

        The `options` are of `record.load`. It is a RecordError if a parameter is left without a value.
        """
        return resolve("burnlike.record:init_from")(self, source, device, **options)

    @property
    def input_counts(self) -> tuple[int, int | None] | None:
        """The least and the largest number of inputs (None: any number); None if the class does not say."""
        return None

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Inputs that the module takes, if they are known: element type and shape by the name of the argument."""
        return {}

    def for_task(self, head: str, classes: "Sequence[str] | None") -> "ModuleConfig":
        """The config completed by what a task needs: its `head` (see `TaskConfig.head`) and the classes of the data."""
        return self

    @property
    def lacks_sizes(self) -> bool:
        """True if the model can only be built after `for_sizes`."""
        return bool(self._sizes_from_data)

    @property
    def _sizes_from_data(self) -> "list[str]":
        """The fields of type `Outputs` that the data is to fill."""
        return [name for name in _fields_with(type(self), _is_of_data) if getattr(self, name) == FROM_DATA]

    def for_sizes(self, d_input: int | None, d_output: int | None) -> "ModuleConfig":
        """The config completed by the sizes of the data: features of an item, and numbers that the model gives; None
        where they are not known.
        """
        sizes = {} if d_output is None else dict.fromkeys(self._sizes_from_data, d_output)
        return self.replace(**sizes) if sizes else self

    def description(self, module: Any = None) -> "Mapping[str, bytes]":
        """Files that a run keeps, by their names in its directory, so that `without_weights` can build the model where
        those that the config names are gone. They say what a task has changed of the `module`.
        """
        return {}

    def without_weights(self, run: "Path") -> "ModuleConfig":
        """The config of a model whose weights a run has, by its directory: it reads none elsewhere, and other files
        from there if they are there: those of `description`, and those of the data in `data/`.
        """
        return self

    def part(self, name: str) -> "tuple[str, ModuleConfig] | None":
        """The config of the module's child `name`, if it has one, and its path in this config, such as `layers.0`."""
        return None


def _layers(value: Any) -> int:
    """The number of layers that a config makes: its numbers of layers, times what they repeat."""
    parts = msgspec.structs.astuple(value) if isinstance(value, Config) else value
    below = 0
    for part in parts.values() if isinstance(parts, dict) else parts:
        if isinstance(part, _WITH_PARTS):
            below += _layers(part)
    names = _fields_with(type(value), _counts_layers) if isinstance(value, Config) else []
    counts = [count for name in names if (count := getattr(value, name)) is not None] if names else []
    if not counts:
        return below + isinstance(value, ModuleConfig)
    return sum(sum(it) if isinstance(it, tuple | list) else it for it in counts) * max(below, 1)


@cache
def _fields_with(cls: ConfigType, has: Callable[[mi.Type], bool]) -> list[str]:
    """The fields that have, or have in their type, one of which `has` is true."""
    return [field.name for field in fields_of(cls).values() if any(map(has, types_in(field.type)))]


# Named functions, as `_fields_with` keeps its results by them: a lambda is another one at each call.
def _counts_layers(wanted: mi.Type) -> bool:
    return isinstance(wanted, mi.Metadata) and (wanted.extra or {}).get("reason") == PER_LAYER


def _is_of_data(wanted: mi.Type) -> bool:
    return isinstance(wanted, mi.LiteralType) and FROM_DATA in wanted.values


_WITH_PARTS = (Config, list, tuple, dict)


class OptimizerConfig(Config, Builds[Built]):
    """A config that builds an optimizer."""

    elsewhere: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("lr", "learning_rate"),
            "; the rate belongs to a step: TorchOptimizer(model, AdamWConfig(), lr=1e-3), optimizer.step(1e-3, model,"
            " grads), or `lr_scheduler:` of a training",
        ),
        "betas": "; they are beta_1 and beta_2",
        "eps": "; it is epsilon",
    }
    """For names that torch's optimizers have, where to say it here."""

    def init(self) -> Built:
        """Build the optimizer, a `burnlike.optim.OptimizerAdaptor`, with an empty state."""
        return built(self, "init()")


class LrSchedulerConfig(Config, Builds[Built]):
    """A config that builds a learning rate schedule."""

    def init(self, num_iters: int | None = None) -> Built:
        """Build the schedule for a run of `num_iters` optimizer steps, None where that isn't known."""
        return built(self, "init(num_iters)", num_iters=num_iters)


class DatasetConfig(Config, Builds[Built]):
    """A config that builds a data set."""

    def init(self, *args: Any, **kwargs: Any) -> Built:
        """Build the data set; each class says what it takes."""
        return built(self, "init()")

    def init_with(self, facts: "Mapping[str, Any]", directory: "Path") -> Built:
        """Build the data set by what a run has learned of its training data, such as the numbers of classes and means.

        Arguments as of `unlabeled`: the target of the class line gets those that it takes.
        """
        if type(self).init is not DatasetConfig.init:
            return self.init()
        return built(self, "init()", facts=facts, directory=directory)

    def unlabeled(self, sources: "Sequence[Any]", facts: "Mapping[str, Any]", directory: "Path") -> Any:
        """Read new inputs for predictions, as a `burnlike.data.sources.splits.Unlabeled`.

        Args:
            sources: paths of files or directories, and a text stream for standard input.
            facts: the content of the run's data.json, with its `classes`.
            directory: of the files that the run keeps of its data, such as a tokenizer.
        """
        raise ConfigError(f"data: {type(self).__name__.removesuffix('Config')} can't read inputs without targets")

    def codec(self, facts: "Mapping[str, Any]", directory: "Path") -> Any:
        """The tokenizer of the training, for generating: text to tokens and back; arguments as of `unlabeled`."""
        raise ConfigError(f"data: {type(self).__name__.removesuffix('Config')} has no text to generate")


class TransformConfig(Config, Builds[Built]):
    """A config that makes one data set of another.

    Attributes:
        parts: the items that it changes: those to train on, and those to measure on (`valid`, and others such as
            `test`).
    """

    parts: Annotated[tuple[Literal["train", "valid"], ...], Meta(min_length=1)] = ("train", "valid")

    def init(self, dataset: Any) -> Built:
        """Build the data set whose items are made of those of `dataset`."""
        return built(self, "init(dataset)", dataset=dataset)

    def item_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an item's input, where it was `shape` before."""
        return shape


class TaskConfig(Config, Builds[Built]):
    """A config of a task that a model is trained for: the forward pass, the loss, and what is done at the end.

    Attributes:
        head: the end that a model of another library needs for it, as transformers calls it: `SequenceClassification`,
            `CausalLM`, ...; empty for none.
    """

    head: ClassVar[str] = ""

    def init(self) -> Built:
        """Build the task, which has `train_step(model, batch)` and `valid_step(model, batch)`."""
        return built(self, "init()")


class StrategyConfig(Config, Builds[Built]):
    """A config that says how several processes, which a launcher has started, train one model."""

    is_single: ClassVar[bool] = False
    """True if one process trains, without a launcher."""
    is_replicated: ClassVar[bool] = False
    """True if each process has the whole of each parameter that no other size divides."""
    options: ClassVar[frozenset[str]] = frozenset()
    """The options of a `DistributedConfig` that it has, such as `offload` and `precision.params`."""

    def init(self, device: "torch.device", store: Any = None) -> Built:
        """Build the Learner's interface to the processes, a `burnlike.train.SingleProcess`, in their process group."""
        return built(self, "init(device)", device=device, store=store)


class LoggerConfig(Config, Builds[Built]):
    """A config that builds a callback which sends metrics to another program."""

    def init(self) -> Built:
        """Build the callback, a `burnlike.train.Callback`."""
        return built(self, "init()")


class MetricConfig(Config, Builds[Built]):
    """A config that builds a metric: a value of all predictions and targets of an epoch.

    Attributes:
        name: what the metric is called; None: its own name.
        higher_is_better: whether high values are good, for `keep_best` and `early_stopping`; None: not known.
    """

    higher_is_better: ClassVar[bool | None] = None
    name: Annotated[str, Meta(min_length=1)] | None = None

    def for_classes(self, classes: "Sequence[str] | None") -> "MetricConfig":
        """The config completed by the names of the data's classes, or of its targets where these are numbers; here they
        do not matter.
        """
        return self

    def init(self) -> Built:
        """Build the metric, a `torchmetrics.Metric` that has seen no batch; a ConfigError without that package."""
        try:
            return built(self, "init()")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "torchmetrics":
                raise
            kind = type(self).__name__.removesuffix("Config")
            raise ConfigError(f"{kind} needs the package torchmetrics: pip install 'burnlike[train]'") from error
