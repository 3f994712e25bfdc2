"""Losses of torch and their twins."""

from typing import Any

import pytest
import torch
from torch import nn as torch_nn

from burnlike import nn
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, to_torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weights_of_classes_are_taken_along(dtype: torch.dtype) -> None:
    weight = torch.tensor([0.5, 2.0, 1.0 / 3], dtype=dtype)
    theirs = torch_nn.CrossEntropyLoss(weight, label_smoothing=0.1)
    ours: Any = from_torch(theirs)
    assert type(ours).__name__ == "CrossEntropyLoss"
    assert torch.equal(ours.weights, weight)
    assert ours.weights.data_ptr() != weight.data_ptr()
    back: Any = to_torch(ours)
    assert torch.equal(back.weight, weight)
    assert back.weight.dtype == dtype
    assert (back.ignore_index, back.label_smoothing) == (-100, 0.1)
    made = to_torch(nn.CrossEntropyLossConfig(weights=(0.5, 2.0)).init())
    assert made.weight.tolist() == [0.5, 2.0]
    x, targets = torch.randn(4, 3, dtype=dtype), torch.tensor([0, 2, -100, 1])
    torch.testing.assert_close(ours(x, targets), theirs(x, targets))


def test_a_loss_without_pad_token_ignores_no_target_in_torch_either() -> None:
    theirs = to_torch(nn.CrossEntropyLossConfig().init())
    with pytest.raises(IndexError, match="-100 is out of bounds"):
        theirs(torch.zeros(2, 3), torch.tensor([0, -100]))
    assert from_torch(theirs).pad_tokens is None


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (torch_nn.CrossEntropyLoss(reduction="sum"), "reduction='sum'"),
        (torch_nn.CrossEntropyLoss(torch.ones(2, device="meta")), "meta device"),
        (torch_nn.BCELoss(torch.ones(2)), "weight has no counterpart"),
        (torch_nn.BCEWithLogitsLoss(pos_weight=torch.ones(2)), "pos_weight has no counterpart"),
        (torch_nn.MSELoss(reduction="none"), "reduction='none'"),
        (torch_nn.L1Loss(reduction="sum"), "reduction='sum'"),
        (torch_nn.SmoothL1Loss(), "reduction='mean'"),
        (torch_nn.KLDivLoss(), "reduction='mean'"),
        (torch_nn.HuberLoss(delta=2.0, reduction="sum"), "reduction='sum'"),
        (torch_nn.CosineEmbeddingLoss(reduction="none"), "forward_no_reduction"),
        (torch_nn.MultiMarginLoss(weight=torch.ones(2)), "weight has no counterpart"),
        (torch_nn.TripletMarginLoss(), "eps=1e-06"),
        (torch_nn.TripletMarginLoss(eps=0.0, swap=True), "swap=True"),
        (torch_nn.CTCLoss(), "reduction='mean'"),
    ],
)
def test_options_that_only_torch_has_are_refused(theirs: torch_nn.Module, reason: str) -> None:
    with pytest.raises(NoCounterpartError, match=reason):
        from_torch(theirs)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (nn.CrossEntropyLossConfig(logits=False), "logits=False"),
        (nn.CrossEntropyLossConfig(pad_tokens=(1, 2)), "several pad_tokens"),
        (nn.BinaryCrossEntropyLossConfig(smoothing=0.1), "smoothing=0.1 has no counterpart"),
        (nn.BinaryCrossEntropyLossConfig(weights=(0.1,)), "weights has no counterpart"),
        (nn.LpLossConfig(p=3.0), "p=3.0"),
        (nn.RNNTLossConfig(), "no such layer"),
    ],
)
def test_options_that_only_burnlike_has_are_refused(config: nn.CrossEntropyLossConfig, reason: str) -> None:
    with pytest.raises(NoCounterpartError, match=reason):
        to_torch(config.init())


def test_both_forms_of_binary_cross_entropy() -> None:
    for theirs in (torch_nn.BCELoss(), torch_nn.BCEWithLogitsLoss()):
        ours = from_torch(theirs)
        assert isinstance(ours, nn.BinaryCrossEntropyLoss)
        assert ours.logits == isinstance(theirs, torch_nn.BCEWithLogitsLoss)
        assert type(to_torch(ours)) is type(theirs)
    assert type(to_torch(nn.BinaryCrossEntropyLossConfig().init())) is torch_nn.BCELoss
    assert type(to_torch(nn.LpLossConfig.l2())) is torch_nn.MSELoss
