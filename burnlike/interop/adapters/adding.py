"""Adds low-rank adapters to the layers of a model, and merges them into its weights.

The first values of adapters are in the words of peft's `init_lora_weights`.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..._dtypes import FloatName
from ...errors import ArgumentError, ModuleTreeError
from ...module import LoraConfig
from ...module.adapters.layers import Dequantized, ExpertsLora, Lora, kind_of
from ...module.adapters.reparameterization import give_back, restoring, take_over
from ...module.adapters.token_rows import TokenRows
from ...module.torch_objects.wrappers import dequantized, is_quantized, own_class, parametrizations_of
from .layers import (
    AdaptedLayer,
    adaptable,
    adapted,
    biases_of,
    part_from_the_rest,
    say_untied,
    tied_tables,
    with_token_rows,
)

KEEP_WEIGHTS = ("default", "gaussian", "orthogonal", "eva")
"""Starts after which the weights are as they were; `eva` gives its values later, by data."""


def first_factors(start: str, weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """The matrices that an adapter begins with: `[rank, d_input]` and `[d_output, rank]`.

    Args:
        start: `gaussian`; `orthogonal`, two matrices whose product is 0; `pissa`, the largest singular vectors of the
            weight (Meng et al. 2024, section 3), or `pissa_niter_N`, about these by N steps of a randomized
            decomposition; `olora`, the first columns of its QR decomposition (Büyükakyüz 2024, algorithm 1).
        weight: `[d_output, d_input]`.
        scale: what the product of the matrices is multiplied by.

    Raises:
        ArgumentError: the rank is not one that this start has.
    """
    outputs, inputs = weight.shape
    weight = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    if start == "gaussian":
        return weight.new_empty(rank, inputs).normal_(0, 1 / rank), weight.new_zeros(outputs, rank)
    if start == "orthogonal":
        if rank % 2:
            raise ArgumentError(f"start: expected an even rank for orthogonal, got {rank}")
        rows = torch.linalg.qr(torch.randn(rank, rank, dtype=weight.dtype, device=weight.device)).Q
        down = torch.randn(inputs, rank // 2, dtype=weight.dtype, device=weight.device) @ rows[0::2] / 10
        up = torch.randn(rank // 2, outputs, dtype=weight.dtype, device=weight.device).mT @ rows[1::2] / 10
        return down.mT, up
    if rank > min(weight.shape):
        raise ArgumentError(
            f"start: {start} has at most rank {min(weight.shape)} of a weight {[*weight.shape]}, got {rank}"
        )
    if start == "olora":
        q, r = torch.linalg.qr(weight)
        return r[:rank], q[:, :rank]
    if start == "pissa":
        left, values, right = torch.linalg.svd(weight, full_matrices=False)
    else:
        left, values, columns = torch.svd_lowrank(weight, rank, niter=int(start.removeprefix("pissa_niter_")))
        right = columns.mT
    roots = (values[:rank] / scale).sqrt()
    return roots[:, None] * right[:rank], left[:, :rank] * roots


class AdapterOptions(NamedTuple):
    """The options of one layer's adapter, whose part is scaled by alpha / rank, or alpha / sqrt(rank) (`rslora`)."""

    rank: int
    alpha: float
    dropout: float = 0.0
    dora: bool = False
    rslora: bool = False
    dtype: FloatName | None = None
    start: str = "default"


