"""transformers' models with random weights, beside ours that took these by a table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from burnlike.models import load_pretrained, save_pretrained
from burnlike.record import open_record

TOLERANCE = 1e-10


def randomized(theirs: Any) -> Any:
    """The model in float64 and evaluation, none of its weights and statistics constant."""
    torch.manual_seed(0)
    for name, tensor in theirs.state_dict().items():
        if name.endswith("num_batches_tracked"):
            tensor.fill_(3)
        elif tensor.is_floating_point():
            tensor.add_(0.1 * torch.rand_like(tensor))
    return theirs.double().eval()


def saved(theirs: Any, directory: Path) -> Path:
    """The directory that transformers writes of a model, with the names that files have."""
    theirs.save_pretrained(directory)
    assert json.loads((directory / "config.json").read_text())["model_type"]
    return directory


def expect_same_outputs(theirs: Any, directory: Path, x: Tensor, output: Callable[[Any], Tensor]) -> nn.Module:
    """Load what transformers saved; expect its outputs and the gradient of the input.

    Args:
        theirs: in float64.
        directory: where it is saved to.
        x: the input, in float64.
        output: what of theirs is compared.

    Returns:
        Ours.
    """
    ours = load_pretrained(saved(theirs, directory)).eval()
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    results = [ours(inputs[0]), output(theirs(inputs[1]))]
    torch.testing.assert_close(results[0], results[1], rtol=TOLERANCE, atol=TOLERANCE)
    for result in results:
        (result * torch.arange(1, result.numel() + 1).sin().reshape(result.shape)).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=TOLERANCE, atol=TOLERANCE)
    return ours


def expect_saved_back(ours: nn.Module, directory: Path, table: str, without: tuple[str, ...] = ()) -> None:
    """Expect what is saved of ours by a table to have the names and tensors of what transformers saved.

    Args:
        ours: loaded from `directory`.
        directory: what transformers saved.
        table: the name of the layout.
        without: names of theirs that ours has no place for.
    """
    save_pretrained(ours, directory / "back", table)
    found, expected = open_record(directory / "back").tensors, open_record(directory).tensors
    assert found.keys() == expected.keys() - {*without}
    for name, tensor in found.items():
        assert tensor.dtype == expected[name].dtype, name
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(tensor[...], expected[name][...]), name
