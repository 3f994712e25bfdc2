"""The options of a parameter group under torch's names, and the fields of the rule's config."""

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from ..optim.rules.config_base import ModuleOptimizerConfig, MomentumConfig
from ..optim.rules.simple_optimizer import SimpleOptimizer

Options = dict[str, Any]

_BETAS = ("beta_1", "beta_2", "beta_3")
_FIELD_OF = {"weight_decay": "weight_decay", "eps": "epsilon", "alpha": "alpha"}
# What torch's optimizers take in a group and what is of the whole optimizer here, or of the form of its states.
_OF_CONFIG = {"maximize", "amsgrad", "centered", "dampening", "nesterov", "lr_decay", "lr_factor"}
OPTIONS = (*_FIELD_OF, "betas", "momentum")
"""The options that groups may have beside `lr`."""


def options_of(rule: SimpleOptimizer[Any]) -> Options:
    """The options that a rule has, with their values: none where it was not made from a config."""
    config = _config_of(rule)
    if config is None:
        return {}
    fields = config.__struct_fields__
    found = {name: getattr(config, field) for name, field in _FIELD_OF.items() if field in fields}
    betas = [field for field in _BETAS if field in fields]
    if betas:
        found["betas"] = tuple(getattr(config, field) for field in betas)
    momentum = getattr(config, "momentum", None)
    if momentum is not None:
        found["momentum"] = momentum.momentum if isinstance(momentum, MomentumConfig) else momentum
    return {name: value for name, value in found.items() if value is not None}


def with_options(rule: SimpleOptimizer[Any], given: Mapping[str, Any]) -> SimpleOptimizer[Any]:
    """A rule with other options; the same object where they are those that it has.

    Args:
        rule: is not changed.

    Raises:
        ConfigError: it does not have one of them, or a value is out of range.
    """
    own = options_of(rule)
    missing = next((name for name in given if name not in own), None)
    if missing is not None:
        raise ConfigError(f"TorchOptimizer: {missing}: {type(rule).__name__} has none")
    changed = {name: value for name, value in given.items() if not _same(value, own[name])}
    if not changed:
        return rule
    config = _config_of(rule)
    fields: Options = {}
    for name, value in changed.items():
        if name == "betas":
            fields |= _betas(value, len(own[name]), type(rule).__name__)
        elif name == "momentum" and isinstance(config.momentum, MomentumConfig):
            fields[name] = config.momentum.replace(momentum=_number(name, value))
        else:
            fields[_FIELD_OF.get(name, name)] = _number(name, value)
    return config.replace(**fields).build()


def refuse_unknown(rule: SimpleOptimizer[Any], group: Mapping[str, Any], maximize: bool) -> None:
    """Refuse what a group says of its rule and what could not take effect; other keys are the program's own.

    Raises:
        ConfigError: it says such a thing.
    """
    config = _config_of(rule)
    known = _OF_CONFIG | set(() if config is None else config.__struct_fields__) - {*OPTIONS}
    for name in sorted(known & group.keys()):
        if name != "maximize" or bool(group[name]) != maximize:
            raise ConfigError(
                f"TorchOptimizer: '{name}' can't be set in one of params= or added groups; set it in the config."
                f" Groups take lr, {', '.join(OPTIONS)}"
            )


def _config_of(rule: SimpleOptimizer[Any]) -> Any:
    config = getattr(rule, "config", None)
    return config if isinstance(config, ModuleOptimizerConfig) else None


def _same(one: Any, other: Any) -> bool:
    return tuple(one) == other if isinstance(one, list) else one == other


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"TorchOptimizer: {name}: expected a number, got {value!r:.80}") from error


def _betas(values: Any, count: int, rule: str) -> Options:
    if not isinstance(values, list | tuple) or len(values) != count:
        raise ConfigError(f"TorchOptimizer: betas: expected {count} numbers for {rule}, got {values!r:.80}")
    return {field: _number("betas", value) for field, value in zip(_BETAS, values, strict=False)}
