"""`adapter_config.json`, as peft writes it: read into what it means here, and written."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from ..._patterns import Pattern, pattern_problem
from ..._regular_file import read_regular
from ...errors import ModuleTreeError, RecordFormatError, RecordIOError, nearest
from .adding import KEEP_WEIGHTS, AdapterOptions
from .layers import (
    ALL_LINEAR,
    AdaptedLayer,
    module_paths,
    select,
    select_experts,
    tables_of,
    tied_together,
    token_rows_of,
    token_tables,
)

CONFIG_NAME, WEIGHTS_NAME = "adapter_config.json", "adapter_model.safetensors"
_MOST_BYTES, _MOST_PATTERNS, _HIGHEST = 4 << 20, 4096, 1 << 30
_TABLES = ("embed_tokens", "lm_head")
"""The names by which peft knows tables of tokens."""

TokenRowsOf = list[tuple[list[AdaptedLayer], list[int]]]

_READ: dict[str, tuple[type, ...]] = {
    "peft_type": (str,),
    "r": (int,),
    "lora_alpha": (int, float),
    "lora_dropout": (int, float),
    "target_modules": (list, str),
    "target_parameters": (list,),
    "exclude_modules": (list, str),
    "use_rslora": (bool,),
    "use_dora": (bool,),
    "ensure_weight_tying": (bool,),
    "modules_to_save": (list,),
    "rank_pattern": (dict,),
    "alpha_pattern": (dict,),
    "layers_to_transform": (list, int),
    "layers_pattern": (list, str),
    "base_model_name_or_path": (str,),
    "task_type": (str,),
    "bias": (str,),
    "trainable_token_indices": (list, dict),
}
"""The keys that mean something here, and their types; null is as if a key were missing."""

_WITHOUT_EFFECT = (
    *("auto_mapping", "peft_version", "revision", "inference_mode", "runtime_config", "megatron_core"),
    *("fan_in_fan_out", "qalora_group_size"),
)
"""Keys that say where an adapter comes from, what the model's own layers say, or something about keys that are off."""

BIASES = ("none", "all", "lora_only")
_LONGEST_SHOWN = 80
_SAME_BASE = (True, False, *KEEP_WEIGHTS)
"""Values of `init_lora_weights` that leave the weights of the base as they are."""


class PeftConfig(NamedTuple):
    """The values of an adapter's config, and the path where they were read."""

    values: Mapping[str, Any]
    path: str

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def places(self, model: nn.Module) -> tuple[dict[AdaptedLayer, AdapterOptions], list[str], bool]:
        """The layers of a model with an adapter and its options, and the paths of modules that are trained whole.

        And whether tied tables among them stay tied. A ModuleTreeError if there are no such layers.
        """
        layers, saved = self._layers(model), self.saved_modules(model)
        together = tied_together(model, layers, saved) if self._ensures_tying() else None
        return (layers, saved, False) if together is None else (*together, True)

    def token_rows(self, model: nn.Module) -> TokenRowsOf:
        """The tables of which the rows of some tokens are trained, tied ones together, and the numbers of these tokens.

        Raises:
            ModuleTreeError: the model has no such table, or tied ones are meant to differ.
        """
        numbers = self.get("trainable_token_indices")
        groups = token_tables(model, self.saved_modules(model)) if numbers else []
        if isinstance(numbers, list):  # of the input table
            numbers = {next(iter(tables_of(model)), "embed_tokens"): numbers}
        chosen: dict[int, list[int]] = {}
        for name, tokens in (numbers or {}).items():
            places = [it for it, tied in enumerate(groups) if any(layer.path.endswith(name) for layer in tied)]
            if not places:
                raise ModuleTreeError(f"trainable_token_indices: no table of tokens '{name}' that is not trained whole")
            if any(chosen.setdefault(place, tokens) != tokens for place in places):
                raise ModuleTreeError(f"trainable_token_indices: '{name}' is tied to a table with other tokens")
        return [(groups[place], tokens) for place, tokens in sorted(chosen.items()) if tokens]

    def _ensures_tying(self) -> bool:
        """True if peft lets tied tables be one: it looks for names, and at the targets if it trains no table whole."""
        if not self.get("ensure_weight_tying", False):
            return False
        saved, targets = self.get("modules_to_save", ()), self.get("target_modules", ())
        if any(it.rpartition(".")[2] in _TABLES for it in saved):
            return True
        if isinstance(targets, str):
            return targets != ALL_LINEAR and any(map(Pattern(targets).fullmatch, _TABLES))
        return any(target.rpartition(".")[2] in _TABLES for target in targets)

    def _layers(self, model: nn.Module) -> dict[AdaptedLayer, AdapterOptions]:
        numbers, patterns = self.get("layers_to_transform"), self.get("layers_pattern", ())
        targets, parameters = self.get("target_modules", ()), self.get("target_parameters", ())
        chosen = select_experts(model, parameters) if parameters else {}
        chosen |= select(
            model,
            targets,
            exclude=self.get("exclude_modules", ()),
            saved=self.get("modules_to_save", ()),
            layers=None if numbers in (None, []) else [numbers] if isinstance(numbers, int) else numbers,
            patterns=[patterns] if isinstance(patterns, str) else [*patterns],
        )
        dropout, dora, rslora = (self.get(key, 0) for key in ("lora_dropout", "use_dora", "use_rslora"))
        ranks, alphas = (
            [(Pattern(_ended(pattern)), value) for pattern, value in self.get(key, {}).items()]
            for key in ("rank_pattern", "alpha_pattern")
        )

        def options(path: str) -> AdapterOptions:
            rank = _by_pattern(ranks, path, self.get("r", 8))
            alpha = _by_pattern(alphas, path, self.get("lora_alpha", 8))
            return AdapterOptions(rank, alpha, dropout, bool(dora), bool(rslora))

        return {layer: options(path) for path, layer in chosen.items()}

    def saved_modules(self, model: nn.Module) -> list[str]:
        """The paths of the modules that are trained whole."""
        ends = self.get("modules_to_save", ())
        return [path for path in module_paths(model) if path.endswith(tuple(ends))] if ends else []


