"""Weights for evaluation, of rules whose averages of weights are better than the trained weights."""

import torch
from torch import nn

from ..._torch_compat.fsdp import reshard
from ...module import params
from ..core.sharded import division_of, local, local_state
from ..rules.rule_set import RuleSet
from ..schedules.learning_rates import last_match
from ..states.store import KeptStates
from .copies import Copies, tensors_of_copies


@torch.no_grad()
def put_weights(module: nn.Module, kept: KeptStates, rules: RuleSet, copies: Copies, *, to_evaluate: bool) -> bool:
    """Put the weights to evaluate with, or those to train with, into `module` and into the copies of its weights.

    Args:
        module: the one that is trained.
        kept: the states; what is taken out of the module is kept in them.
        rules: of the parameters.
        copies: of weights, by parameter.
        to_evaluate: which weights are put.

    Returns:
        Whether anything has changed.
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
