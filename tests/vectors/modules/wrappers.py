"""Activations and normalizations as parts of other layers, whose config says which one it is."""

import copy
import re
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
    config: Any = subject.config()
    field = nn.Activation.of(config, subject.world.device)
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
    result = Result.of(subject.world, subject.called(field))
    if not torch.equal(result.single(), subject.world.plain(subject.called(alone))):
        raise Failure("as a field it gives something else")
    return result


def normalized(subject: Subject) -> Result:
    """A normalization as a field, which also says how many features it has."""
    form = subject.record["config"]
    config = chosen(form, NORMALIZATIONS)
    field = nn.Normalization.of(config).train(subject.training)
    alone: Any = copy.deepcopy(field.value)
    wanted = 0 if form == "Identity" else 12
    if field.num_features != wanted:
        raise Failure(f"expected {wanted} features, got {field.num_features}")
    return compared(subject, field, alone)


def features(subject: Subject) -> Result:
    """The number of features that configs have, before and after it is set."""
    for before in (8, 0):  # what is in the record is 0, which burnlike's configs refuse
        for text in subject.record["config"]:
            name, *numbers = re.findall(r"\w+", text)
            made: Any = getattr(nn, f"{name}Config")
            given = [*map(int, numbers[:-1]), before]
            config = made(**dict(zip(made.__struct_fields__, given, strict=False)))
            counts = config.num_features, config.with_num_features(12).num_features
            if counts != (before, 12):
                raise UnknownError(f"{text} with {before} features, then 12, has {counts}")
    return Result(subject.world, {"num_features_before": 0, "num_features_after_with_num_features_12": 12})


WRAPPED: dict[tuple[str, str], Callable[[Subject], Result]] = {
    (
        "forward",
        "ActivationConfig::SwiGlu(3 -> 6) output equals a SwiGlu loaded with the same record",
    ): same_as_alone,
    ("forward", "wrapper output == inner layer output; num_features() == 12"): normalized,
    ("forward", "output == input; num_features() == 0"): normalized,
}
"""Properties by their call and text."""

WRAPPED_CALLS: dict[str, Callable[[Subject], Result]] = {"num_features / with_num_features(12)": features}
"""Calls that return something."""
