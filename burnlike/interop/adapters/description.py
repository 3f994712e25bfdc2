"""What `adapter_config.json` of peft says: which layers have adapters, and how these compute. Imports no torch."""

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._regular_file import read_regular
from ...errors import ConfigError, ConfigIOError

CONFIG_NAME, WEIGHTS_NAME = "adapter_config.json", "adapter_model.safetensors"
ALL_LINEAR = "all-linear"
_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterDescription:
    """The adapters of a model, with the meaning that peft's LoraConfig gives to it.

    Attributes:
        rank: of the matrices, where `rank_pattern` says no other.
        alpha: the product is scaled by alpha / rank, with `rslora` by alpha / sqrt(rank).
        targets: ends of the names of layers; or a regular expression for the whole name, or `all-linear`.
        exclude: layers without an adapter, in the same ways.
        layers: numbers of the blocks whose layers have adapters; empty for all.
        layers_pattern: names of the lists of blocks; empty for any.
        rank_pattern, alpha_pattern: a regular expression for the end of a layer's name -> another rank or alpha.
        dropout: share of a layer's input that its adapter is not given in training.
        dora: whether the sum of weights has a magnitude that is trained (Liu et al. 2024).
        modules_to_save: ends of the names of modules that are trained as they are, and saved whole.
        base: of which model.
    """

    rank: int = 8
    alpha: float = 8
    targets: tuple[str, ...] | str = ALL_LINEAR
    exclude: tuple[str, ...] | str = ()
    layers: tuple[int, ...] = ()
    layers_pattern: tuple[str, ...] = ()
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    dropout: float = 0.0
    dora: bool = False
    rslora: bool = False
    modules_to_save: tuple[str, ...] = ()
    base: str | None = None

    def is_saved_whole(self, path: str) -> bool:
        """Whether a module is one of `modules_to_save`."""
        return any(path.endswith(name) for name in self.modules_to_save)

    def names(self, path: str) -> bool:
        """Whether a layer is one of the targets; `all-linear` has to be known before."""
        if _is_named(path, self.exclude) or any(
            re.match(rf"(^|.*\.){name}($|\..*)", path) for name in self.modules_to_save
        ):
            return False
        if not _is_named(path, self.targets):
            return False
        is_whole_name = isinstance(self.targets, str) or path in self.targets
        return not self.layers or is_whole_name or self._block(path) in self.layers

    def _block(self, path: str) -> int | None:
        patterns = [rf"(?:^|.*?\.){name}\.(?P<at>\d+)\." for name in self.layers_pattern]
        found = filter(None, (re.match(pattern, path) for pattern in patterns or [r".*?\.[^.]*\.(?P<at>\d+)\."]))
        return next((int(it["at"]) for it in found), None)

    def rank_of(self, path: str) -> int:
        return int(_by_pattern(self.rank_pattern, path, self.rank))

    def scale_of(self, path: str) -> float:
        rank = self.rank_of(path)
        return _by_pattern(self.alpha_pattern, path, self.alpha) / (math.sqrt(rank) if self.rslora else rank)


def _is_named(path: str, names: tuple[str, ...] | str) -> bool:
    if isinstance(names, str):
        return bool(names) and re.fullmatch(names, path) is not None
    return any(path == name or path.endswith(f".{name}") for name in names)


def _by_pattern(patterns: Mapping[str, float], path: str, default: float) -> float:
    return next((value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", path)), default)


def _any(value: Any) -> bool:
    return True


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, RecursionError):
        return False
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(it, str) and it for it in value)


def _names_or_pattern(value: Any) -> bool:
    return value is None or _is_pattern(value) or _are_names(value)


def _are_patterns(value: Any) -> bool:
    return value is None or _is_pattern(value) or (_are_names(value) and all(map(_is_pattern, value)))


def _are_numbers(value: Any) -> bool:
    return value is None or _is_whole(value) or (isinstance(value, list) and all(map(_is_whole, value)))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _sizes_by_pattern(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict) and all(map(_is_pattern, value)) and all(map(_is_size, value.values()))
    )


def _numbers_by_pattern(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict) and all(map(_is_pattern, value)) and all(map(_is_number, value.values()))
    )


def _only(*values: Any) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: any(value is it or (value == it and type(value) is type(it)) for it in values)), (
        f"expected {' or '.join(json.dumps(it) for it in values)}, which burnlike has nothing else for"
    )


