"""Whether this process was started in a way that its strategy needs; torch is not loaded for it."""

from ..._env import number_of_ranks, rendezvous_lacks, runs_in_slurm
from ...errors import ConfigError

_SLURM = (
    "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=2 --rdzv-backend=c10d"
    " --rdzv-endpoint=HOST:29500 -m burnlike train ..., HOST being one of the nodes"
)


def check_launched(strategy: str) -> None:
    """Refuse a strategy of several processes where the launcher has not said where they find each other.

    Raises:
        ConfigError: it has not, or there is none.
    """
    lacking = rendezvous_lacks()
    if strategy == "none" or not lacking:
        return
    how = _SLURM if runs_in_slurm() else "torchrun --nproc-per-node 2 -m burnlike train ..."
    if number_of_ranks() == 1:
        raise ConfigError(
            f"distributed.strategy: {strategy} needs several processes: start them by {how}, or leave it out"
        )
    raise ConfigError(
        f"distributed.strategy: {strategy}: this is one of several processes of srun or mpirun, which do not tell where"
        f" to find the others ({', '.join(lacking)} are not set); start them by {how}; or set these variables for each"
    )
