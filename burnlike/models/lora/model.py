"""Builds a model with low-rank adapters."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import ArgumentError, ConfigError, ModuleTreeError, nearest
from ...interop.adapters.adding import AdapterOptions, add_adapters
from ...interop.adapters.layers import (
    ABOUT,
    ALL_LINEAR,
    AdaptedLayer,
    experts_of,
    inside_of,
    module_paths,
    output_layers,
    select,
    select_experts,
    tied_tables,
    tied_together,
    token_tables,
)
from ...interop.adapters.peft_files import load_adapter, resize_for_adapter
from ...interop.quantize import quantize_
from ..by_path.build import give_tokens, numbers_of
from ..by_path.configs import PretrainedConfig
from .configs import LoRAConfig, adapter_in

TASK_TYPES = {
    "CausalLM": "CAUSAL_LM",
    "SequenceClassification": "SEQ_CLS",
    "TokenClassification": "TOKEN_CLS",
    "QuestionAnswering": "QUESTION_ANS",
    "Seq2SeqLM": "SEQ_2_SEQ_LM",
}
"""peft's words for the heads of transformers."""
_WRITERS = ("CausalLM", "MaskedLM", "Seq2SeqLM")
"""Heads that are tables of tokens, which the weights of a directory have."""


def lora_model(config: LoRAConfig, device: torch.device | str | None = None) -> nn.Module:
    """The model with adapters, in training mode; all else in it is frozen."""
    return with_adapters(config, config.of.init(device))


def with_adapters(config: LoRAConfig, model: nn.Module) -> nn.Module:
    """Add the adapters of a config to the model of its `of`, in place."""
    adapter = None if config.adapter is None else adapter_in(Path(config.adapter).expanduser())
    if adapter is not None:
        resize_for_adapter(model, adapter)
    numbers, origins = numbers_of(config.new_tokens), [*getattr(model, "burnlike_origin", ())]
    if numbers:
        origins.append(give_tokens(model, numbers))
    saved = _saved(config, model)
    inside = tuple(f"{path}." for path in saved)
    drawn = {it.rpartition(".")[0] for it in vars(model).get("_burnlike_drawn", ()) if not it.startswith(inside)}
    saved += sorted(drawn)  # frozen, they would be noise
    start = config.start if isinstance(config.start, str) else "eva"
    options = AdapterOptions(config.rank, config.alpha, config.dropout, config.dora, config.rslora, config.dtype, start)
    try:
        chosen = select(model, config.targets, saved=saved) | select_experts(model, config.target_parameters)
        layers = {it: _ranked(options, config, path) for path, it in chosen.items() if config.ranks.get(path) != 0}
    except (ModuleTreeError, ArgumentError) as error:
        raise ConfigError(str(error)) from error
    if strangers := [path for path in config.ranks if path not in chosen]:
        raise ConfigError(f"ranks: '{strangers[0]}' has no adapter{nearest(strangers[0], [*chosen])}")
    if config.ensure_weight_tying:
        layers, saved = _together(model, layers, saved)
    if config.quantize is not None:
        whole = [f"{path}." for path in saved]
        kept = {f"{path}.weight" for path in output_layers(model)}
        kept |= {name for name, _ in model.named_parameters() if name.startswith(tuple(whole))}
        rounded = quantize_(model, config.quantize, skip=kept)
        origins.append(f"quantized {len(rounded)} weights of linear layers, {config.quantize}")
    tokens = [(tables, numbers) for tables in token_tables(model, saved)] if numbers else []
    if tokens and any(inside_of(table.path, saved) for table in tied_tables(model)):  # peft can't read such files
        tied = ", ".join(table.path for table in tied_tables(model))
        raise ConfigError(f"modules_to_save: expected all or none of {tied}, which are tied, beside new_tokens")
    options: Any = {"stay_tied": config.ensure_weight_tying, "bias": config.bias, "token_dtype": config.dtype}
    try:
        add_adapters(model, layers, saved, tokens=tokens, **options)
    except (ModuleTreeError, ArgumentError) as error:
        raise ConfigError(str(error)) from error
    if adapter is not None and not any(parameter.is_meta for parameter in model.parameters()):
        load_adapter(model, adapter)
    counts = [
        sum(it.numel() for it in model.parameters() if it.requires_grad or not trained) for trained in (True, False)
    ]
    more = f", and all of {', '.join(saved)}" if saved else ""
    experts = {value.name: None for path, value in experts_of(model).items() if path not in chosen}
    if config.targets in (ALL_LINEAR, (ALL_LINEAR,)) and experts:
        more += f"; none of the experts' {', '.join(experts)} (target_parameters)"
    more += f", {len(numbers)} rows of {', '.join(it.path for tables, _ in tokens for it in tables)}" if tokens else ""
    origins.append(f"adapters  of {len(layers)} layers{more}: {counts[0]:,} of {counts[1]:,} parameters are trained")
    vars(model)["burnlike_origin"] = tuple(origins)
    vars(model)[ABOUT] = about(config)
    return model


def _ranked(options: AdapterOptions, config: LoRAConfig, path: str) -> AdapterOptions:
    """The options of one layer, which has perhaps a rank of its own."""
    rank = config.ranks.get(path, config.rank)
    is_scaled = config.eva is None or config.eva.adjust_scaling_factors
    return options._replace(rank=rank, alpha=config.alpha * rank / config.rank if is_scaled else config.alpha)


def _together(
    model: nn.Module, layers: dict[AdaptedLayer, AdapterOptions], saved: list[str]
) -> tuple[dict[AdaptedLayer, AdapterOptions], list[str]]:
    """Targets and whole modules where tied tables stay one; a ConfigError if there are none, or none is meant."""
    try:
        ties = tied_together(model, layers, saved)
    except ModuleTreeError as error:
        raise ConfigError(str(error)) from error
    if ties is None:
        tied = ", ".join(f"'{table.path}'" for table in tied_tables(model))
        what = f"expected one of {tied} in modules_to_save or targets" if tied else "the model has no tied tables"
        raise ConfigError(f"ensure_weight_tying: {what}; or leave it out")
    return ties


def about(config: LoRAConfig) -> dict[str, Any]:
    """The description of the base model for the files of adapters."""
    of = config.of
    path = os.path.abspath(os.path.expanduser(of.path)) if isinstance(of, PretrainedConfig) else None
    return {"base": path, "task_type": TASK_TYPES.get(getattr(of, "head", None) or "")}


def _saved(config: LoRAConfig, model: Any) -> list[str]:
    """The paths of the modules that are trained whole."""
    paths = module_paths(model)
    if config.modules_to_save is not None:
        chosen: list[str] = []
        for end in config.modules_to_save:
            fitting = [path for path in paths if path == end or path.endswith(f".{end}")]
            if not fitting:
                children = ", ".join(name for name, _ in model.named_children())
                raise ConfigError(f"modules_to_save: no module '{end}'; the outermost ones are {children}")
            chosen += [it for it in fitting if not any(it.startswith(f"{above}.") for above in chosen)]
        return chosen
    head = getattr(config.of, "head", None)
    body = getattr(model, "base_model", model)
    if head is None or head in _WRITERS or body is model:
        return []
    inside = {id(module) for module in body.modules()}
    return [name for name, it in model.named_children() if id(it) not in inside and any(True for _ in it.parameters())]
