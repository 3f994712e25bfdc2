"""RuleSet: which rule, clipping and rate each parameter of an optimizer has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ...errors import ConfigError
from ...module import ParamGroup, ParamId, params
from ..gradients.clipping import needs_norms
from ..gradients.configs import ClipByGlobalNorm, GradientClipping
from ..schedules.learning_rates import BASE, check_groups, last_match
from .config_base import CANNOT_ROUND
from .simple_optimizer import SimpleOptimizer


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """Parameters that are updated by a rule of their own.

    Attributes:
        grad_clipping: None: as those of the base, with which they then share a global norm.
        lr_factor: what the learning rate of a step is multiplied by, >= 0 and finite.
    """

    params: ParamGroup
    optimizer: SimpleOptimizer[Any]
    grad_clipping: GradientClipping | None = None
    lr_factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.lr_factor < math.inf:
            raise ConfigError(f"OptimizerGroup: lr_factor: expected a finite number >= 0, got {self.lr_factor}")


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rule of parameters in no group, None if there may be none, and the groups; the last that matches counts.

    A group is meant by its place, the base by BASE. `grad_clipping` is also that of groups without one of their own.
    """

    base: SimpleOptimizer[Any] | None
    grad_clipping: GradientClipping | None = None
    groups: tuple[OptimizerGroup, ...] = ()

    @property
    def group_params(self) -> tuple[ParamGroup, ...]:
        return tuple(group.params for group in self.groups)

    @property
    def rules(self) -> Sequence[SimpleOptimizer[Any]]:
        return [it for it in (self.base, *(group.optimizer for group in self.groups)) if it is not None]

    @property
    def is_collective(self) -> bool:
        """True if steps of parameters that are divided among ranks wait for the other ranks."""
        clippings = (self.grad_clipping, *(group.grad_clipping for group in self.groups))
        return any(map(needs_norms, clippings)) or not all(rule.elementwise for rule in self.rules)

    def rule(self, group: int) -> SimpleOptimizer[Any]:
        rule = self.base if group == BASE else self.groups[group].optimizer
        assert rule is not None, "check() has refused parameters without a rule"
        return rule

    def rule_of(self, param_id: ParamId, path: str | None) -> SimpleOptimizer[Any]:
        for group in reversed(self.groups):
            if group.params.matches_id_path(param_id, path):
                return group.optimizer
        if self.base is None:
            raise self._without_rule(path or str(param_id))
        return self.base

    def clipping(self, group: int) -> GradientClipping | None:
        clipping = None if group == BASE else self.groups[group].grad_clipping
        return self.grad_clipping if clipping is None else clipping

    def norm(self, group: int) -> str | int:
        """The key of a group's norm: the name of its clipping, or the group that has the clipping."""
        clipping = self.clipping(group)
        if isinstance(clipping, ClipByGlobalNorm) and clipping.group is not None:
            return clipping.group
        return BASE if group == BASE or self.groups[group].grad_clipping is None else group

    def lr_factor(self, group: int) -> float:
        return 1.0 if group == BASE else self.groups[group].lr_factor

    @property
    def norms(self) -> list[str | int]:
        """The keys of all norms of more than one gradient, in an order of their own."""
        groups = (BASE, *range(len(self.groups)))
        # From the groups, not from the batches of a step: all stages of a pipeline have to add up as many sums, in one
        # order.
        norms = [self.norm(group) for group in groups if isinstance(self.clipping(group), ClipByGlobalNorm)]
        return [*dict.fromkeys(norms)]

    def check(self, module: nn.Module, *, is_whole: bool = True) -> None:
        """Raise ConfigError for a module, or a stage of one, that these rules can't train."""
        weights = params(module, "weight")
        if is_whole:
            check_groups(self.group_params, weights, "the optimizer")
        for param in weights:
            place = last_match(self.group_params, param)
            if place == BASE and self.base is None:
                raise self._without_rule(param.path)
            if param.trainable:
                self.rule(place).check_parameter(param.path, param.tensor)

    def check_stochastic(self) -> None:
        if unable := [type(rule).__name__ for rule in self.rules if not rule.fused]:
            raise ConfigError(f"stochastic_rounding: {CANNOT_ROUND.format(', '.join(unable))}")

    def _without_rule(self, path: str) -> ConfigError:
        return ConfigError(
            f"the parameter '{path}' is in no group of the optimizer; put a group of all parameters in front of the"
            " others (match: [{type: All}]), or give the optimizer a base rule"
        )
