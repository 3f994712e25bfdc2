"""The oldest torch that burnlike runs with: an older one is refused here, by name, before anything of it is missing.

Not in the package itself, whose `distributed` is also for programs that have not imported torch.
"""

import torch

from ..errors import TorchVersionError

OLDEST = (2, 11)

if tuple(map(int, torch.__version__.split(".")[:2])) < OLDEST:
    raise TorchVersionError(
        f"burnlike needs torch 2.11 or newer, this is torch {torch.__version__}: pip install --upgrade torch"
    )
