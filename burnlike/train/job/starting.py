"""The model that a run starts with: its first values, and which of its parameters are trained."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from ...errors import ConfigError, nearest
from ...module import params
from ...record import load
from .configs import InitFromConfig, TrainConfig

_SHOWN = 5


def first_model(config: TrainConfig) -> nn.Module:
    """The model on the CPU with values of its record, or drawn ones.

    It is made on the CPU so that the initial values do not depend on the device.

    Raises:
        RecordError: the record can't be read, or does not fit the model.
        ConfigError: a pattern of `init_from.skip` matches nothing.
    """
    source = config.init_from
    if source is None:
        return config.model.init("cpu")
    if isinstance(source, str):
        return config.model.init_from(source, "cpu")
    model = config.model.init("cpu")
    options: dict[str, Any] = {"strict": source.strict, "remap": source.rename}
    if source.skip:
        options["filter"] = lambda path: not _is_skipped(source, path)
    report = load(model, source.path, **options)
    for place, pattern in enumerate(source.skip):
        if not any(re.search(pattern, path) for path in report.skipped):
            known = _listed([*report.applied, *report.unexpected])
            raise ConfigError(
                f"init_from.skip.{place}: matches nothing in the model or in {source.path} ({known}): '{pattern}'"
            )
    return model


def _is_skipped(source: InitFromConfig, path: str) -> bool:
    return any(re.search(pattern, path) for pattern in source.skip)


def choose_trained(model: nn.Module, config: TrainConfig) -> None:
    """Freeze what `freeze` and `trainable` say, in place.

    Raises:
        ConfigError: a pattern matches no parameter, or nothing is left to train.
    """
    for path, message in untrained_problems(model, config):
        raise ConfigError(f"{path}: {message}")
    for param in params(model, "weight") if config.freeze or config.trainable else ():
        paths = (param.path, *param.aliases)
        if _matches(config.trainable, paths):
            param.set_require_grad(True)
        elif not config.freeze or _matches(config.freeze, paths):
            param.set_require_grad(False)


def untrained_problems(model: nn.Module, config: TrainConfig) -> Iterator[tuple[str, str]]:
    """The paths in the config of patterns that match no parameter, and of one that leaves nothing to train."""
    if not (config.freeze or config.trainable):
        return
    weights = [(param, (param.path, *param.aliases)) for param in params(model, "weight")]
    known = [paths[0] for _, paths in weights]
    before = [*_unmatched("freeze", config.freeze, known, weights)]
    before += _unmatched("trainable", config.trainable, known, weights)
    yield from before
    left = any(
        _matches(config.trainable, paths)
        or (param.trainable and bool(config.freeze) and not _matches(config.freeze, paths))
        for param, paths in weights
    )
    if not (before or left):
        yield "freeze", "leaves no parameter to train"


def _unmatched(field: str, patterns: Sequence[str], known: list[str], weights: Any) -> Iterator[tuple[str, str]]:
    for place, pattern in enumerate(patterns):
        if not any(_matches((pattern,), paths) for _, paths in weights):
            hint = nearest(pattern, known) or f" ({_listed(known)})"
            yield f"{field}.{place}", f"matches no parameter of the model{hint}: '{pattern}'"


def _matches(patterns: Sequence[str], paths: Sequence[str]) -> bool:
    return any(re.search(pattern, path) for pattern in patterns for path in paths)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if names[_SHOWN:] else "")
