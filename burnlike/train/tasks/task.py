"""Task: the loss that a model is trained for; and fine-tuning, which trains only adapters for another task."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ...errors import ConfigError, DataError
from ...module import apply_lora, materialize, valid
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import own_class, unwrap
from ...nn.containers.containers import Graph
from ...ops._divided import divided_logits
from ..learner.steps import StepOutput
from ..parallel.single_process import SingleProcess
from .configs import LoraFineTuningConfig

if TYPE_CHECKING:
    from ..job.job import Job


class Task:
    """The forward pass and the loss of a batch, and hooks of a job before and after the training.

    A subclass defines `train_step`; the rest has defaults. In YAML it is named by a `TaskConfig` whose `init` makes it.

    Attributes:
        unit: what `StepOutput.size` counts, in the plural; rates are shown by it.
        uncounted: what is said where nothing counted in a validation, so that it has no loss.
    """

    unit = "items"
    uncounted = "no target counted"

    def prepare(self, model: nn.Module) -> nn.Module:
        """Change the model before its optimizer is made, and return it; here nothing is changed."""
        return model

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        """Receive the facts of the data, with its `classes`, before the first step; ignored by default."""

    def begin_step(self, step: int) -> None:
        """Be told before each batch how many optimizer steps were taken; here it does not matter."""

    def training_state(self) -> dict[str, Any]:
        """Plain values and tensors that a resumed training needs; none by default."""
        return {}

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a `training_state`; here there is none."""

    def take_data(self, data: Any) -> None:
        """Be shown the data to train on before the first step, or that which an evaluation measures; here it is not
        needed.
        """

    def take_training_data(self, data: Any) -> None:
        """Be shown the data to train on alone, after `take_data`, such as to count classes; here it is not needed."""

    def try_out(self, model: nn.Module, parallel: SingleProcess | None = None) -> None:
        """Refuse a model, with its first weights, that can't be trained on the data; here nothing is tried.

        Args:
            parallel: the processes that have the model together, in a pipeline; all call it.
        """

    def start(self, job: "Job", directory: Path) -> None:
        """Be called in the directory of a run while the model has its first weights, also of one that is resumed."""

    def recall(self, data: Any, directory: Path) -> bool:
        """Give the items of a run's own data what the run has kept of them; False where that is nothing."""
        return False

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        """The result of a training batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define train_step(model, batch)")

    def valid_step(self, model: nn.Module, batch: Any) -> StepOutput:
        """The result of a batch that the model is measured on; here as in training."""
        return self.train_step(model, batch)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Predictions of the model for a batch whose targets are placeholders: for each item, values by their column.

        Values are plain; a tensor `[height, width]` of integers is a mask. `facts` are those of the run's data, with
        its `classes`.
        """
        raise ConfigError(f"task: {type(self).__name__} has no predictions; it does not define predict")

    def export(self, model: nn.Module) -> nn.Module:
        """The module whose record is written at the end; here the model itself."""
        return model

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """Notes on the trained model, read back from its record, by label; values are numbers or text."""
        return {}

    def describe(self, values: Mapping[str, Mapping[str, float]], notes: Mapping[str, Any]) -> list[str]:
        """Lines for a person of what `finish` gave, and of the loss and metrics of each split."""
        return [f"{label:<17}{value}" for label, value in notes.items()]


class MeasuredTask(Task):
    """A task that measures otherwise than it trains: targets are not smoothed, losses not weighed, draws fixed."""

    config: Any

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        return self.step(model, batch, is_training=True)

    def valid_step(self, model: nn.Module, batch: Any) -> StepOutput:
        return self.step(model, batch, is_training=False)

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        """The result of a batch that the model is trained or measured on."""
        raise NotImplementedError(f"{type(self).__name__} does not define step(model, batch, is_training)")

    def smoothing(self, *, is_training: bool) -> float:
        """The share of the targets that is spread over all classes."""
        return self.config.label_smoothing if is_training else 0.0


