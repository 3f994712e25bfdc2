"""Weights beside those that are trained: copies in another precision, and those to evaluate with."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import reshard
from ...errors import ConfigError
from ...module import Param, ParamId, params
from ..core.sharded import division_of, local, local_state
from ..rules.rule_set import RuleSet
from ..schedules.learning_rates import last_match
from ..states.store import KeptStates

Copies = Mapping[ParamId, Param]
"""For each parameter the one that is its copy: a handle, since moving a module replaces tensors."""


def copies_of(module: nn.Module, copies: nn.Module) -> Copies:
    """For each parameter of `module` that of `copies` at its path; ConfigError if there is none of its shape."""
    found = {param.path: param for param in params(copies, "weight")}
    for param in params(module, "weight"):
        copy = found.get(param.path)
        if copy is None or copy.tensor.shape != param.tensor.shape:
            got = "none" if copy is None else f"one of shape {list(copy.tensor.shape)}"
            raise ConfigError(
                f"expected a copy of '{param.path}' of shape {list(param.tensor.shape)}, got {got}; give a module of"
                " the same structure"
            )
    return {param.id: found[param.path] for param in params(module, "weight")}


def tensors_of_copies(copies: Copies, params: Sequence[Param]) -> list[Tensor]:
    """This rank's parts of the copies of `params`, to be written."""
    tensors = [copies[param.id].tensor for param in params]
    reshard(tensors)
    return [local(tensor.detach()) for tensor in tensors]


def check_copied(copies: Copies, params: Sequence[Param]) -> None:
    """Raise ConfigError if some parameters have a copy and others none."""
    if copies and (without := [param.path for param in params if param.id not in copies]):
        raise ConfigError(
            f"'{without[0]}' has no copy, as other parameters have; call with_copies again when the module has changed"
        )


@torch.no_grad()
def put_weights(module: nn.Module, kept: KeptStates, rules: RuleSet, copies: Copies, *, to_evaluate: bool) -> bool:
    """Put the weights to evaluate or to train with into `module` and into their copies; whether any changed.

    What is taken out is kept in the states.
    """
    found = False
    every = params(module, "weight")
    reshard(param.tensor for param in every)
    for param in every:
        state = kept.states.get(param.id)
        if state is None:
            continue
        rule = rules.rule(last_match(rules.group_params, param))
        if rule.elementwise:
            state = kept.states[param.id] = local_state(state, param.tensor)
            kept.divisions[param.id] = division_of(param.tensor)
        part = local(param.tensor.detach())
        put = rule.put_eval_weights if to_evaluate else rule.put_training_weights
        if put(part, state):
            found = True
            if param.id in copies:
                tensors_of_copies(copies, [param])[0].copy_(part)
    return found
