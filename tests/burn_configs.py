"""Burn's configs of layers, optimizers and schedulers, as its files and vectors have them, as configs of burnlike.

Nothing is passed over: a type, a clipping or a field that is not known is an error.
"""

import math
import struct
from collections.abc import Mapping
from typing import Any

from burnlike import optim
from burnlike.config import LrSchedulerConfig, ModuleConfig, registry
from burnlike.module import ParamGroup
from burnlike.optim import ClipByNorm, ClipByValue, GradientClipping, ModuleOptimizerConfig
from burnlike.record.burn.state_layouts import STATES

_CLIPPINGS: Mapping[str, type[ClipByNorm] | type[ClipByValue]] = {"Norm": ClipByNorm, "Value": ClipByValue}
_SCHEDULERS: Mapping[str, type[LrSchedulerConfig]] = {
    "Constant": optim.ConstantLrConfig,
    "Linear": optim.LinearLrConfig,
    **dict.fromkeys(["Cosine", "CosineAnnealing"], optim.CosineAnnealingConfig),
    "Exponential": optim.ExponentialLrConfig,
    "Noam": optim.NoamLrConfig,
    "Step": optim.StepLrConfig,
    "Composed": optim.ComposedLrConfig,
    "Sequential": optim.SequentialLrConfig,
}
_FLOAT64 = ("lr_decay", "decay_rate")
"""Fields that Burn keeps in float64; it rounds all other numbers to float32."""


class UnknownConfigError(Exception):
    """A config of Burn's has something that is not known."""


def optimizer_config(kind: str, fields: Mapping[str, Any]) -> ModuleOptimizerConfig:
    """The config of burnlike for one of Burn's, its numbers rounded as Burn rounds them.

    Args:
        kind: Burn's name of the optimizer.
        fields: of its config; those left out have their defaults, which are rounded likewise.

    Raises:
        UnknownConfigError: the optimizer, a clipping or a field is unknown.
        ConfigError: a value is out of range.
    """
    if kind not in STATES:
        raise UnknownConfigError(f"the type {kind!r} is unknown")
    made: type[ModuleOptimizerConfig] = getattr(optim, f"{kind}Config")
    converted: dict[str, Any] = {}
    name: str
    value: Any
    for name, value in fields.items():
        if name in ("grad_clipping", "gradient_clipping"):
            if (name == "gradient_clipping" and kind != "Sgd") or kind == "Muon":
                raise UnknownConfigError(f"{kind} has no field {name!r}")
            converted["grad_clipping"] = None if value is None else clipping_of(value)
        elif name == "weight_decay" and (value is None or isinstance(value, Mapping)):
            converted[name] = 0.0 if value is None else _only(value, "penalty")
        elif name == "momentum" and isinstance(value, Mapping):
            converted[name] = optim.MomentumConfig(**_known(optim.MomentumConfig, value))
        elif name == "groups":
            converted[name] = tuple(_group(it) for it in value)
        elif name not in made.__struct_fields__ or name in ModuleOptimizerConfig.__struct_fields__:
            raise UnknownConfigError(f"{kind} has no field {name!r}")
        else:
            converted[name] = tuple(value) if isinstance(value, list) else value
    config = made(**converted)
    numbers = {name: getattr(config, name) for name in made.__struct_fields__ if name not in _FLOAT64}
    return config.replace(**{name: _narrow(it) for name, it in numbers.items() if _has_numbers(it)})


def lbfgs_config(fields: Mapping[str, Any]) -> optim.LbfgsConfig:
    """The config of L-BFGS for one of Burn's; its numbers are float64 there, too.

    Raises:
        UnknownConfigError: a field is unknown.
        ConfigError: a value is out of range.
    """
    known: dict[str, Any] = _known(optim.LbfgsConfig, fields)
    if known.get("line_search_fn") == "None":
        known["line_search_fn"] = None
    return optim.LbfgsConfig(**known)


def clipping_of(config: Mapping[str, float]) -> GradientClipping:
    """Burn's gradient clipping: `{"Norm": threshold}` or `{"Value": threshold}`.

    Raises:
        UnknownConfigError: it is neither.
    """
    if len(config) != 1 or (name := next(iter(config))) not in _CLIPPINGS:
        raise UnknownConfigError(f"the gradient clipping {config!r} is unknown")
    return _CLIPPINGS[name](threshold=_narrow(config[name]))