class PaddedTask(Task):
    """A task of whole items, for which models of transformers may look for the last token of a text by its padding."""

    padding: int | None = None
    """The token that texts are filled up with, as the data says it."""
    problem_type: str | None = None
    """The name of the task in a config of transformers, by which its pipelines turn logits into numbers."""

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        self.padding = facts.get("padding")

    def prepare(self, model: nn.Module) -> nn.Module:
        """Let the config of a model of transformers name the task, and the token that the data is padded with, where
        the model looks for it.
        """
        config: Any = getattr(model, "config", None)
        text = config.get_text_config() if callable(getattr(config, "get_text_config", None)) else None
        places_by_padding = any(hasattr(module, "create_position_ids_from_input_ids") for module in model.modules())
        if text is not None and self.padding is not None and hasattr(text, "pad_token_id") and not places_by_padding:
            text.pad_token_id = self.padding
        if text is not None:
            config.problem_type = self.problem_type
        return model


def batch_text(batch: Any) -> str:
    """The kind of a batch, in an error."""
    return f"a mapping of {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__


def inputs_and_targets(batch: Any, target: str = "labels") -> tuple[Any, Any]:
    """The two parts of a batch: a pair, or a mapping in which the target has a name of its own."""
    if isinstance(batch, Mapping):
        if target not in batch:
            raise DataError(f"expected '{target}' among the entries of a batch, got {', '.join(map(str, batch))}")
        inputs, targets = {name: value for name, value in batch.items() if name != target}, batch[target]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, targets = batch
    else:
        pair = f"(inputs, targets) or a mapping with '{target}'"
        raise DataError(f"expected batches of inputs and targets, {pair}, got {type(batch).__name__}")
    if _is_text(targets):
        raise DataError(
            f"data: expected numbers as the targets of a batch, got text such as {targets[0]!r:.40}; number the classes"
            " first (of Hugging Face's data sets: dataset.class_encode_column)"
        )
    return inputs, targets


def inputs_of(batch: Any, target: str = "labels") -> Any:
    """The model's arguments from a batch whose target is a placeholder or missing."""
    if isinstance(batch, Tensor):
        return batch
    if isinstance(batch, Mapping) and target not in batch:
        return dict(batch)
    return inputs_and_targets(batch, target)[0]


def call(model: nn.Module, inputs: Any) -> Any:
    """The model's result: a mapping becomes keyword arguments, a tuple several arguments.

    Tokens in the names of transformers are given to models of burnlike under theirs, and as the only input of a model
    with one, such as a `Sequential`. Where texts are padded is for models that take it, and entries that say something
    about tokens to a task, such as `word_ids`, are for no model.
    """
    if isinstance(inputs, Mapping):
        inputs = _entries_for(model, inputs)
    named = inputs if isinstance(inputs, Mapping) else {"": inputs}
    texts = {name: value for name, value in named.items() if _is_text(value)}
    try:
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, tuple) and not texts else model(inputs)
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        for name, value in texts.items():
            what = f"'{name}'" if name else "the inputs of a batch"
            raise DataError(
                f"data: expected numbers as {what}, got text such as {value[0]!r:.40}, which {type_text(model)}"
                " does not take; turn it into tokens first (of Hugging Face's data sets: dataset.map(tokenizer)), and"
                " name their column in data.columns"
            ) from error
        if isinstance(inputs, Mapping) and isinstance(error, TypeError) and "unexpected keyword argument" in str(error):
            raise DataError(
                f"data: batches have {', '.join(inputs)} by name, and {type_text(model)} does not take these: use a"
                " model that does, such as TextClassifier, Pretrained, or a Graph with `inputs:` of these names"
            ) from error
        raise


