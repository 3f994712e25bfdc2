"""What of a config a resumed run may change. Imports no torch."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...config.file_paths import file_fields
from ...config.hiding import FromEnvironment
from ...errors import CheckpointError, ConfigError
from .configs import TrainConfig

MAY_CHANGE = (
    "checkpoint",
    "data.pattern",
    "device",
    "distributed",
    "loggers",
    "metrics",
    "output",
    "task.prompt",
    "task.sample_length",
    "task.temperature",
    "threads",
    "training.background_checkpoints",
    "training.checkpoint_every_epochs",
    "training.checkpoint_every_minutes",
    "training.checkpoint_every_steps",
    "training.epochs",
    "training.keep_checkpoints",
    "training.log_every_steps",
    "training.num_workers",
    "training.on_bad_item",
    "training.validation_steps",
)
"""Fields that a resumed run may have other values of, beside those that name files: files may have moved, and their
content is compared when they are read."""

_BATCHES = ("training.batch_size", "training.accumulation_steps", "training.global_batch_size")
"""Fields that make an optimizer step's number of items, with the number of processes."""


def check_resumable(before: TrainConfig, now: TrainConfig, run: str, said: Sequence[str] | None = None) -> list[str]:
    """The fields that the config to go on with may have and has otherwise, as text such as `training.epochs: 3 -> 5`.

    How many processes there were is not in a config. So where there may have been several, or are now, the data loader
    compares the items of a step, when it takes up the position of a checkpoint.

    Args:
        said: the paths that were set for this resume; a field that differs must be one of them or below one. None
            where a program made `now`.
    """
    changes = _changes(_plain(before), _plain(now), "")
    files = dict(file_fields(before)).keys() & dict(file_fields(now)).keys()
    # Batches may be of another size where a step still takes as many items, or may do so.
    items = [it.training.items_per_step for it in (before, now)]
    is_single = before.distributed.is_single and now.distributed.is_single
    may_divide_otherwise = items[0] == items[1] or not is_single
    allowed = (*MAY_CHANGE, *files, *(_BATCHES if may_divide_otherwise else ()))
    refused = [text for path, text in changes if not any(f"{path}.".startswith(f"{it}.") for it in allowed)]
    if refused:
        raise CheckpointError(
            f"the run {run} was started with another config: {'; '.join(refused)}. Put the old values back to "
            "resume it, or leave out --resume to start a new run"
        )
    unsaid = [(path, text) for path, text in changes if said is not None and not _is_said(path, said)]
    if unsaid:
        raise CheckpointError(
            f"the run {run} has other values than the config: {'; '.join(text for _, text in unsaid)}. Say which to"
            f" go on with by --set {unsaid[0][0]}=VALUE, or leave the config's file out to go on with the run's own"
        )
    return [text for _, text in changes]


def _is_said(path: str, said: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(f"{it}.") or it.startswith(f"{path}.") for it in said)


def _plain(config: TrainConfig) -> dict[str, Any]:
    """The config as plain data, with the directions that its metrics say."""
    metrics = dict(zip(config.metric_names(), config.metrics, strict=True))
    with suppress(ConfigError):  # of a metric that says none until it is made
        config = config.replace(training=config.training.directed(metrics))
    return config.to_dict()


def _changes(before: Any, now: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in dict.fromkeys([*before, *now])
            for change in _changes(before.get(key), now.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if before == now else [(path, f"{path}: {_show(before)} -> {_show(now)}")]


def _show(value: Any) -> str:
    if isinstance(value, FromEnvironment):
        return value.reference
    return "a mapping" if isinstance(value, dict) else "null" if value is None else str(value)
