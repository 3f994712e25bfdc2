"""Activations and normalizations as parts of other layers, whose config says which one it is."""

from collections.abc import Callable
from typing import Any

import torch

from burnlike import nn
from burnlike.record import Record
from tests.burn_configs import UnknownConfigError, module_config

from ..problems import UnknownError
from .expectations import Failure
from .results import Result
from .subject import Subject

NORMALIZATIONS = {
    "Batch": "BatchNorm",
    "Group": "GroupNorm",
    "Instance": "InstanceNorm",
    "Layer": "LayerNorm",
    "Rms": "RmsNorm",
    "Identity": "Identity",
}


def chosen(form: Any, names: dict[str, str] | None = None) -> Any:
    """The config of a variant: `"Name"`, or `{"Name": its fields}`."""
    if isinstance(form, str):
        form = {form: {}}
    if not isinstance(form, dict) or len(form) != 1:
        raise UnknownError(f"unknown variant {form!r}")
    ((name, fields),) = form.items()
    if names is not None and name not in names:
        raise UnknownError(f"unknown variant {name!r}")
    try:
        return module_config(name if names is None else names[name], fields)
    except UnknownConfigError as error:
        raise UnknownError(str(error)) from error


def activation_field(subject: Subject) -> Any:
    """The activation of the record as a field of another layer."""
    field = nn.Activation.of(subject.config(), subject.world.device)
    subject.fill(field.value)
    return field


def same_as_alone(subject: Subject) -> Result:
    """A SwiGlu as a field, and one with the same record."""
    config = chosen(subject.record["config"])
    field, alone = nn.Activation.of(config), config.init()
    Record.from_module(field.value).load_into(alone)
    return compared(subject, field, alone)


def compared(subject: Subject, field: Any, alone: Any) -> Result:
    """Both give the same numbers."""
    result = Result.of(subject.world, field(*subject.arguments()))
    if not torch.equal(result.single(), subject.world.plain(alone(*subject.arguments()))):
        raise Failure("as a field it gives something else")
    return result


WRAPPED: dict[tuple[str, str], Callable[[Subject], Result]] = {
    (
        "forward",
        "ActivationConfig::SwiGlu(3 -> 6) output equals a SwiGlu loaded with the same record",
    ): same_as_alone,
}
"""Properties by their call and text."""
