"""Learning rates by groups of parameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from ...errors import ArgumentError, ConfigError
from ...module import Param, ParamGroup, params

BASE = -1
"""Stands for what is in no group."""


@dataclass(frozen=True, slots=True)
class ModuleLearningRate:
    """The learning rates of one step: of parameters in no group, and one for each group; ArgumentError if these differ.

    Of several groups that accept a parameter the last one counts.
    """

    base: float
    groups: tuple[ParamGroup, ...] = ()
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.groups):
            raise ArgumentError(
                f"ModuleLearningRate: expected a rate for each of the {len(self.groups)} groups, got {len(self.rates)}"
            )

    def of(self, param: Param) -> float:
        return self.at(last_match(self.groups, param))

    def at(self, group: int) -> float:
        """The rate of the group with this place, or of those in none for BASE."""
        return self.base if group == BASE else self.rates[group]

    def check(self, module: nn.Module) -> None:
        """Raise ConfigError if a group matches no parameter of `module`."""
        check_groups(self.groups, params(module, "weight"), "the learning rates")


def checked_rate(rate: float) -> float:
    try:
        if 0 <= rate < math.inf:
            return float(rate)
    except TypeError:  # no number: refused below
        pass
    raise ArgumentError(f"expected a finite learning rate of at least 0, got {rate!r}; nothing was changed")


def last_match(groups: tuple[ParamGroup, ...], param: Param) -> int:
    """The place of the last group that accepts `param`; BASE if none does."""
    return next((place for place in reversed(range(len(groups))) if groups[place].matches(param)), BASE)


def check_groups(groups: Sequence[ParamGroup], weights: Sequence[Param], owner: str) -> None:
    """Raise ConfigError if a group matches no parameter; `owner` of the groups is for the message."""
    for place, group in enumerate(groups):
        if not any(group.matches(param) for param in weights):
            paths = ", ".join(param.path for param in weights[:5]) + (", ..." if weights[5:] else "")
            raise ConfigError(f"groups[{place}] of {owner} matches no parameter of the module ({paths}): {group}")