def add_adapters(
    model: nn.Module,
    layers: Mapping[AdaptedLayer, AdapterOptions],
    trained: Collection[str] = (),
    *,
    stay_tied: bool = False,
    bias: str = "none",
    tokens: Collection[tuple[Sequence[AdaptedLayer], Sequence[int]]] = (),
    token_dtype: FloatName | None = None,
) -> None:
    """Freeze a model, and add a trainable adapter to each of the layers; modules at the paths `trained` stay trainable.

    Of linear layers `a` is drawn as `nn.Linear` draws its weight, of embeddings `b` from N(0, 1); the other is 0.
    Linear layers with another `start` have the values of `first_factors`; with `residual` they are to be read.
    A trained module that shares a parameter with others gets one of its own. With `stay_tied` it stays the same one,
    and tied tables have one adapter; `tied_together` gives the layers and paths of that. Of tables of tokens, the tied
    ones together, rows are trained too, in `token_dtype`: `tokens` has their numbers. `bias` says which biases are
    trained, too: `biases_of`.

    Raises:
        ModuleTreeError: a layer has an adapter, or something else computes its weight. The model is as it was.
        ArgumentError: dropout is meant for a layer whose code reads its weight itself, or a start or DoRA for one that
            has none.
    """
    before = [restoring(layer.module) for layer in (*layers, *(it for tied, _ in tokens for it in tied))]
    tied, shared = {table.path for table in tied_tables(model)} if stay_tied else set[str](), None
    try:
        for layer, options in layers.items():
            lora = _add(layer, options, shared if layer.path in tied else None)
            shared = lora if layer.path in tied else shared
        _check_alone(model, layers)
        rows = [_add_rows(tables, numbers, token_dtype) for tables, numbers in tokens]
    except BaseException:  # also of Ctrl-C: a model with half of its adapters would train without a word
        for restore in before:
            restore()
        raise
    with torch.no_grad():
        for layer, options in layers.items():
            if layer.lora.is_residual and options.start != "residual":  # pyright: ignore[reportOptionalMemberAccess]
                layer.weight.sub_(layer.lora.delta())  # pyright: ignore[reportOptionalMemberAccess]
    part_from_the_rest(model, [trained] if stay_tied else [[path] for path in trained])
    for tensor in model.parameters():
        tensor.requires_grad_(False)
    for path in trained:
        model.get_submodule(path).requires_grad_(True)
    for tensor in biases_of(model, bias, [it.path for it in layers], trained).values():
        tensor.requires_grad_(True)
    for layer in layers:
        layer.lora.requires_grad_(True)  # pyright: ignore[reportOptionalMemberAccess]
    for part in rows:
        part.requires_grad_(True)


def _add_rows(tables: Sequence[AdaptedLayer], numbers: Sequence[int], dtype: FloatName | None) -> TokenRows:
    weight = tables[0].weight
    for table in tables:
        if "weight" in parametrizations_of(table.module):
            raise ModuleTreeError(f"new_tokens: '{table.path}' has an adapter of all its rows: leave it out of targets")
        if getattr(table.module, "max_norm", None) is not None:
            raise ArgumentError(f"new_tokens: the embedding '{table.path}' has a max_norm, which changes its weight")
    kept = torch.float32 if weight.dtype.itemsize < 4 else weight.dtype
    rows = TokenRows(numbers, weight, kept if dtype is None else getattr(torch, dtype), tables[0].token_dim)
    for table in tables:
        take_over(table.module, "weight", rows)
    return rows


def _add(layer: AdaptedLayer, options: AdapterOptions, shared: Lora | None) -> Lora:
    list_of = parametrizations_of(layer.module).get(layer.name)
    if list_of is not None:
        if len(list_of._modules) != 1 or not isinstance(list_of._modules["0"], Dequantized):
            raise ModuleTreeError(f"'{layer.path}' has a parametrized weight already: fold it in, or leave it out")
        give_back(layer.module, layer.name)
    kind, weight = own_class(layer.module), layer.weight
    # Dropout of the adapter's input needs the layer's product split in two, which these kinds of layers allow.
    is_computed = kind_of(kind) not in (None, "embedding") or kind.__module__.startswith("burnlike.nn.linear")
    if options.dropout and layer.kind != "embedding" and not is_computed:
        raise ArgumentError(f"dropout: {kind.__name__} '{layer.path}' reads its weight itself, and takes no dropout")
    if getattr(layer.module, "max_norm", None) is not None:
        raise ArgumentError(f"targets: the embedding '{layer.path}' has a max_norm, which changes its weight")
    if layer.kind == "convolution" and (problem := _convolution_problem(layer.module, options)):
        raise ArgumentError(f"targets: the convolution '{layer.path}' {problem}")
    if layer.kind == "experts" and (options.dora or options.start not in ("default", "eva")):
        raise ArgumentError(f"target_parameters: '{layer.path}' takes LoRA alone, with the start default")
    if shared is not None:
        take_over(layer.module, layer.name, shared)
        return shared
    # As in peft: in 16 bits most steps of an optimizer would be lost in rounding.
    dtype = options.dtype or ("float32" if weight.dtype.itemsize < 4 else None)
    config = LoraConfig(rank=options.rank, alpha=options.alpha, dtype=dtype)
    if layer.kind == "experts":
        lora = ExpertsLora(config, weight, transposed=not getattr(layer.module, "is_transposed", False))
    else:
        lora = Lora(config, weight, transposed=layer.kind in _OUTPUTS_FIRST, dropout=options.dropout, dora=options.dora)
    if options.rslora:
        lora.scale = options.alpha / math.sqrt(options.rank)
    with torch.no_grad():
        if layer.kind == "embedding":
            lora.a.zero_()
            lora.b.normal_()
        elif layer.kind != "experts":
            bound = 1 / math.sqrt(lora.a.shape[0])
            lora.a.uniform_(-bound, bound)
            _start(layer, lora, options.start)
    take_over(layer.module, layer.name, lora)
    return lora


