"""The base of the configs of rules: clipping, groups, moments, and options of every step."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from ..._lazy import resolve
from ...config import Config, Meta, OptimizerConfig
from ...config.base import built
from ...config.bounds import NotNegative, Positive
from ...config.roles import Builds, Built
from ...errors import ConfigError
from ...module.groups.param_group import ParamGroup
from ..gradients.configs import GradientClipping

if TYPE_CHECKING:
    from ..step.adaptor import OptimizerAdaptor
    from .rule_set import OptimizerGroup

StateDtype = Literal["auto", "float32", "bfloat16", "blockwise8"]
"""How a moment is kept between the steps; all is computed in float32 or more whatever it is.

- auto: in the dtype of the parameter, and at least in float32.
- float32: 4 bytes a value, for float64 parameters too.
- bfloat16: 2 bytes a value. With decay factors above about 0.99 changes are smaller than what bfloat16 can tell apart:
  turn on `stochastic_rounding`, or a moment stays where it is.
- blockwise8: a byte a value and a float32 scale for each 256 (see `burnlike.ops.blockwise`); parameters of less than
  4096 values, which would save nothing worth it, are kept as by auto. Not under `fully_shard`.

A state that was loaded stays in the precision that it was saved in.
"""


class OptimizerGroupConfig(Config):
    """A group of parameters that are updated in their own way.

    Attributes:
        params: which they are.
        optimizer: their rule, with its clipping; None for the one that the group is listed in.
        weight_decay: in place of that of their rule.
        lr_factor: what the learning rate of a step is multiplied by.
    """

    params: ParamGroup
    optimizer: OptimizerConfig | None = None
    weight_decay: NotNegative | None = None
    lr_factor: NotNegative = 1.0

    def init_within(self, base: "ModuleOptimizerConfig | None") -> "OptimizerGroup":
        from .rule_set import OptimizerGroup

        config = self.optimizer or base
        if not isinstance(config, ModuleOptimizerConfig):
            got = "none" if config is None else type(config).__name__
            raise ConfigError(f"OptimizerGroupConfig: optimizer: expected a rule for {self.params}, got {got}")
        if self.weight_decay is not None:
            if "weight_decay" not in config.__struct_fields__:
                raise ConfigError(f"OptimizerGroupConfig: weight_decay: {type(config).__name__} has none")
            config = config.replace(weight_decay=self.weight_decay)
        clipping = None if self.optimizer is None else config.grad_clipping
        return OptimizerGroup(self.params, config.build(), clipping, self.lr_factor)


_OF_THE_WHOLE = ("groups", "maximize", "skip_non_finite", "stochastic_rounding")
CANNOT_ROUND = "{} can't; Sgd, Adam, AdamW and Lion, which have a kernel, can"
"""Why stochastic rounding is refused of a rule."""


class ModuleOptimizerConfig(OptimizerConfig["OptimizerAdaptor[Any]"], Builds[Built]):
    """Base of the configs of rules for whole modules.

    Attributes:
        grad_clipping: how gradients are clipped, or None.
        groups: parameters that are updated in their own way; of several that match one the last counts.
        maximize: go up the gradient.
        skip_non_finite: a step with a gradient that is not finite changes nothing; nothing waits for the device.
        stochastic_rounding: round weights and moments of 16 and 8 bits stochastically, so that small updates are not
            lost; for rules with a kernel (Sgd, Adam, AdamW, Lion).
    """

    grad_clipping: GradientClipping | None = None
    groups: tuple[OptimizerGroupConfig, ...] = ()
    maximize: bool = False
    skip_non_finite: bool = False
    stochastic_rounding: bool = False

    has_kernel: ClassVar[bool] = False
    """Whether the rule is a `KernelOptimizer`."""

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.stochastic_rounding and not self.has_kernel:
            yield "stochastic_rounding", "expected false: " + CANNOT_ROUND.format(type(self).__name__)
        for place, group in enumerate(self.groups):
            rule = group.optimizer
            if not isinstance(rule, ModuleOptimizerConfig):
                continue
            if outside := [name for name in _OF_THE_WHOLE if getattr(rule, name)]:
                what = "is that of the whole optimizer, not of a group; move it there"
                yield f"groups.{place}.optimizer.{outside[0]}", what
            if self.stochastic_rounding and not rule.has_kernel:
                yield f"groups.{place}.optimizer", "expected false: " + CANNOT_ROUND.format(type(rule).__name__)

    def build(self) -> Built:
        """The bare rule, a `SimpleOptimizer`, without clipping and groups."""
        return built(self, "build()")

    def init(self) -> "OptimizerAdaptor[Any]":
        base = None if isinstance(self, OptimizerGroupsConfig) else self
        groups = [group.init_within(base) for group in self.groups]
        options = {name: getattr(self, name) for name in _OF_THE_WHOLE if name != "groups"}
        rule = None if base is None else base.build()
        # Not imported: configs are below what loads torch, so that `burnlike check` need not load it.
        return resolve("burnlike.optim:OptimizerAdaptor")(rule, self.grad_clipping, groups, **options)


class OptimizerGroupsConfig(ModuleOptimizerConfig, tag="OptimizerGroups"):
    """Groups alone: a parameter that none of them matches is an error. Each has its own `optimizer`."""

    has_kernel: ClassVar[bool] = True  # as far as it is asked: there is no rule but those of the groups

    def validate(self) -> Iterable[tuple[str, str]]:
        if not self.groups:
            yield "groups", "expected at least one"
        for place, group in enumerate(self.groups):
            if group.optimizer is None:
                yield f"groups.{place}.optimizer", "expected a rule: there is no other one that the group could have"
        yield from ModuleOptimizerConfig.validate(self)


class MomentumConfig(Config):
    """Momentum of Sgd; the defaults are Burn's (in torch, dampening is 0).

    Attributes:
        momentum: what stays of the velocity in a step.
        dampening: what is left out of a gradient, but for the first one.
        nesterov: look ahead by one step of the velocity (Sutskever et al. 2013). Torch allows it without dampening
            only; here, as in Burn, both go together.
    """

    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    dampening: Annotated[float, Meta(ge=0, le=1)] = 0.1
    nesterov: bool = False


class AdaptiveMomentumConfig(ModuleOptimizerConfig[Built]):
    """Base of the configs of Adam and AdamW.

    Attributes:
        beta_1: decay of the first moment.
        beta_2: decay of the second moment.
        epsilon: added to the root of the second moment (torch: 1e-8).
        amsgrad: divide by the largest second moment so far (Reddi et al. 2018).
        moment_1: the precision that first moments are kept in.
        moment_2: that of second moments.
    """

    beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    epsilon: Positive = 1e-5
    amsgrad: bool = False
    moment_1: StateDtype = "auto"
    moment_2: StateDtype = "auto"

    has_kernel: ClassVar[bool] = True

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.amsgrad and self.moment_2 == "blockwise8":
            yield "moment_2", "with amsgrad expected auto, float32 or bfloat16: a largest value so far needs its digits"
        yield from ModuleOptimizerConfig.validate(self)