def scheduler_config(kind: str, fields: Mapping[str, Any] | float, *, restart: bool) -> LrSchedulerConfig:
    """The config of burnlike for one of Burn's.

    Args:
        kind: Burn's name of the scheduler, with or without `Lr` and `LrScheduler`.
        fields: of its config, or the rate of a constant one. Schedulers in it are `{"type": name, fields}` or
            `{name: fields}`.
        restart: whether cosines restart, as in Burn 0.21.

    Raises:
        UnknownConfigError: the scheduler or a field is unknown.
        ConfigError: a value is out of range.
    """
    short = kind.removesuffix("Scheduler").removesuffix("Lr")
    if short not in _SCHEDULERS:
        raise UnknownConfigError(f"the type {kind!r} is unknown")
    made = _SCHEDULERS[short]
    if not isinstance(fields, Mapping):
        fields = {"lr": fields}
    converted = dict(fields)
    if made is optim.CosineAnnealingConfig:
        converted["restart"] = restart
    if "schedulers" in fields:
        converted["schedulers"] = [_nested_scheduler(below, restart) for below in fields["schedulers"]]
    if "reduction" in fields:
        converted["reduction"] = fields["reduction"].lower()
    return made(**_known(made, converted))


def module_types() -> Mapping[str, type[ModuleConfig]]:
    """The configs of the layers and losses of `burnlike.nn`, by Burn's names."""
    registry.load_built_in()
    found = registry.imported(ModuleConfig)
    return {name: made for name, made in found.items() if made.__module__.startswith("burnlike.nn.")}


def module_config(kind: str, fields: Mapping[str, Any]) -> ModuleConfig:
    """The config of burnlike for one of Burn's layers or losses.

    Args:
        kind: Burn's name of the layer.
        fields: of its config as Burn writes them; those left out have their defaults.

    Raises:
        UnknownConfigError: the layer or a field is unknown.
        ConfigError: a value is out of range.
    """
    made = module_types().get(kind)
    if made is None:
        raise UnknownConfigError(f"the type {kind!r} is unknown")
    known = {name if name != "lambda" else "lambd": value for name, value in fields.items()}
    return made.from_dict({"type": kind, **{name: _field(name, it) for name, it in _known(made, known).items()}})


_LOWER = ("layout", "reduction")


def _field(name: str, value: Any) -> Any:
    """A value in Burn's form, whose enums are `"Variant"` or `{"Variant": its fields}`, as a config takes it."""
    if name in _LOWER:
        return value.lower()
    if name == "padding" and isinstance(value, Mapping):
        return _only(value, "Explicit")
    if name == "initializer" or name.endswith("activation"):
        if isinstance(value, str):
            return {"type": value}
        ((variant, fields),) = value.items()
        return {"type": variant, **(fields or {})}
    return value


def _nested_scheduler(config: Mapping[str, Any], restart: bool) -> LrSchedulerConfig:
    if "type" in config:
        fields = {name: value for name, value in config.items() if name != "type"}
        return scheduler_config(config["type"], fields, restart=restart)
    if len(config) != 1:
        raise UnknownConfigError(f"the scheduler {config!r} is unknown")
    ((kind, fields),) = config.items()
    return scheduler_config(kind, fields, restart=restart)


def _group(config: Mapping[str, Any]) -> optim.OptimizerGroupConfig:
    """A group of the parameters whose path contains a text."""
    if config.keys() != {"path", "optimizer"}:
        raise UnknownConfigError(f"the group {sorted(config)} has other fields than path and optimizer")
    fields = {name: value for name, value in config["optimizer"].items() if name != "type"}
    rule = optimizer_config(config["optimizer"]["type"], fields)
    if rule.grad_clipping is None:  # Burn clips nothing then, where burnlike would as the base does
        rule = rule.replace(grad_clipping=ClipByValue(threshold=math.inf))
    return optim.OptimizerGroupConfig(params=ParamGroup.from_predicate(config["path"]), optimizer=rule)


def _only(config: Mapping[str, Any], name: str) -> Any:
    if config.keys() != {name}:
        raise UnknownConfigError(f"expected {{{name!r}: ...}}, got {config!r}")
    return config[name]


def _known(made: type[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(fields.keys() - set(made.__struct_fields__)):
        raise UnknownConfigError(f"{made.__name__} has no field {unknown[0]!r}")
    return dict(fields)


def _has_numbers(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, tuple) and bool(value) and isinstance(value[0], float))


def _narrow(value: Any) -> Any:
    """A number, or each of several, as float32 has it."""
    if isinstance(value, tuple):
        return tuple(map(_narrow, value))
    return struct.unpack("f", struct.pack("f", value))[0]