_OFF = _only(None, False)
_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "r": (_is_size, "expected a whole number of at least 1"),
    "lora_alpha": (_is_number, "expected a number above 0"),
    "lora_dropout": (_is_share, "expected a number from 0 to below 1"),
    "target_modules": (_names_or_pattern, "expected names of layers, or a regular expression"),
    "exclude_modules": (_names_or_pattern, "expected names of layers, or a regular expression"),
    "modules_to_save": (lambda it: it is None or _are_patterns(it), "expected names of modules"),
    "layers_to_transform": (_are_numbers, "expected whole numbers"),
    "layers_pattern": (_are_patterns, "expected names of lists of layers"),
    "rank_pattern": (_sizes_by_pattern, "expected whole numbers by regular expressions"),
    "alpha_pattern": (_numbers_by_pattern, "expected numbers by regular expressions"),
    "use_dora": (_is_bool, "expected true or false"),
    "use_rslora": (_is_bool, "expected true or false"),
    "base_model_name_or_path": (_is_text, "expected a text"),
    # What changes nothing in a trained adapter.
    "peft_type": _only("LORA"),
    "task_type": (_is_text, "expected a text"),
    "auto_mapping": (_any, ""),
    "peft_version": (_any, ""),
    "revision": (_any, ""),
    "inference_mode": (_is_bool, "expected true or false"),
    "fan_in_fan_out": (_is_bool, "expected true or false"),
    "megatron_core": (_any, ""),
    "qalora_group_size": (_any, ""),
    "init_lora_weights": _only(True, False, "gaussian", "orthogonal", "eva"),
    # What would change it, where it is on.
    "bias": _only("none"),
    "loftq_config": _only(None, {}),
    "runtime_config": _only(None, {}, {"ephemeral_gpu_offload": False}),
    "ensure_weight_tying": _OFF,
    "lora_bias": _OFF,
    "use_qalora": _OFF,
    "use_bdlora": _OFF,
    "target_parameters": _only(None, []),
    **dict.fromkeys(
        (
            "alora_invocation_tokens",
            "arrow_config",
            "corda_config",
            "eva_config",
            "kasa_config",
            "layer_replication",
            "lora_ga_config",
            "megatron_config",
            "monteclora_config",
            "trainable_token_indices",
            "velora_config",
        ),
        _only(None),
    ),
}
"""By the key of peft's LoraConfig which values are read, and what else is said. Of other keys only null is read."""
_UNKNOWN = _only(None)[0], "is not known here, and may change what the adapter computes; expected null"


def read_description(directory: str | os.PathLike[str]) -> AdapterDescription:
    """Read the `adapter_config.json` of a directory.

    Raises:
        ConfigIOError: it can't be read.
        ConfigError: it asks for something that is not known here, each named.
    """
    path = os.path.join(directory, CONFIG_NAME)
    try:
        found = json.loads(read_regular(path, _MOST_BYTES))
    except RecursionError as error:
        raise ConfigIOError(f"{path}: can't be read: it is nested too deeply") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigIOError(
            f"{path}: expected the {CONFIG_NAME} of an adapter, which can't be read: {reason}"
        ) from error
    if not isinstance(found, dict):
        raise ConfigIOError(f"{path}: expected a mapping, got {type(found).__name__}")
    wrong = []
    for key, value in ({"peft_type": None} | found).items():
        is_read, said = _KEYS.get(key, _UNKNOWN)
        if not is_read(value):
            wrong.append(f"{key}: {said}, got {json.dumps(value)[:80]}")
    if found.get("target_modules") is None:
        wrong.append("target_modules: expected names of layers, or a regular expression, got null")
    if wrong:
        raise ConfigError(f"{path}: this adapter can't be read: {'; '.join(wrong)}")
    return _described(found)


def _described(found: Mapping[str, Any]) -> AdapterDescription:
    targets = found["target_modules"]
    if isinstance(targets, str) and targets.lower() == ALL_LINEAR:
        targets = ALL_LINEAR
    return AdapterDescription(
        rank=found.get("r", 8),
        alpha=found.get("lora_alpha", 8),
        targets=targets if isinstance(targets, str) else tuple(targets),
        exclude=_names(found.get("exclude_modules"), is_pattern=True),
        layers=_numbers(found.get("layers_to_transform")),
        layers_pattern=tuple(_names(found.get("layers_pattern"))),
        rank_pattern=found.get("rank_pattern") or {},
        alpha_pattern=found.get("alpha_pattern") or {},
        dropout=float(found.get("lora_dropout", 0.0)),
        dora=found.get("use_dora", False),
        rslora=found.get("use_rslora", False),
        modules_to_save=tuple(_names(found.get("modules_to_save"))),
        base=found.get("base_model_name_or_path"),
    )


def _names(value: str | Sequence[str] | None, *, is_pattern: bool = False) -> Any:
    if isinstance(value, str):
        return value if is_pattern else (value,)
    return tuple(value or ())


def _numbers(value: int | Sequence[int] | None) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value or ())


def peft_config(description: AdapterDescription, task_type: str | None, *, inputs_first: bool) -> dict[str, Any]:
    """The content of `adapter_config.json`; peft takes its own defaults for keys that are not there.

    `inputs_first` says whether weights are `[d_input, d_output]`, as those of transformers' Conv1D.
    """
    targets = description.targets
    return {
        "peft_type": "LORA",
        "task_type": task_type,
        "base_model_name_or_path": description.base,
        "r": description.rank,
        "lora_alpha": description.alpha,
        "lora_dropout": description.dropout,
        "target_modules": targets if isinstance(targets, str) else list(targets),
        "modules_to_save": list(description.modules_to_save) or None,
        "rank_pattern": dict(description.rank_pattern),
        "alpha_pattern": dict(description.alpha_pattern),
        "use_dora": description.dora,
        "use_rslora": description.rslora,
        "fan_in_fan_out": inputs_first,
        "bias": "none",
        "inference_mode": True,
    }
