"""Functions that give answers rewards, for the task `Grpo`: ready ones, and those of a program."""

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..._lazy import resolve
from ...errors import ConfigError
from .grpo_configs import ExactAnswerConfig, FormatConfig, LengthConfig, RewardFunctionConfig, RewardModelConfig
from .preferences import rewards_of

Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options", bound=RewardFunctionConfig)


class Answers(NamedTuple):
    """Answers to prompts, one entry each.

    Attributes:
        rows: of the data.
        messages: of the prompts.
        texts: of the answers.
        tokens: of the answers, `[n]` int64, with the one that ends an answer.
    """

    rows: Sequence[Mapping[str, Any]]
    messages: Sequence[Sequence[Mapping[str, Any]]]
    texts: Sequence[str]
    tokens: Sequence[Tensor]

    @property
    def conversations(self) -> list[list[Mapping[str, Any]]]:
        """The messages of each prompt and its answer."""
        answers = ({"role": "assistant", "content": text} for text in self.texts)
        return [[*prompt, answer] for prompt, answer in zip(self.messages, answers, strict=True)]

    def arguments(self, names: Sequence[str] | None) -> dict[str, Any]:
        """The arguments of a function of rewards, by their names; all that there are for None."""
        columns = {name: [row.get(name) for row in self.rows] for row in self.rows for name in row}
        columns |= {"completions": [*self.texts], "completion_ids": [token.tolist() for token in self.tokens]}
        columns |= {"prompts": [*self.messages], "conversations": self.conversations}
        return columns if names is None else {name: columns[name] for name in names if name in columns}


def reward_function(function: Function) -> Function:
    """Make a function known as `rewards: [{type: its_name}]`; returns the function.

    It gets lists with one entry for each answer by the names of its arguments: `completions` (texts), `completion_ids`
    (lists of tokens), `prompts` (lists of messages), `conversations` (prompts with their answers), and any column of
    the data; all of them if it takes `**columns`. It returns as many numbers; None for an answer that it says nothing
    of.

    Example:
        >>> @reward_function
        ... def brevity(completions):
        ...     return [-len(it) / 100 for it in completions]
    """

    class FunctionConfig(RewardFunctionConfig, tag=function.__name__):
        __doc__ = function.__doc__

        def init(self) -> Callable[..., Any]:
            return function

    FunctionConfig.__qualname__ = FunctionConfig.__name__ = f"{function.__name__}Config"
    FunctionConfig.__module__ = function.__module__
    _CONFIGS.append(FunctionConfig)
    return function


_CONFIGS: list[type[RewardFunctionConfig]] = []
"""Configs of functions, which the registry of types has by weak references alone."""


def rewards_by(functions: Mapping[str, Callable[..., Any]], answers: Answers) -> Tensor:
    """The reward of each answer by each function, float32 `[n, functions]`; NaN where a function says nothing."""
    columns = [_numbers(name, function, answers) for name, function in functions.items()]
    return torch.tensor(columns, dtype=torch.float32).T.contiguous()


def _numbers(name: str, function: Callable[..., Any], answers: Answers) -> list[float]:
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(it.kind is inspect.Parameter.VAR_KEYWORD for it in parameters)
    arguments = answers.arguments(None if takes_any else [it.name for it in parameters])
    for parameter in parameters:
        needs_value = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if needs_value and parameter.name not in arguments:
            raise ConfigError(f"task.rewards: {name} wants the column '{parameter.name}', which the data lacks")
    values = function(**arguments)
    values = values.tolist() if hasattr(values, "tolist") else [*values] if isinstance(values, Sequence) else values
    if not isinstance(values, list) or len(values) != len(answers.texts):
        got = f"{len(values)} of them" if isinstance(values, list) else type(values).__name__
        raise ConfigError(f"task.rewards: expected a list of {len(answers.texts)} numbers of {name}, got {got}")
    for value in values:
        if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
            raise ConfigError(f"task.rewards: expected finite numbers, or None, of {name}, got {value!r:.40}")
    return [math.nan if it is None else float(it) for it in values]


class _OfConfig(Generic[Options]):
    def __init__(self, config: Options) -> None:
        self.config = config


class Format(_OfConfig[FormatConfig]):
    """See `FormatConfig`."""

    def __call__(self, completions: Sequence[str]) -> list[float]:
        return [float(self._fits(completion)) for completion in completions]

    def _fits(self, text: str) -> bool:
        text = text.strip()
        for tag in self.config.tags:
            begin, end = f"<{tag}>", f"</{tag}>"
            if not text.startswith(begin) or text.count(begin) != 1 or text.count(end) != 1:
                return False
            inside, _, text = text.removeprefix(begin).partition(end)
            text = text.lstrip()
            if not inside.strip():
                return False
        return not text


class ExactAnswer(_OfConfig[ExactAnswerConfig]):
    """See `ExactAnswerConfig`."""

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float | None]:
        if self.config.column not in columns:
            raise ConfigError(
                f"task.rewards: ExactAnswer wants the column '{self.config.column}', which the data lacks"
            )
        right = columns[self.config.column]
        return [
            None if value is None else float(_are_equal(self._taken(it), str(value)))
            for it, value in zip(completions, right, strict=True)
        ]

    def _taken(self, text: str) -> str:
        if self.config.after is not None and self.config.after in text:
            text = text.rpartition(self.config.after)[2]
        return text if self.config.before is None else text.partition(self.config.before)[0]


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def _are_equal(text: str, right: str) -> bool:
    """True for the same text, but for space around it, or the same finite number."""
    one, other = text.strip(), right.strip()
    if one == other:
        return True
    try:
        return float(_THOUSANDS.sub("", one)) == float(_THOUSANDS.sub("", other))
    except ValueError:
        return False


class Length(_OfConfig[LengthConfig]):
    """See `LengthConfig`."""

    def __call__(self, completion_ids: Sequence[Sequence[int]]) -> list[float]:
        least = self.config.most - self.config.soft
        return [0.0 - min(max(len(it) - least, 0) / self.config.soft, 1.0) for it in completion_ids]


class RewardModel(_OfConfig[RewardModelConfig]):
    """See `RewardModelConfig`."""

    @cached_property
    def _run(self) -> Any:
        return resolve("burnlike.train:load_run")(self.config.run)

    def __call__(self, conversations: Sequence[Sequence[Mapping[str, Any]]]) -> list[float]:
        return rewards_of(self._run, conversations).tolist()
