"""EVA: adapters of linear layers begin with the directions in which these layers' inputs vary most.

Ranks go to the layers whose inputs have the largest ones (Paischer et al. 2024, arXiv:2410.07170, algorithm 1), with
the choices of peft's `initialize_lora_eva_weights`: ours are its numbers, on the same batches.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import ArgumentError
from ...module.adapters.configs import Eva
from ...module.adapters.layers import Lora
from ...module.adapters.reparameterization import give_back
from .layers import AdaptedLayer, adapted

_MOST_BATCHES = 1000
_SEED, _ITERATIONS = 42, 4  # peft's, so that a randomized decomposition gives its numbers


class _Directions:
    """The largest directions of rows that come batch by batch (Ross et al. 2008, section 2.3).

    Attributes:
        basis: `[count, d]`, the largest first; None before the first batch.
        values: their singular values.
        shares: the share of each in the variance of all rows.
        converged: those that the last batch turned by less than the threshold.
    """

    def __init__(self, count: int) -> None:
        self.count, self.basis, self.converged = count, None, torch.zeros(count, dtype=torch.bool)
        self.values: Any = None
        self.shares: Any = None
        self._seen, self._mean, self._variation = 0, torch.zeros(()), 0.0

    def add(self, rows: Tensor, threshold: float) -> None:
        before: Tensor | None = self.basis
        rows, size = rows.float(), len(rows)
        mean = rows.mean(0, dtype=torch.float64)
        centred = (rows - mean).float()
        total, shift = self._seen + size, self._mean - mean
        between = self._seen / total * size
        self._variation += float(centred.double().square().sum() + between * shift.square().sum())
        stacked = centred
        if before is not None:  # in float64 from here on, as in peft, whose draws differ by the dtype
            stacked = torch.cat((self.values[:, None] * before, centred, (between**0.5 * shift)[None]))
        with torch.random.fork_rng(devices=[rows.device] if rows.is_cuda else []):
            torch.manual_seed(_SEED)
            _, values, columns = torch.svd_lowrank(stacked, 2 * self.count, niter=_ITERATIONS)
        basis = columns.mT[: self.count]
        # A direction has no sign of its own: two batches can be compared if its largest number is positive.
        self.basis = basis * basis.gather(1, basis.abs().argmax(1, keepdim=True)).sign()
        self.values, self.shares = values[: self.count], (values.square() / self._variation)[: self.count]
        self._mean, self._seen = (self._mean * self._seen + mean * size) / total, total
        if before is not None:
            self.converged = functional.cosine_similarity(self.basis, before.to(self.basis)).cpu() >= threshold


@torch.no_grad()
def start_by_eva(
    model: nn.Module,
    batches: Iterable[Any],
    forward: Callable[[Any], Any],
    options: Eva | None = None,
    *,
    positions: Callable[[Any], Tensor | None] = lambda batch: None,
    rslora: bool = False,
) -> dict[str, int]:
    """Give the adapters of a model's linear layers, in evaluation, their first values, and their ranks.

    Args:
        batches: of the training data; they are gone through again until the directions stay as they are.
        forward: runs the model on a batch.
        options: None for the defaults.
        positions: bool `[batch, sequence]`, True where the inputs of a batch count; None for all.
        rslora: whether alpha is divided by the root of the rank.

    Returns:
        The rank of each of these layers, by its path; one of rank 0 has no adapter any more.

    Raises:
        ArgumentError: no layer is a linear one, one has fewer inputs than rank * rho, batches have fewer rows than
            that, the directions don't converge, or a layer is not called. The model is as it was.
    """
    options = Eva() if options is None else options
    layers = {path: value for path, value in adapted(model).items() if value.kind in ("linear", "conv1d")}
    ranks = {path: _lora(it).a.shape[1] for path, it in layers.items()}
    if not layers:
        raise ArgumentError("start: eva is for linear layers, of which none has an adapter")
    counts = {path: round(rank * options.rho) for path, rank in ranks.items()}
    for path, layer in layers.items():
        if counts[path] > (inputs := _lora(layer).a.shape[0]):
            raise ArgumentError(
                f"start: eva: expected rank * rho <= {inputs}, the inputs of '{path}', got {counts[path]}"
            )
    watch = partial(_watch, forward, positions)
    equal = _equal_inputs(layers, next(iter(batches)), watch)
    for path, first in equal.items():
        counts[first] = max(counts[first], counts[path])
    counts |= {path: counts[first] for path, first in equal.items()}
    directions = {path: _Directions(counts[path]) for path in layers if path not in equal}
    chosen = dict(counts)

    def add(path: str, rows: Tensor) -> None:
        if len(rows) >= counts[path]:
            directions[path].add(rows, options.tau)

    for number, batch in enumerate(chain.from_iterable(repeat(batches))):
        active = {path: layers[path] for path, it in directions.items() if not it.converged[: chosen[path]].all()}
        if not active:
            break
        if number == _MOST_BATCHES:
            raise ArgumentError(_not_converged(directions, counts, [*active]))
        watch(batch, active, add)
        if all(direction.basis is not None for direction in directions.values()):
            chosen = _shared_out(directions, equal, counts, sum(ranks.values()))
    for path, layer in layers.items():
        _begin(layer, directions[equal.get(path, path)], ranks[path], chosen[path], options, rslora=rslora)
    return {path: chosen[path] for path in layers}


def _lora(layer: AdaptedLayer) -> Lora:
    assert layer.lora is not None
    return layer.lora


def _watch(
    forward: Callable[[Any], Any],
    positions: Callable[[Any], Tensor | None],
    batch: Any,
    layers: Mapping[str, AdaptedLayer],
    function: Callable[[str, Tensor], None],
) -> None:
    """Run a model on a batch, and call a function with the path of each layer and the rows of its input that count."""
    mask = positions(batch)

    def hook(path: str, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        x: Tensor = (*inputs, *named.values())[0]
        is_masked = mask is not None and x.shape[:2] == mask.shape
        function(path, x[mask] if is_masked else x.flatten(0, -2))

    hooks = [
        layer.module.register_forward_pre_hook(partial(hook, path), with_kwargs=True) for path, layer in layers.items()
    ]
    try:
        forward(batch)
    finally:
        for hook_of_layer in hooks:
            hook_of_layer.remove()


def _equal_inputs(layers: Mapping[str, AdaptedLayer], batch: Any, watch: Callable[..., None]) -> dict[str, str]:
    """The layers whose inputs are those of another, by the path of this first one."""
    digests: dict[str, bytes] = {}

    def note(path: str, rows: Tensor) -> None:
        digests.setdefault(path, hashlib.sha256(rows.float().cpu().contiguous().numpy().tobytes()).digest())

    watch(batch, layers, note)
    if unseen := [path for path in layers if path not in digests]:
        raise ArgumentError(f"start: eva: '{unseen[0]}' is not called, so it has no inputs: leave it out of targets")
    first: dict[bytes, str] = {}
    groups = {path: first.setdefault(digests[path], path) for path in layers}
    # In peft's order, group by group, which decides between equal shares.
    return {path: one for one in first.values() for path in layers if groups[path] == one != path}


def _shared_out(
    directions: Mapping[str, _Directions], equal: Mapping[str, str], counts: Mapping[str, int], budget: int
) -> dict[str, int]:
    """The rank of each layer: how many of its directions are among the `budget` with the largest shares."""
    paths = [*directions, *equal]
    pairs = [(path, share) for path in paths for share in directions[equal.get(path, path)].shares[: counts[path]]]
    order = torch.stack([share for _, share in pairs]).argsort(descending=True)
    chosen = Counter(pairs[place][0] for place in order[:budget].tolist())
    ranks = {path: chosen[path] for path in paths}
    for path, first in equal.items():  # a tie within a group must not ask for more than was measured
        ranks[first], ranks[path] = max(ranks[first], ranks[path]), min(ranks[first], ranks[path])
    return ranks


def _not_converged(directions: Mapping[str, _Directions], counts: Mapping[str, int], active: list[str]) -> str:
    short = next((path for path in active if directions[path].basis is None), None)
    if short is not None:
        return f"start: eva: expected batches of {counts[short]} positions that count or more: raise the batch size"
    return (
        f"start: eva: the directions of '{active[0]}' and {len(active) - 1} other layers still turn after"
        f" {_MOST_BATCHES} batches: lower tau, rho or rank, or raise the batch size"
    )


def _begin(layer: AdaptedLayer, directions: _Directions, before: int, rank: int, options: Eva, *, rslora: bool) -> None:
    """Give an adapter its rank and first values, or take it away."""
    lora = _lora(layer)
    if not rank:
        give_back(layer.module, layer.name)
        return
    assert directions.basis is not None
    rows = directions.basis[:rank]
    if options.whiten:
        rows = rows / directions.values[:rank, None].sqrt()
    lora.a = nn.Parameter(rows.mT.to(lora.a).contiguous(), lora.a.requires_grad)
    lora.b = nn.Parameter(lora.b.new_zeros(rank, lora.b.shape[1]), lora.b.requires_grad)
    lora.scale *= (before / rank) ** (0.5 if rslora else 1) * (rank / before if options.adjust_scaling_factors else 1)
