"""A step in batches of parameters that one call of a rule updates: scale, clipping and skips, the update, copies."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import reshard
from ...errors import ArgumentError, ConfigError, DeviceError, DTypeError, ShapeError
from ...module import Param, ParamId, params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ...module.tree.walk import picker, weights
from ...ops import StepOptions
from ..core.gradient_transform import finish
from ..core.sharded import OtherStages, Parts, local, whole
from ..core.state import as_real, state_as_complex, state_as_real
from ..gradients.clipping import limits, needs_norms, squares_of
from ..gradients.configs import ClipByGlobalNorm, GradientClipping
from ..gradients.gradients import check_gradient
from ..rules.rule_set import RuleSet
from ..rules.simple_optimizer import SimpleOptimizer
from ..schedules.learning_rates import ModuleLearningRate, last_match


@dataclass(slots=True)
class ParamBatch:
    """Parameters that one call of one rule updates.

    Attributes:
        group: place of their group, or BASE.
        rate: place of their group among those of the learning rate, or BASE.
        sharded: whether they are divided among ranks.
        rule, clipping, norm, lr_factor: those of the group, see RuleSet.
        places: of them among the gradients.
        pick: finds their tensors among those of the module's weights, which were `among`.
        states: before the next step.
        has_complex: whether a parameter is complex; its values, gradient and state are stepped as real ones.
    """

    group: int
    rate: int
    device: torch.device
    sharded: bool
    rule: SimpleOptimizer[Any]
    clipping: GradientClipping | None
    norm: str | int
    lr_factor: float
    places: list[int] = field(default_factory=list)
    pick: Callable[[Sequence[Tensor]], list[Tensor]] = list
    among: Sequence[Param] = ()
    params: list[Param] = field(default_factory=list)
    states: Sequence[Any] = ()
    has_complex: bool = False

    def follow(self, rules: RuleSet) -> None:
        """Take rule, clipping and factor of the group from other rules of the same groups."""
        self.rule, self.clipping, self.norm, self.lr_factor = _of_group(rules, self.group)

    def set_states(self, states: Sequence[Any]) -> None:
        """Take the states before the next step; DTypeError for a complex parameter if the rule needs whole tensors."""
        complex_param = next((parameter for parameter in self.params if parameter.tensor.is_complex()), None)
        if complex_param is not None and not self.rule.elementwise:
            raise DTypeError(
                f"{type(self.rule).__name__} can't step '{complex_param.path}', which is complex: it computes with"
                " whole tensors. Take a rule that computes value by value, such as AdamW, for it; nothing was changed"
            )
        lazy = None if complex_param is None else next((it for it in self.params if it.tensor.is_conj()), None)
        if lazy is not None:
            raise DTypeError(
                f"'{lazy.path}' is conjugated lazily, so that its memory does not hold its values; assign"
                " nn.Parameter(tensor.resolve_conj()); nothing was changed"
            )
        self.has_complex = complex_param is not None
        self.states = states
        if self.has_complex:
            self.states = [state_as_real(state, it.tensor) for state, it in zip(states, self.params, strict=True)]

    def states_to_keep(self) -> Sequence[Any]:
        """The states, those of complex parameters as complex tensors."""
        if not self.has_complex:
            return self.states
        return [state_as_complex(state, it.tensor) for state, it in zip(self.states, self.params, strict=True)]


def _of_group(rules: RuleSet, group: int) -> tuple[SimpleOptimizer[Any], GradientClipping | None, str | int, float]:
    return rules.rule(group), rules.clipping(group), rules.norm(group), rules.lr_factor(group)


def batches_of(
    stepped: Iterable[tuple[int, Param]], rules: RuleSet, lr: float | ModuleLearningRate
) -> list[ParamBatch]:
    """Divide the parameters `stepped`, given with their places, by the groups of the rules and those of `lr`."""
    groups = rules.group_params
    rate_groups = lr.groups if isinstance(lr, ModuleLearningRate) else ()
    batches: dict[Any, ParamBatch] = {}
    for place, param in stepped:
        tensor = param.tensor
        # Sharded parameters apart from whole ones: of those a rule gets `Parts`.
        key = (last_match(groups, param), last_match(rate_groups, param), local(tensor).device, is_distributed(tensor))
        if key not in batches:
            batches[key] = ParamBatch(*key, *_of_group(rules, key[0]))
        batches[key].places.append(place)
        batches[key].params.append(param)
    return list(batches.values())


def tensors_of(
    batches: Sequence[ParamBatch], of_module: Sequence[Param], tensors: Sequence[Tensor]
) -> list[list[Tensor]]:
    """The tensors of each batch among those of the module's parameters, as `weights_and_tensors` gives both."""
    if batches[0].among is not of_module:
        places = {param.id: place for place, param in enumerate(of_module)}
        for batch in batches:
            chosen = [places.get(param.id, -1) for param in batch.params]
            if -1 in chosen:  # what reading says of a parameter that is gone
                return [[param.tensor for param in it.params] for it in batches]
            batch.among, batch.pick = of_module, picker(chosen)
    picked: list[list[Tensor]] = []
    for batch in batches:
        picked.append(batch.pick(tensors))
    return picked