_OUTPUTS_FIRST = ("linear", "convolution")


def _convolution_problem(layer: Any, options: AdapterOptions) -> str:
    """The reason why a convolution takes no adapter; empty if it does."""
    if layer.groups > 1 or {*layer.dilation} != {1} or layer.padding_mode != "zeros":
        return "has groups, dilation or a padding mode, with which peft's adapters are no part of its weight"
    is_plain = not options.dora and options.start in ("default", "eva")
    return "" if is_plain else "takes LoRA alone, with the start default"


def _start(layer: AdaptedLayer, lora: Lora, start: str) -> None:
    """Give an adapter of a linear layer its first values, if these are not the usual ones."""
    lora.is_residual = start not in KEEP_WEIGHTS
    if start in ("default", "eva", "residual") or layer.weight.is_meta:
        return
    weight = dequantized(layer.weight)
    weight = weight if layer.kind == "linear" else weight.mT
    try:
        down, up = first_factors(start, weight, lora.a.shape[1], lora.scale)
    except ArgumentError as error:
        raise ArgumentError(f"'{layer.path}': {error}") from error
    lora.a.copy_(down.mT)
    lora.b.copy_(up.mT)


def _check_alone(model: nn.Module, layers: Mapping[AdaptedLayer, AdapterOptions]) -> None:
    """Refuse to take from a weight what an adapter begins with, where other layers have this weight, too."""
    places = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    for layer, options in layers.items():
        lora = layer.lora
        if lora is not None and lora.is_residual and places[id(layer.weight)] > 1:
            raise ArgumentError(
                f"targets: '{layer.path}' shares its weight with another layer, which {options.start} would change:"
                " leave it out, or train with the start default"
            )


@torch.no_grad()
def merge_adapters(model: nn.Module) -> nn.Module:
    """Add all adapters to the weights of their layers, in place, and make quantized weights plain; returns the model.

    A weight that was tied to another, which has no adapter or another one, is one of its own then; of a model of
    transformers its config says so.
    """
    layers = adapted(model)
    for layer in adaptable(model).values():
        list_of = parametrizations_of(layer.module).get(layer.name)
        if layer.path not in layers and list_of is not None and isinstance(list_of._modules["0"], Dequantized):
            weight = dequantized(list_of.original)
            give_back(layer.module, layer.name)
            layer.module._parameters[layer.name] = nn.Parameter(weight, requires_grad=False)
    merged: dict[tuple[int, int], nn.Parameter] = {}
    for layer in (*layers.values(), *with_token_rows(model).values()):
        added = layer.token_rows if layer.lora is None else layer.lora
        assert added is not None
        # Tables that were tied with one adapter stay tied.
        base, key = layer.weight, (id(layer.weight), id(added))
        if key not in merged:
            effective = added(base)
            kept = dequantized(base).dtype if is_quantized(base) else base.dtype
            merged[key] = nn.Parameter(effective.to(kept).contiguous(), requires_grad=False)
        give_back(layer.module, layer.name)
        layer.module._parameters[layer.name] = merged[key]
    say_untied(model)
    for tensor in model.parameters():
        if tensor.is_floating_point():
            tensor.requires_grad_(True)
    return model