def _entries_for(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """The entries of a batch that a model takes, under its names; tokens alone where it has one unnamed input."""
    module = unwrap(model)
    parameters = module.input_names if isinstance(module, Graph) else parameters_of(own_class(module).forward)
    takes_all = REST in parameters
    left_out = _OF_TASKS if takes_all else (*_OF_TASKS, *_OF_PADDING)
    if "input_ids" not in parameters and not takes_all:
        inputs = {_OWN_NAMES.get(name, name): value for name, value in inputs.items()}
    inputs = {name: value for name, value in inputs.items() if name in parameters or name not in left_out}
    return {parameters[0]: inputs["tokens"]} if len(parameters) == 1 and [*inputs] == ["tokens"] else inputs


REST = "**"
_OF_TASKS = ("words", "word_ids", "special_tokens_mask", "offset_mapping")
_OF_PADDING = ("attention_mask", "token_type_ids", "token_types")
_OWN_NAMES = {"input_ids": "tokens", "token_type_ids": "token_types", "decoder_input_ids": "decoder_tokens"}


# Once for a class: it is asked for each batch.
@cache
def parameters_of(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what the `forward` of a class takes; `REST` among them where it takes any name."""
    _, *parameters = inspect.signature(forward).parameters.values()
    return tuple(REST if parameter.kind is parameter.VAR_KEYWORD else parameter.name for parameter in parameters)


def _is_text(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(it, str) for it in value)


def logits_for_loss(model: nn.Module, inputs: Any) -> Tensor:
    """The logits of a model, a DTensor where processes share its head: for losses, which need not gather them."""
    with divided_logits():
        return logits_of(call(model, inputs))


def logits_of(output: Any) -> Tensor:
    """The logits of a model's result: itself, or its `logits`, as models of transformers have them."""
    return output if isinstance(output, Tensor) else output.logits


_WEIGHTS_OF_BALANCE = ("router_aux_loss_coef", "aux_loss_coef")


def added_loss(model: nn.Module, output: Any) -> Tensor | None:
    """Terms of a transformers model's own training loss beside cross-entropy: the balance of its experts
    (`output_router_logits`), or the squared sums of its logits (`z_loss_coefficient`); None for none.

    Raises:
        ConfigError: there is such a term, and it is not known how it is weighed.
    """
    if not model.training or isinstance(output, Tensor):
        return None
    module = unwrap(model)
    config: Any = getattr(module, "config", None)
    text = config.get_text_config() if callable(getattr(config, "get_text_config", None)) else config
    balance = getattr(output, "aux_loss", None)
    weights = [getattr(it, name, None) for it in (module, text) for name in _WEIGHTS_OF_BALANCE]
    weight = next((it for it in weights if it is not None), None)
    # Encoders and decoders weigh several terms, which they only compute with labels.
    is_pair = getattr(config, "is_encoder_decoder", False) and getattr(config, "output_router_logits", False)
    if is_pair or (isinstance(balance, Tensor) and weight is None):
        raise ConfigError(
            f"model: the loss of {type_text(module)} has the balance of its experts beside cross-entropy, which"
            " this task does not know how to weigh; set output_router_logits to false (model.options), or define"
            " train_step in a task of your own"
        )
    added = []
    if isinstance(balance, Tensor) and weight is not None:
        added.append(weight * balance.to(output.logits.device))
    if (weight := getattr(module, "z_loss_coefficient", 0.0)) > 0:
        added.append(weight * output.logits.logsumexp(-1).float().square().mean())
    return sum(added[1:], added[0]) if added else None


class LoraFineTuning(Task):
    """Trains only low-rank adapters, for another task."""

    def __init__(self, config: LoraFineTuningConfig) -> None:
        self.config = config
        self.task: Task = config.task.init()
        self.unit, self.uncounted = self.task.unit, self.task.uncounted

    def prepare(self, model: nn.Module) -> nn.Module:
        return apply_lora(self.task.prepare(model), self.config.lora)

    def export(self, model: nn.Module) -> nn.Module:
        """The model with its adapters, or a view of it in which they are added to the weights."""
        return materialize(valid(model)) if self.config.merge else model


def _of_inner_task(hook: str) -> Any:
    def call(self: LoraFineTuning, *arguments: Any, **named: Any) -> Any:
        return getattr(self.task, hook)(*arguments, **named)

    return call


# All but `prepare` and `export` is the inner task's matter; a hook that Task gets is one of these, too.
for _hook in vars(Task).keys() - vars(LoraFineTuning).keys():
    if callable(getattr(Task, _hook)):
        setattr(LoraFineTuning, _hook, _of_inner_task(_hook))
