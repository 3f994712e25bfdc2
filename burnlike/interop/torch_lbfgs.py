"""TorchLbfgs: L-BFGS behind torch's interface."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..errors import ArgumentError
from ..optim import Lbfgs, LbfgsConfig
from .torch_module_optimizer import TorchModuleOptimizer


class TorchLbfgs(TorchModuleOptimizer):
    """`Lbfgs` where code expects a `torch.optim.LBFGS`: `step(closure)`, schedulers, hooks, state dicts.

    There is one group, of all parameters of the module: they are one vector. `state_dict` has the whole state under the
    first of them, as torch's, and `load_state_dict` refuses one whose parameters are others or in another order.

    Example:
        >>> layer, x = nn.Linear(1, 1), torch.tensor([[1.0], [2.0]])
        >>> optimizer = TorchLbfgs(layer, LbfgsConfig(line_search_fn="StrongWolfe"), lr=1.0)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (layer(x) - x).square().sum()
        ...     loss.backward()
        ...     return loss
        >>> for _ in range(3):
        ...     loss = optimizer.step(closure)
        >>> loss.item() < 1e-3
        True
    """

    def __init__(self, module: nn.Module, config: LbfgsConfig | Lbfgs, lr: float = 1.0, params: None = None) -> None:
        """Make the optimizer of `module`.

        Args:
            module: what is trained.
            config: see `LbfgsConfig`; an Lbfgs then belongs to this object.
            lr: see `Lbfgs.step`.
            params: None, which is all: a part of them can't be trained.

        Raises:
            ArgumentError: the rate is negative or not finite, or the module has no parameters.
            ConfigError: `params` is not None.
        """
        super().__init__(module, config.init() if isinstance(config, LbfgsConfig) else config, lr, params)

    @property
    def optimizer(self) -> Lbfgs:
        """The optimizer that steps and keeps the state, for records."""
        return self._optimizer

    @torch.optim.Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Up to `max_iter` iterations.

        Args:
            closure: computes the loss and its gradients; called several times.

        Returns:
            What its first call returned.

        Raises:
            ArgumentError: there is no closure; and see `Lbfgs.step`.
        """
        if closure is None:
            raise ArgumentError("TorchLbfgs: step() needs a closure that computes the loss and its gradients")
        with torch.enable_grad():
            return self.optimizer.step_closure(float(self.param_groups[0]["lr"]), self._module, closure)

    step.hooked = True  # pyright: ignore[reportFunctionMemberAccess] - or torch would put the hooks around it again
