"""Configs of the strategies by which several processes train one model; torch is not loaded for them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from ..._env import number_of_ranks, rendezvous_lacks, runs_in_slurm
from ...config import Config, Meta, StrategyConfig
from ...config.bounds import Positive
from ...config.node import Location, from_python
from ...config.registry import fields_of, lookup, tag_of
from ...config.type_words import unknown_type
from ...errors import ConfigError

if TYPE_CHECKING:
    from .distributed import Ddp, Fsdp2
    from .single_process import SingleProcess

Name = Annotated[str, Meta(min_length=1, extra_json_schema={"examples": ["none", "ddp", "fsdp2"]})]
_SLURM = (
    "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=2 --rdzv-backend=c10d"
    " --rdzv-endpoint=HOST:29500 -m burnlike train ..., HOST being one of the nodes"
)


class SingleProcessConfig(StrategyConfig["SingleProcess"], tag="none", builds=".single_process"):
    """A single process trains."""

    is_single = True


class DdpConfig(StrategyConfig["Ddp"], tag="ddp", builds=".distributed"):
    """Each process has the whole model; gradients are averaged."""


class Fsdp2Config(StrategyConfig["Fsdp2"], tag="fsdp2", builds=".distributed"):
    """Each process has a part of each parameter, of its gradient and of the optimizer's state."""


class DistributedConfig(Config):
    """How several processes, started by torchrun, train one model.

    Each reads its own `training.batch_size` items of each batch, so that N processes train as one does with N times as
    large batches.

    Attributes:
        strategy: `none`: a single process. `ddp`: each has the whole model, gradients are averaged. `fsdp2`: each has a
            part of each parameter, of its gradient and of the optimizer's state. Or the config of one.
        timeout_minutes: how long a process waits for the others before it ends the job.
    """

    strategy: Name | StrategyConfig = "none"
    timeout_minutes: Positive = 10.0

    def validate(self) -> Iterable[tuple[str, str]]:
        if isinstance(self.strategy, StrategyConfig):
            return
        found = lookup(StrategyConfig, self.strategy)
        if found is None:
            yield "strategy", unknown_type(from_python(self.strategy, Location()), StrategyConfig)
        elif needed := [key for key, field in fields_of(found).items() if field.required]:
            given = ", ".join(f"{key}: ..." for key in needed)
            yield "strategy", f"expected {{type: {self.strategy}, {given}}}, as it needs more than its name"

    @property
    def chosen(self) -> StrategyConfig:
        """The config of the strategy, which may only be named."""
        if isinstance(self.strategy, StrategyConfig):
            return self.strategy
        found: Any = lookup(StrategyConfig, self.strategy)  # validate() has looked it up
        return found()

    @property
    def name(self) -> str:
        return tag_of(type(self.chosen)) or type(self.chosen).__name__

    @property
    def is_single(self) -> bool:
        return self.chosen.is_single

    def check_launched(self) -> None:
        """Refuse a strategy of several processes where no launcher has said where they find each other."""
        lacking = rendezvous_lacks()
        if self.is_single or not lacking:
            return
        how = _SLURM if runs_in_slurm() else "torchrun --nproc-per-node 2 -m burnlike train ..."
        if number_of_ranks() == 1:
            raise ConfigError(
                f"distributed.strategy: {self.name} needs several processes: start them by {how}, or leave it out"
            )
        raise ConfigError(
            f"distributed.strategy: {self.name}: this is one of several processes of srun or mpirun, which do not tell"
            f" where to find the others ({', '.join(lacking)} are not set); start them by {how}; or set these variables"
            " for each"
        )