def stepped_in(module: nn.Module, params: Sequence[Param]) -> list[tuple[int, Param]]:
    """The parameters of `module` with the ids of `params`, and their places; ArgumentError if there are none."""
    of_module = weights(module)
    if params is of_module:
        return list(enumerate(of_module))
    by_id = {param.id: param for param in of_module}
    stepped = [(place, by_id[param.id]) for place, param in enumerate(params) if param.id in by_id]
    if not stepped:
        raise ArgumentError(
            f"none of the {len(params)} gradients, such as that of '{params[0].path}', is of a parameter of the"
            f" {type(module).__name__} to be stepped; step the module that they were taken from"
        )
    return stepped


def real_parts(
    batches: Sequence[ParamBatch], tensors: list[list[Tensor]], grads: list[Sequence[Tensor]]
) -> tuple[list[list[Tensor]], list[Sequence[Tensor]]]:
    """The parameters and gradients of batches as the rules see them: complex ones as two real numbers each."""
    check_gradients(batches, tensors, grads)
    return [[*map(as_real, some)] for some in tensors], [[*map(as_real, some)] for some in grads]


def check_gradients(
    batches: Sequence[ParamBatch], tensors: Sequence[Sequence[Tensor]], grads: Sequence[Sequence[Tensor]]
) -> None:
    """Raise the error, with the name of the parameter, of a gradient that does not fit."""
    for batch, some, its_grads in zip(batches, tensors, grads, strict=True):
        for param, tensor, grad in zip(batch.params, some, its_grads, strict=True):
            check_gradient(param, tensor, grad, "; nothing was changed")


