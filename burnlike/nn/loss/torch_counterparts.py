"""torch's counterparts of losses, with the `reduction` that `forward` has by default; others are its argument here."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...config import ModuleConfig
from ..torch_counterpart import Counterpart, refuse
from .configs import (
    BinaryCrossEntropyLossConfig,
    CosineEmbeddingLossConfig,
    CrossEntropyLossConfig,
    CTCLossConfig,
    GaussianNLLLossConfig,
    HingeEmbeddingLossConfig,
    HuberLossConfig,
    KLDivLossConfig,
    LpLossConfig,
    MarginRankingLossConfig,
    MseLossConfig,
    MultiMarginLossConfig,
    PoissonNllLossConfig,
    SmoothL1LossConfig,
    SoftMarginLossConfig,
    TripletMarginLossConfig,
)
from .cross_entropy import NO_CLASS, CrossEntropyLoss


def _simple(
    layer: str,
    torch_class: type[nn.Module],
    config: type[ModuleConfig],
    names: tuple[str, ...] = (),
    reduction: str = "mean",
) -> Counterpart:
    """A loss whose options `names` are called alike on both sides."""

    def config_of(theirs: nn.Module) -> ModuleConfig:
        _check_reduction(theirs, reduction)
        return config(**{name: getattr(theirs, name) for name in names})

    def build(ours: Any, _device: torch.device) -> nn.Module:
        return torch_class(**{name: getattr(ours, name) for name in names}, reduction=reduction)

    return Counterpart(layer, torch_class, config_of, build)


def _check_reduction(loss: Any, expected: str = "mean") -> None:
    if loss.reduction != expected:
        raise refuse(
            loss,
            f"reduction={loss.reduction!r} is not that of forward, {expected!r}; give it where the loss is called",
        )


def _without(loss: Any, name: str) -> None:
    if getattr(loss, name) is not None:
        raise refuse(loss, f"{name} has no counterpart")


def _values(loss: nn.Module, weight: Tensor | None) -> tuple[float, ...] | None:
    if weight is None:
        return None
    if weight.is_meta:
        raise refuse(loss, "its weight has no values on the meta device")
    return tuple(weight.tolist())


def _cross_entropy_config(loss: nn.CrossEntropyLoss) -> CrossEntropyLossConfig:
    _check_reduction(loss)
    return CrossEntropyLossConfig(
        pad_tokens=None if loss.ignore_index == NO_CLASS else (loss.ignore_index,),
        weights=_values(loss, loss.weight),
        smoothing=loss.label_smoothing or None,
    )


def _cross_entropy(loss: CrossEntropyLoss, device: torch.device) -> nn.CrossEntropyLoss:
    pads = [NO_CLASS] if loss.pad_tokens is None else [*loss.pad_tokens]
    if not loss.logits:
        raise refuse(loss, "logits=False has no counterpart")
    if len(pads) > 1:
        raise refuse(loss, "several pad_tokens have no counterpart")
    weight = None if loss.weights is None else loss.weights.clone().to(device)
    return nn.CrossEntropyLoss(weight, ignore_index=pads[0], label_smoothing=loss.smoothing or 0.0)


def _binary_config(logits: bool) -> Callable[[Any], BinaryCrossEntropyLossConfig]:
    def config(loss: nn.BCELoss | nn.BCEWithLogitsLoss) -> BinaryCrossEntropyLossConfig:
        _check_reduction(loss)
        _without(loss, "weight")
        if logits:
            _without(loss, "pos_weight")
        return BinaryCrossEntropyLossConfig(logits=logits)

    return config


def _binary(loss: Any, _device: torch.device) -> nn.Module:
    for name in ("weights", "smoothing"):
        _without(loss, name)
    return nn.BCEWithLogitsLoss() if loss.logits else nn.BCELoss()


def _lp_config(loss: nn.L1Loss) -> LpLossConfig:
    _check_reduction(loss)
    return LpLossConfig(p=1.0)


def _lp(loss: Any, _device: torch.device) -> nn.Module:
    if loss.p not in (1, 2):
        raise refuse(loss, f"p={loss.p} has no counterpart")
    return nn.L1Loss() if loss.p == 1 else nn.MSELoss()


def _cosine_config(loss: nn.CosineEmbeddingLoss) -> CosineEmbeddingLossConfig:
    if loss.reduction == "none":
        raise refuse(loss, "reduction='none' has no counterpart; call forward_no_reduction")
    return CosineEmbeddingLossConfig(margin=loss.margin, reduction=loss.reduction)  # pyright: ignore[reportArgumentType]


def _cosine(loss: Any, _device: torch.device) -> nn.CosineEmbeddingLoss:
    return nn.CosineEmbeddingLoss(loss.margin, reduction="sum" if loss.reduction == "sum" else "mean")


def _multi_margin_config(loss: nn.MultiMarginLoss) -> MultiMarginLossConfig:
    _check_reduction(loss)
    _without(loss, "weight")
    return MultiMarginLossConfig(margin=loss.margin, p=loss.p)  # pyright: ignore[reportArgumentType]


def _multi_margin(loss: Any, _device: torch.device) -> nn.MultiMarginLoss:
    return nn.MultiMarginLoss(loss.p, loss.margin)


def _triplet_config(loss: nn.TripletMarginLoss) -> TripletMarginLossConfig:
    _check_reduction(loss)
    if loss.eps:
        raise refuse(loss, f"eps={loss.eps} has no counterpart; Burn adds nothing to differences")
    if loss.swap:
        raise refuse(loss, "swap=True has no counterpart")
    return TripletMarginLossConfig(margin=loss.margin, p=loss.p)


def _triplet(loss: Any, _device: torch.device) -> nn.TripletMarginLoss:
    return nn.TripletMarginLoss(loss.margin, loss.p, eps=0.0)


COUNTERPARTS = [
    Counterpart(
        "CrossEntropyLoss",
        nn.CrossEntropyLoss,
        _cross_entropy_config,
        _cross_entropy,
        constants={"weights": "weight"},
    ),
    # Their targets are whole numbers, torch's are floats.
    Counterpart("BinaryCrossEntropyLoss", nn.BCELoss, _binary_config(False), _binary, call="other"),
    Counterpart("BinaryCrossEntropyLoss", nn.BCEWithLogitsLoss, _binary_config(True), _binary, call="other"),
    _simple("MseLoss", nn.MSELoss, MseLossConfig),
    Counterpart("LpLoss", nn.L1Loss, _lp_config, _lp),
    _simple("HuberLoss", nn.HuberLoss, HuberLossConfig, ("delta",)),
    _simple("SmoothL1Loss", nn.SmoothL1Loss, SmoothL1LossConfig, ("beta",), reduction="none"),
    _simple("KLDivLoss", nn.KLDivLoss, KLDivLossConfig, ("log_target",), reduction="batchmean"),
    _simple("PoissonNllLoss", nn.PoissonNLLLoss, PoissonNllLossConfig, ("log_input", "full", "eps")),
    _simple("GaussianNLLLoss", nn.GaussianNLLLoss, GaussianNLLLossConfig, ("full", "eps")),
    Counterpart("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, _cosine_config, _cosine),
    _simple("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, HingeEmbeddingLossConfig, ("margin",)),
    _simple("MarginRankingLoss", nn.MarginRankingLoss, MarginRankingLossConfig, ("margin",)),
    Counterpart("MultiMarginLoss", nn.MultiMarginLoss, _multi_margin_config, _multi_margin),
    _simple("SoftMarginLoss", nn.SoftMarginLoss, SoftMarginLossConfig),
    Counterpart("TripletMarginLoss", nn.TripletMarginLoss, _triplet_config, _triplet),
    _simple("CTCLoss", nn.CTCLoss, CTCLossConfig, ("blank", "zero_infinity"), reduction="none"),
]
