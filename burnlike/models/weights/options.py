"""What a `config.json` of Hugging Face says, as configs of ours have it. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigError, nearest
from ...nn.activation.configs import SigmoidConfig, TanhConfig
from ...nn.activation.rectifier_configs import GeluConfig, ReluConfig, SiLUConfig
from ...nn.roles import ActivationConfig

_ACTIVATIONS: Mapping[str, ActivationConfig] = {
    "gelu": GeluConfig(),
    "gelu_new": GeluConfig(approximate=True),
    "gelu_pytorch_tanh": GeluConfig(approximate=True),
    "relu": ReluConfig(),
    "sigmoid": SigmoidConfig(),
    "silu": SiLUConfig(),
    "swish": SiLUConfig(),
    "tanh": TanhConfig(),
}


def activation_of(name: str) -> ActivationConfig:
    """The activation that transformers calls `name`.

    Raises:
        ConfigError: there is none.
    """
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise ConfigError(f"there is no activation '{name}'{nearest(name, [*_ACTIVATIONS])}; expected one of {known}")
    return _ACTIVATIONS[name]


def refuse_others(values: Mapping[str, Any], kind: str, **expected: Any) -> None:
    """Refuse options that a model of ours does not have.

    Args:
        values: the content of `config.json`.
        kind: the class of ours.
        expected: the value of each option that ours has, which is also its default.

    Raises:
        ConfigError: options have other values.
    """
    wrong = [
        f"{name}: expected {value!r}, got {values[name]!r}"
        for name, value in expected.items()
        if values.get(name, value) != value
    ]
    if wrong:
        raise ConfigError(f"{kind} has no such model\n" + "\n".join(f"  {it}" for it in wrong))


def num_classes_of(values: Mapping[str, Any]) -> int:
    """The number of classes of a classifier: of its labels, of which transformers writes no number."""
    return int(values.get("num_labels", len(values.get("id2label", ("", "")))))