def read_config(directory: str | os.PathLike[str]) -> PeftConfig:
    """Read the config of an adapter.

    Raises:
        RecordIOError: there is none, or it can't be read.
        RecordFormatError: it is no config of LoRA, or says something that is not known here.
    """
    path = Path(directory) / CONFIG_NAME
    try:
        values = json.loads(read_regular(path, _MOST_BYTES))
    except OSError as error:
        raise RecordIOError(f"{path}: can't be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"{path}: is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise RecordFormatError(f"{path}: expected a mapping, got {type(values).__name__}")
    if values.get("peft_type") != "LORA":
        raise RecordFormatError(f"{path}: peft_type: expected LORA, got {_shown(values.get('peft_type'))}")
    present = {key: value for key, value in values.items() if value is not None}
    # Types first, as the other checks rely on them.
    problems = [problem for key, value in present.items() if (problem := _problem(key, value))]
    if problems or (problems := [*_wrong_values(present)]):
        raise RecordFormatError(f"{path}: {'; '.join(problems)}")
    return PeftConfig(values, str(path))


def _problem(key: str, value: Any) -> str:
    if (types := _READ.get(key)) is not None:
        fits = isinstance(value, types) and isinstance(value, bool) == (types == (bool,))
        return "" if fits else f"{key}: expected {' or '.join(it.__name__ for it in types)}, got {_shown(value)}"
    if key == "init_lora_weights":
        hint = "let peft convert it as it saves it (path_initial_model_for_weight_conversion)"
        return "" if value in _SAME_BASE else f"{key}: {_shown(value)} changes the weights of the base: {hint}"
    if key in _WITHOUT_EFFECT or value in (False, {}, [], ""):
        return ""
    return f"{_shown(key)[1:-1]}: {str(value)[:80]!r} is not known here{nearest(key, [*_READ])}"


def _wrong_values(config: Mapping[str, Any]) -> Iterable[str]:
    if not config.get("target_modules") and not config.get("target_parameters"):
        yield "target_modules: expected the layers with an adapter"
    for key in ("target_modules", "target_parameters", "exclude_modules", "modules_to_save", "layers_pattern"):
        names = config.get(key)
        if isinstance(names, list) and not all(isinstance(name, str) and name for name in names):
            yield f"{key}: expected names, got {_shown(names)}"
        elif isinstance(names, str) and names != ALL_LINEAR and (problem := pattern_problem(names)):
            yield f"{key}: {problem}"
    patterns = config.get("layers_pattern", [])
    for pattern in patterns if isinstance(patterns, list) else []:
        if problem := pattern_problem(pattern) if isinstance(pattern, str) else "":
            yield f"layers_pattern: {problem}"
    if config.get("bias", "none") not in BIASES:
        yield f"bias: expected {', '.join(BIASES)}, got {_shown(config['bias'])}"
    tokens = config.get("trainable_token_indices", [])
    for rows in tokens.values() if isinstance(tokens, dict) else [tokens]:
        if not isinstance(rows, list) or not all(type(row) is int and 0 <= row < _HIGHEST for row in rows):
            yield f"trainable_token_indices: expected numbers of tokens, got {_shown(rows)}"
        elif len({*rows}) < len(rows):
            yield f"trainable_token_indices: expected each token once, got {_shown(rows)}"
    numbers = config.get("layers_to_transform")
    if isinstance(numbers, list) and not all(type(number) is int for number in numbers):
        yield f"layers_to_transform: expected numbers of layers, got {_shown(numbers)}"
    if not 0 <= config.get("lora_dropout", 0) < 1:
        yield f"lora_dropout: expected a share >= 0 and < 1, got {_shown(config['lora_dropout'])}"
    counts = {"r": config.get("r", 8), **{f"rank_pattern.{it}": n for it, n in config.get("rank_pattern", {}).items()}}
    sizes = {f"alpha_pattern.{it}": n for it, n in config.get("alpha_pattern", {}).items()}
    for key, value in {"lora_alpha": config.get("lora_alpha", 8), **sizes, **counts}.items():
        is_number = isinstance(value, int if key in counts else int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= _HIGHEST:
            limit = "> 0" if not is_number or not value > _HIGHEST else f"<= {_HIGHEST}"
            kind = "a whole number" if key in counts else "a number"
            yield f"{key}: expected {kind} {limit}, got {_shown(value)}"
    for key in ("rank_pattern", "alpha_pattern"):
        patterns = config.get(key, {})
        if len(patterns) > _MOST_PATTERNS:
            yield f"{key}: expected at most {_MOST_PATTERNS} patterns, got {len(patterns)}"
        else:
            both = ((pattern_problem(it), pattern_problem(_ended(it))) for it in patterns)
            yield from (f"{key}: {alone or ended}" for alone, ended in both if alone or ended)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _ended(pattern: str) -> str:
    """The expression for whole paths that peft makes of one for their ends."""
    return rf"(.*\.)?({pattern})$"


def _by_pattern(patterns: Iterable[tuple[Pattern, Any]], path: str, default: Any) -> Any:
    return next((value for pattern, value in patterns if pattern.match(path)), default)


def written_config(
    model: nn.Module,
    layers: Mapping[str, AdaptedLayer],
    saved: list[str],
    bias: str,
    base: str | None,
    task_type: str | None,
) -> dict[str, Any]:
    """The config of the adapters that a model has, in peft's keys."""
    loras = {path: layer.lora for path, layer in layers.items() if layer.lora is not None}
    ranks = {path: lora.a.shape[1] for path, lora in loras.items()}
    alphas = {path: _whole(lora.scale * lora.a.shape[1]) for path, lora in loras.items()}
    rank, alpha = _most(ranks.values()), _most(alphas.values())
    together = [*map(id, loras.values())]
    together += [id(parameter) for path in saved for parameter in {*model.get_submodule(path).parameters()}]
    return {
        "peft_type": "LORA",
        "task_type": task_type,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {f"^{re.escape(path)}": it for path, it in ranks.items() if it != rank},
        "alpha_pattern": {f"^{re.escape(path)}": it for path, it in alphas.items() if it != alpha},
        "lora_dropout": _most([lora.dropout for lora in loras.values()]),
        "target_modules": _targets(model, {path: it for path, it in layers.items() if it.kind != "experts"}, saved),
        "target_parameters": [path for path, layer in layers.items() if layer.kind == "experts"] or None,
        "modules_to_save": saved or None,
        "trainable_token_indices": {path: [*rows.tokens] for path, rows in token_rows_of(model).items()} or None,
        "ensure_weight_tying": len({*together}) < len(together),
        "fan_in_fan_out": any(layer.kind == "conv1d" for layer in layers.values()),
        "bias": bias,
        "use_dora": any(lora.magnitude is not None for lora in loras.values()),
        "use_rslora": False,
        "init_lora_weights": True,
    }


def _targets(model: nn.Module, layers: Mapping[str, AdaptedLayer], saved: list[str]) -> list[str] | str:
    """Ends of paths that mean just these layers, or else a regular expression."""
    ends = sorted({path.rpartition(".")[2] for path in layers})
    if not ends:
        return []
    if not any(end.isdigit() for end in ends):
        paths = {path for path in module_paths(model) if path in ends or path.endswith(tuple(f".{it}" for it in ends))}
        if paths == {*layers}:
            return ends
    return "|".join(re.escape(path) for path in sorted(layers))


def _most(values: Iterable[Any]) -> Any:
    counted = [*values]
    return max({*counted}, key=counted.count)


def _whole(value: float) -> int | float:
    near = round(value)
    # alpha / rank * rank may be off by a rounding, and peft writes whole numbers.
    return near if math.isclose(value, near, rel_tol=1e-15) else value
