"""DDP: each process has the whole model."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn

from ...errors import ConfigError
from .distributed import SeveralProcesses
from .division_problems import REDUCED_ON_CPU
from .single_process import Step

_UNUSED = "Expected to have finished reduction in the prior iteration"
"""What DistributedDataParallel says in the step after one in which a parameter got no gradient."""


class _Forward(nn.Module):
    """Module that DistributedDataParallel wraps; its forward is a task's step, which may call the model as it likes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, step: Step, batch: Any) -> Any:
        return step(self.model, batch)


class Ddp(SeveralProcesses):
    """Each process has the whole model; gradients are averaged by DistributedDataParallel, or what stands for it."""

    wrapper: Any = nn.parallel.DistributedDataParallel

    def prepare(self, model: nn.Module, optimizer: Any) -> None:
        """Wrap the model for its steps; everyone else sees the same module, names and ids."""
        super().prepare(model, optimizer)
        self.give_first_values(model)  # torch compares them between processes
        if self.pipeline is not None:
            self.pipeline.wrapped = [self._replicated(it) for it in self.pipeline.stages]
        self._wrapped = None if self.pipeline is not None else self._replicated(_Forward(model))

    def _replicated(self, module: nn.Module) -> Any:
        trains = any(it.requires_grad for it in module.parameters())
        if self.pipeline is not None and not (trains and self.mean_size > 1):
            return module
        wrapped = self.wrapper(module, process_group=self.data_group)
        precision = self.config.precision
        if precision is not None and precision.reduce == "bfloat16":
            if self.device.type == "cpu":
                raise ConfigError(f"distributed.precision.reduce: {REDUCED_ON_CPU}")
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            wrapped.register_comm_hook(self.data_group, bf16_compress_hook)
        return wrapped

    def train_step(self, step: Step, model: nn.Module, batch: Any) -> Any:
        return step(model, batch) if self._wrapped is None else self._wrapped(step, batch)

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool, counts: bool) -> Iterator[None]:
        # A pipeline has its stages exchange gradients, in its last micro-batch.
        quiet = nullcontext() if is_last or self._wrapped is None else self._wrapped.no_sync()
        with super().accumulating(model, is_last, counts), quiet:
            yield

    @contextmanager
    def explain_lost_peer(self) -> Iterator[None]:
        with super().explain_lost_peer():
            try:
                yield
            except RuntimeError as error:
                if _UNUSED not in str(error):
                    raise
                raise ConfigError(
                    "distributed.strategy: with ddp every parameter that is trained must get a gradient in every step,"
                    " and some got none; freeze them (requires_grad=False), or use them in the loss"
                ) from error
