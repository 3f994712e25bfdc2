"""What older versions of torch can't do, told by burnlike's error: marks for tests that need it."""

import pytest
import torch

copies_in_compiled_code = pytest.mark.skipif(
    torch.__version__ < (2, 13),
    reason="compiled code copies modules from torch 2.13 on; test_structural_copy holds that it is refused before",
)