def plan_step(
    batches: Sequence[ParamBatch],
    grads: Sequence[Sequence[Tensor]],
    rules: RuleSet,
    other_stages: OtherStages | None = None,
    *,
    maximize: bool,
    skip_non_finite: bool,
    loss_scale: float | Tensor | None,
    found_inf: Tensor | None,
    zero_grads: bool,
    seed: int | None,
) -> tuple[list[StepOptions], Tensor | None]:
    """Plan a step: the options of each batch, and a tensor with one value, which skips the step if it is not 0.

    Nothing waits for a device. The last 16 bits of `seed`, of stochastic rounding, are 0 and get the number of the
    batch; None rounds to nearest. It is an ArgumentError if the loss scale is a number that is not positive and finite.
    """
    # Only where a norm or a check for inf needs them: that is a pass over all gradients.
    squares: list[Tensor | None] = []
    for batch, its_grads in zip(batches, grads, strict=True):
        needs_squares = skip_non_finite or (batch.clipping is not None and needs_norms(batch.clipping))
        squares.append(squares_of(its_grads) if needs_squares else None)
    totals = None if other_stages is None else totals_over_stages(batches, squares, rules, other_stages)
    scale = -1.0 if maximize else 1.0
    unscale: float | Tensor = 1.0
    if isinstance(loss_scale, Tensor):  # a GradScaler's, on the device: it is a factor there, not a number here
        unscale = loss_scale.detach().double().reshape(1).reciprocal()
    elif loss_scale is not None:
        if not 0 < loss_scale < math.inf:
            raise ArgumentError(f"expected a finite loss_scale > 0, got {loss_scale}; nothing was changed")
        unscale = 1.0 / loss_scale
        scale *= unscale
    options = []
    for place, batch in enumerate(batches):
        its_squares = squares[place]
        if isinstance(batch.clipping, ClipByGlobalNorm):
            if totals is None:
                its_squares = _pooled(squares, [it.norm == batch.norm for it in batches], batch.device)
            else:
                its_squares = totals[batch.norm].to(batch.device)
        by = unscale.to(batch.device) if isinstance(unscale, Tensor) else unscale
        clip_value, factors = math.inf, None
        if batch.clipping is not None:
            clip_value, factors = limits(batch.clipping, its_squares, by)
        if isinstance(by, Tensor):
            factors = by if factors is None else factors * by
        batch_seed = None if seed is None else seed + place
        options.append(
            StepOptions(
                grad_scale=scale, factors=factors, clip_value=clip_value, zero_grads=zero_grads, seed=batch_seed
            )
        )
    skip = None if found_inf is None else found_inf.detach().reshape(1)
    if not skip_non_finite:
        return options, skip
    if totals is None:
        device = next(square.device for square in squares if square is not None)
        total = _pooled(squares, [True] * len(squares), device).sum(0, True)
    else:
        total = totals[None]
    # The squares of finite float32 gradients don't overflow in float64, so a total that is not finite shows inf or NaN.
    bad = total.isfinite().logical_not_().float()
    return options, bad if skip is None else torch.maximum(skip.to(bad), bad)


def totals_over_stages(
    batches: Sequence[ParamBatch], squares: Sequence[Tensor | None], rules: RuleSet, stages: OtherStages
) -> dict[str | int | None, Tensor]:
    """The sum of squares for each norm, and None for all, over all stages of a model: each float64 `[1]`."""
    keys: list[str | int | None] = [*rules.norms, None]
    device = batches[0].device if batches else torch.device("cpu")
    sums = torch.zeros(len(keys), dtype=torch.float64, device=device)
    for batch, its_squares in zip(batches, squares, strict=True):
        if its_squares is not None:
            counts = torch.tensor([float(key in (None, batch.norm)) for key in keys], dtype=torch.float64)
            sums += counts.to(device) * stages.own_sum(its_squares, [it.id for it in batch.params]).to(device)
    return dict(zip(keys, stages.summed(sums).split(1), strict=True))


def _pooled(squares: Sequence[Tensor | None], chosen: Sequence[bool], device: torch.device) -> Tensor:
    some = [it.to(device) for it, is_chosen in zip(squares, chosen, strict=True) if is_chosen and it is not None]
    return some[0] if len(some) == 1 else torch.cat(some)


