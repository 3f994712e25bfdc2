"""torch's counterparts of losses, with the `reduction` that `forward` has by default; others are its argument here."""

from typing import Any

import torch
from torch import Tensor, nn

from ...config import ModuleConfig
from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from . import configs
from .cross_entropy import NO_CLASS, CrossEntropyLoss


def _loss(config: type[ModuleConfig], twin: type[nn.Module], reduction: str = "mean", **only: Any) -> Counterpart:
    remedy = "; Burn adds nothing to differences, nor swaps" if "swap" in only else ""
    return alike(config, twin, only={"reduction": reduction, **only}, remedy=remedy)


def _values(loss: nn.Module, weight: Tensor | None) -> tuple[float, ...] | None:
    if weight is None:
        return None
    if weight.is_meta:
        raise refuse(loss, "its weight has no values on the meta device")
    return tuple(weight.tolist())


def _cross_entropy_config(loss: nn.CrossEntropyLoss) -> configs.CrossEntropyLossConfig:
    expect_only(loss, reduction="mean")
    return configs.CrossEntropyLossConfig(
        pad_tokens=None if loss.ignore_index == NO_CLASS else (loss.ignore_index,),
        weights=_values(loss, loss.weight),
        smoothing=loss.label_smoothing or None,
    )


def _cross_entropy(loss: CrossEntropyLoss, device: torch.device) -> nn.CrossEntropyLoss:
    pads = [NO_CLASS] if loss.pad_tokens is None else [*loss.pad_tokens]
    expect_only(loss, logits=True)
    if len(pads) > 1:
        raise refuse(loss, "several pad_tokens have no counterpart")
    weight = None if loss.weights is None else loss.weights.clone().to(device)
    return nn.CrossEntropyLoss(weight, ignore_index=pads[0], label_smoothing=loss.smoothing or 0.0)


def _binary_config(loss: nn.BCELoss | nn.BCEWithLogitsLoss) -> configs.BinaryCrossEntropyLossConfig:
    expect_only(loss, reduction="mean", weight=None, pos_weight=None)
    return configs.BinaryCrossEntropyLossConfig(logits=isinstance(loss, nn.BCEWithLogitsLoss))


def _binary(loss: Any, _device: torch.device) -> nn.Module:
    expect_only(loss, weights=None, smoothing=None)
    return nn.BCEWithLogitsLoss() if loss.logits else nn.BCELoss()


def _lp_config(loss: nn.L1Loss) -> configs.LpLossConfig:
    expect_only(loss, reduction="mean")
    return configs.LpLossConfig(p=1.0)


def _lp(loss: Any, _device: torch.device) -> nn.Module:
    if loss.p not in (1, 2):
        raise refuse(loss, f"p={loss.p} has no counterpart")
    return nn.L1Loss() if loss.p == 1 else nn.MSELoss()


def _cosine_config(loss: nn.CosineEmbeddingLoss) -> configs.CosineEmbeddingLossConfig:
    if loss.reduction == "none":
        raise refuse(loss, "reduction='none' has no counterpart; call forward_no_reduction")
    return configs.CosineEmbeddingLossConfig(margin=loss.margin, reduction=loss.reduction)  # pyright: ignore[reportArgumentType]


def _cosine(loss: Any, _device: torch.device) -> nn.CosineEmbeddingLoss:
    return nn.CosineEmbeddingLoss(loss.margin, reduction="sum" if loss.reduction == "sum" else "mean")


COUNTERPARTS = [
    Counterpart(
        "CrossEntropyLoss", nn.CrossEntropyLoss, _cross_entropy_config, _cross_entropy, constants={"weights": "weight"}
    ),
    # Their targets are whole numbers, torch's are floats.
    Counterpart("BinaryCrossEntropyLoss", nn.BCELoss, _binary_config, _binary, call="other"),
    Counterpart("BinaryCrossEntropyLoss", nn.BCEWithLogitsLoss, _binary_config, _binary, call="other"),
    _loss(configs.MseLossConfig, nn.MSELoss),
    Counterpart("LpLoss", nn.L1Loss, _lp_config, _lp),
    _loss(configs.HuberLossConfig, nn.HuberLoss),
    _loss(configs.SmoothL1LossConfig, nn.SmoothL1Loss, "none"),
    _loss(configs.KLDivLossConfig, nn.KLDivLoss, "batchmean"),
    _loss(configs.PoissonNllLossConfig, nn.PoissonNLLLoss),
    _loss(configs.GaussianNLLLossConfig, nn.GaussianNLLLoss),
    Counterpart("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, _cosine_config, _cosine),
    _loss(configs.HingeEmbeddingLossConfig, nn.HingeEmbeddingLoss),
    _loss(configs.MarginRankingLossConfig, nn.MarginRankingLoss),
    _loss(configs.MultiMarginLossConfig, nn.MultiMarginLoss, weight=None),
    _loss(configs.SoftMarginLossConfig, nn.SoftMarginLoss),
    _loss(configs.TripletMarginLossConfig, nn.TripletMarginLoss, eps=0.0, swap=False),
    _loss(configs.CTCLossConfig, nn.CTCLoss, "none"),
]
