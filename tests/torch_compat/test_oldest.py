import subprocess
import sys

import torch

from burnlike._torch_compat.oldest import OLDEST


def test_OLDEST() -> None:
    assert torch.torch_version.TorchVersion(torch.__version__) >= OLDEST
    older = "import torch, torch.torch_version as it; torch.__version__ = it.TorchVersion('2.10.1+cpu')\n"
    program = [sys.executable, "-c", older + "from burnlike.nn import Linear"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "TorchVersionError: burnlike needs torch 2.11 or newer, this is torch 2.10.1+cpu" in result.stderr
