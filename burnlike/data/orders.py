"""The order of the items in a pass of a DataLoader: a function of the seed and the number of the pass."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import DataError
from .dataset import name_of_data

Sampling = Literal["all", "balanced"]

STEPS_OF_LIKE_LENGTHS = 64
"""Among how many steps items with a length are sorted by it."""

_FEW_STEPS = 8


def order_of_pass(dataset: Any, seed: int | None, number: int, sampling: Sampling, step_size: int) -> Tensor:
    """int64 `[n]`: the items of a pass; without a seed in their own order.

    A dataset with `lengths` of its items has those of an optimizer step, `step_size`, of like lengths.
    """
    if seed is None:
        return torch.arange(len(dataset))
    generator = generator_of(seed, number)
    if sampling == "balanced":
        order = balanced(torch.tensor(targets_of(dataset)), generator)
    else:
        order = torch.randperm(len(dataset), generator=generator)
    lengths: Any = getattr(dataset, "lengths", None)
    return order if lengths is None else by_length(order, lengths, step_size)


def generator_of(*facts: object) -> torch.Generator:
    """A generator that is a function of the facts."""
    digest = hashlib.sha256(" ".join(map(str, facts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


def balanced(targets: Tensor, generator: torch.Generator) -> Tensor:
    """As many items as there are, with each class equally often (up to one), in a random order.

    All items of a class come once before one comes again.
    """
    order = torch.randperm(len(targets), generator=generator)
    members = [order[targets[order] == it] for it in targets.unique()]
    share = -(-len(targets) // len(members))
    drawn = []
    for indices in members:
        passes = [indices[torch.randperm(len(indices), generator=generator)] for _ in range(-(-share // len(indices)))]
        drawn.append(torch.cat(passes)[:share])
    rounds = torch.stack(drawn, 1).flatten()[: len(targets)]  # a class after the other: the rest is of different ones
    return rounds[torch.randperm(len(rounds), generator=generator)]


def targets_of(dataset: Any) -> list[int]:
    """The class of each item: what the dataset says as `targets`, or else that of each item, which is read.

    Raises:
        DataError: an item is no pair and no mapping with `labels`, or its target is not one class.
    """
    targets: Any = getattr(dataset, "targets", None)
    if targets is not None:
        labels = torch.as_tensor(targets)
        if labels.dim() == 1 and not labels.is_floating_point():
            return labels.tolist()
        raise _no_class(f"targets of {list(labels.shape)}, {labels.dtype}")
    return [_target_of(dataset[place]) for place in range(len(dataset))]


def _target_of(item: Any) -> int:
    if isinstance(item, dict):
        item = (None, item.get("labels"))
    target = (
        torch.as_tensor(item[1]) if isinstance(item, tuple | list) and len(item) == 2 and item[1] is not None else None
    )
    if target is None or target.dim() or target.is_floating_point():
        raise _no_class(type(item).__name__ if target is None else f"a target of {list(target.shape)}, {target.dtype}")
    return int(target)


def _no_class(got: str) -> DataError:
    return DataError(f"sampling: balanced: expected items with one class each, (input, class) or `labels`, got {got}")


def check_balanced(dataset: Any, seed: int | None) -> None:
    """Refuse to balance what has no classes, or an order of its own."""
    if seed is None:
        raise ValueError("sampling='balanced' needs a seed, by which items are drawn")
    if getattr(dataset, "order_of_pass", None) is not None:
        raise DataError(
            f"sampling: balanced: {name_of_data(dataset)} is read in an order of its own, without looking at classes;"
            " weigh the classes by the task's class_weights"
        )
    targets_of(dataset)


def by_length(order: Tensor, lengths: Any, step_size: int) -> Tensor:
    """The order changed so that the items of an optimizer step have like lengths, which need little padding.

    Items change places within windows of some steps only, and the steps of all windows are in a random order that
    follows from the one that is given. What is left at the end of the items stays there.

    Args:
        order: int64 `[n]`, a random order of the items.
        lengths: of the items, by their indices.
        step_size: items of a step.
    """
    sizes = torch.as_tensor(lengths)
    n_steps = len(order) // step_size
    if n_steps == 0:
        return order
    steps: list[Tensor] = []
    together = min(STEPS_OF_LIKE_LENGTHS, max(_FEW_STEPS, n_steps // 4))  # else the same items would meet again
    for window in order[: n_steps * step_size].split(step_size * together):
        steps += window[sizes[window].argsort(stable=True)].split(step_size)
    places = order[:n_steps].argsort(stable=True).tolist()  # random, as the order is
    return torch.cat([*(steps[place] for place in places), order[n_steps * step_size :]])


def by_steps(identity: Mapping[str, Any], accumulation_steps: int) -> dict[str, Any]:
    """The identity of a loader with numbers of optimizer steps in place of those of batches."""
    items, batches = (int(identity.get(name) or 0) for name in ("batch_size", "steps_per_epoch"))
    steps = -(-batches // accumulation_steps)
    return {**identity, "batch_size": items * accumulation_steps, "steps_per_epoch": steps}
