"""Programs of `torch.export` as files."""

from pathlib import Path

import pytest
import torch

from burnlike.train.export.programs import _Archive


def test_a_write_that_fails_is_kept_as_an_error() -> None:
    """Where a write fails, the destructor of torch's writer ends the process."""
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    with Path("/dev/full").open("wb", buffering=0) as full:
        archive = _Archive(full)
        torch.export.save(program, archive)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left on device"):
        raise archive.error or AssertionError