class SkippedSteps:
    """Counts skipped steps: `count` those known, `on` those since the last `take_back`, by device, float64 `[1]`.

    On CUDA nothing waits: the kernels see whether a step is to be skipped, and subtract from the times of the states
    what `on` has counted. `take_back` brings the states up to date.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on: dict[torch.device, Tensor] = {}
        self._is_settled = True

    def watch(self, batches: Sequence[ParamBatch]) -> None:
        """Count for these batches from now on; `take_back` those before first."""
        devices = {batch.device for batch in batches if batch.device.type == "cuda"}
        self.on = {device: torch.zeros(1, dtype=torch.float64, device=device) for device in devices}
        self._is_settled = True

    def add(self, skip: Tensor) -> None:
        """Count a step as skipped where the one value of `skip` is not 0."""
        for device, skipped in self.on.items():
            skipped.add_((skip != 0).to(device))
        self._is_settled = False

    def take_back(self, batches: Sequence[ParamBatch]) -> None:
        """Take what was skipped back from the times of the states; waits for the devices if it may be any."""
        if self._is_settled:
            return
        self._is_settled = True
        counts = {device: int(skipped.item()) for device, skipped in self.on.items()}
        if not any(counts.values()):
            return
        for batch in batches:
            if steps := counts.get(batch.device):
                batch.rule.take_back(batch.states, steps)
        self.count += max(counts.values())
        for skipped in self.on.values():
            skipped.zero_()


def can_skip_on_device(batches: Sequence[ParamBatch]) -> bool:
    """True if kernels can skip a step by themselves: not the first one, which may not even make states."""
    # On a CPU nothing is won by not waiting, and the states keep their times right by themselves.
    return all(batch.device.type == "cuda" and batch.rule.fused and None not in batch.states for batch in batches)


def step_batch(
    batch: ParamBatch,
    lr: float,
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    options: StepOptions,
) -> Sequence[Any]:
    """Update the parameters of a batch with their gradients, DTensors where they are; gives the states after it."""
    rule = batch.rule
    try:
        if not batch.sharded:
            return rule.step_many(lr, tensors, grads, batch.states, options)
        parts, its_grads = Parts(map(local, tensors), tensors), [local(grad) for grad in grads]
        if rule.takes_parts:
            return rule.step_many(lr, parts, its_grads, batch.states, options)
        # A rule of whole tensors that exchanges nothing, such as one of a user: every rank gathers them, computes the
        # same, and keeps its part. States are whole on each rank.
        wholes, whole_grads = [whole(tensor) for tensor in tensors], [whole(grad) for grad in grads]
        after = rule.step_many(lr, wholes, whole_grads, batch.states, replace(options, copies=(), zero_grads=False))
        for part, tensor, values in zip(parts, tensors, wholes, strict=True):
            part.copy_(local(part_of(values, tensor)))
        finish(parts, its_grads, options)
        return after
    except (ShapeError, DTypeError, DeviceError, NotImplementedError):  # the last of ops, for sparse gradients
        check_gradients([batch], [tensors], [grads])
        raise


Copies = Mapping[ParamId, Param]
"""For each parameter the one that is its copy: a handle, since moving a module replaces tensors."""


def copies_of(module: nn.Module, copies: nn.Module) -> Copies:
    """The parameter of `copies` for each one of `module`, by path; ConfigError if there is none of its shape."""
    copy_of = {param.path: param for param in params(copies, "weight")}
    for param in params(module, "weight"):
        copy = copy_of.get(param.path)
        if copy is None or copy.tensor.shape != param.tensor.shape:
            got = "none" if copy is None else f"one of shape {list(copy.tensor.shape)}"
            raise ConfigError(
                f"expected a copy of '{param.path}' of shape {list(param.tensor.shape)}, got {got}; give a module of"
                " the same structure"
            )
    return {param.id: copy_of[param.path] for param in params(module, "weight")}


def tensors_of_copies(copies: Copies, params: Sequence[Param]) -> list[Tensor]:
    """This rank's parts of the copies of `params`, to be written."""
    tensors = [copies[param.id].tensor for param in params]
    # Gathered copies would keep the old values.
    reshard(tensors)
    return [local(tensor.detach()) for tensor in tensors]


def check_copied(copies: Copies, params: Sequence[Param]) -> None:
    """Raise ConfigError if some parameters have a copy and others none."""
    if copies and (without := [param.path for param in params if param.id not in copies]):
        raise ConfigError(
            f"'{without[0]}' has no copy, as other parameters have; call with_copies again when the module has changed"
        )
