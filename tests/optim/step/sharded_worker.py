"""One of two or four processes that train alike on some meshes. Run by test_sharded.py, which starts it."""

import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from burnlike import optim
from burnlike.optim import GradientsParams
from burnlike.optim.core.sharded import local, shared_out
from burnlike.record import DistributedRecorder, Record

from ...checks import write_results
from . import tensor_parallel
from .sharded_training import (
    CLIPPINGS,
    FOUR,
    LARGER,
    LINE_SEARCHES,
    OF_LARGER,
    RULES,
    SAVED,
    SPOILED,
    STEPS,
    WITH_WHOLES,
    WRAPPINGS,
    fit,
    largest_error,
    loss_of,
    mesh_of,
    train,
    weights_of,
    wrapped,
)


def checks(folder: Path) -> dict[str, Callable[[], float | str]]:
    """Trainings in every way, whose weights are compared with those of one process."""
    is_four = dist.get_world_size() == 4
    wrappings, clippings = (LARGER, OF_LARGER) if is_four else (WRAPPINGS, CLIPPINGS)
    rows: dict[str, Callable[[], float | str]] = {
        f"{rule}, {clipping}, {wrapping}": partial(clipped, rule, clipping, wrapping)
        for rule, clipping, wrapping in product(RULES, clippings, wrappings)
    }
    for wrapping in wrappings:
        for rule in ("adamw", "lamb", "groups"):
            rows[f"{rule} skips, {wrapping}"] = partial(skipping, rule, wrapping)
            rows[f"{rule} scaled, {wrapping}"] = partial(scaled, rule, wrapping)
        rows |= {f"lbfgs {search}, {wrapping}": partial(fitted, search, wrapping) for search in LINE_SEARCHES}
        rows[f"weights to evaluate, {wrapping}"] = partial(evaluated, wrapping)
    if is_four:
        return rows | {f"{it}, global norm, {FOUR}": partial(clipped, it, "global norm", FOUR) for it in WITH_WHOLES}
    return rows | of_two(folder)


def of_two(folder: Path) -> dict[str, Callable[[], float | str]]:
    """Checks for which two processes are enough."""
    ways = product(tensor_parallel.RULES, tensor_parallel.WAYS)
    adamw = optim.AdamWConfig(moment_1="blockwise8")
    return {
        **{f"{rule} resumed": partial(resumed, rule, folder) for rule in SAVED},
        "nan in a part": nan_in_a_part,
        **{f"sequence parallel, {it}, {way}": partial(tensor_parallel.sequence_parallel, it, way) for it, way in ways},
        "sequence parallel, clipped": tensor_parallel.clipped_by_norm,
        "norms of summands": tensor_parallel.norms_of_summands,
        **{f"lacking, {where}": partial(tensor_parallel.lacking, where) for where in tensor_parallel.LACKING},
        **{f"{rule} states": partial(largest_share, rule) for rule in ("lamb", "muon", "adafactor")},
        **{f"matrices, {wrapping}": partial(matrices, wrapping) for wrapping in ("fsdp", "tensor")},
        "replicas": replicas,
        "8 bits": lambda: str(train(wrapped("fsdp"), adamw.init(), "fsdp")),
    }


def clipped(rule: str, clipping: str, wrapping: str) -> float:
    """Train with a rule and a clipping."""
    config = RULES[rule].replace(grad_clipping=CLIPPINGS[clipping])
    expected = weights_of(train(wrapped(None), config.init(), None, STEPS[:3]))
    return largest_error(weights_of(train(wrapped(wrapping), config.init(), wrapping, STEPS[:3])), expected)


def skipping(rule: str, wrapping: str) -> float:
    """A step with a NaN on one rank is as if it had not been."""
    config = RULES[rule].replace(skip_non_finite=True, grad_clipping=CLIPPINGS["global norm"])
    kept = [step for step in STEPS if step != SPOILED]
    expected = weights_of(train(wrapped(None), config.init(), None, kept))
    return largest_error(weights_of(train(wrapped(wrapping), config.init(), wrapping, spoiled=SPOILED)), expected)


def nan_in_a_part() -> float:
    """A NaN that only rank 1 has in its part is seen by both."""
    model, optimizer = wrapped("fsdp"), RULES["adamw"].replace(skip_non_finite=True).init()
    train(model, optimizer, "fsdp", [0])
    before = weights_of(model)
    loss_of(model, 1, "fsdp").backward()
    grads = GradientsParams.from_module(model)
    parts = [local(grad) for grad in grads.values]
    if dist.get_rank() == 1:
        next(part for part in parts if part.numel()).view(-1)[0] = torch.nan
    optimizer.step(0.1, model, grads)
    return largest_error(weights_of(model), before)


def scaled(rule: str, wrapping: str) -> float:
    """A scaled loss makes the same steps."""
    config = RULES[rule].replace(grad_clipping=CLIPPINGS["norm"])
    expected = weights_of(train(wrapped(None), config.init(), None))
    return largest_error(weights_of(train(wrapped(wrapping), config.init(), wrapping, loss_scale=64.0)), expected)


def fitted(line_search: Any, wrapping: str) -> float:
    """L-BFGS, which sees all parameters as one vector."""
    config = optim.LbfgsConfig(max_iter=4, line_search_fn=line_search)
    expected = weights_of(fit(wrapped(None), config.init(), None))
    return largest_error(weights_of(fit(wrapped(wrapping), config.init(), wrapping)), expected)


def evaluated(wrapping: str) -> float:
    """The weights that a schedule-free rule evaluates with, and after them those to train with."""
    found = []
    for wrap in (None, wrapping):
        model, optimizer = wrapped(wrap), RULES["schedule-free"].init()
        train(model, optimizer, wrap, STEPS[:2])
        optimizer.use_eval_weights(model)
        weights = {f"{path} to evaluate": it for path, it in weights_of(model).items()}
        optimizer.use_training_weights(model)
        train(model, optimizer, wrap, STEPS[2:])
        found.append({**weights, **weights_of(model)})
    return largest_error(found[1], found[0])


def largest_share(rule: str) -> float:
    """The values of states that this rank has, as a part of those of one process."""
    counts = []
    for wrapping in (None, "fsdp"):
        model, optimizer = wrapped(wrapping), RULES[rule].init()
        record = train(model, optimizer, wrapping, STEPS[:1]) and optimizer.into_record()
        counts.append(sum(local(it).numel() for it in record.tensors.values()))
    return counts[1] / counts[0]


def matrices(wrapping: str) -> str:
    """How many matrices this rank doubles, of eight that are divided by rows, by columns or not, one at a time."""
    mesh, computed = mesh_of(wrapping), []

    def doubled(some: list[Tensor]) -> list[Tensor]:
        computed.extend(tuple(it.shape) for it in some)
        assert len(some) <= 1
        return [it * 2 for it in some]

    shapes = [(5, 3), (3, 5), (1, 4), (4, 1)] * 2
    values = [torch.arange(math.prod(shape), dtype=torch.float64).view(shape) for shape in shapes]
    places = [[Shard(0)]] * 3 + [[Shard(1)]] * 5
    wholes = [distribute_tensor(it, mesh, place, src_data_rank=None) for it, place in zip(values, places, strict=True)]
    found = shared_out([local(it) for it in wholes], wholes, doubled, 1)
    assert all(torch.equal(it, local(whole) * 2) for it, whole in zip(found, wholes, strict=True))
    return str(sorted(computed))


def replicas() -> float:
    """With stochastic rounding the weights of all ranks are the same; 0 if so."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(64, 33, dtype=torch.bfloat16))
    torch.manual_seed(dist.get_rank())
    optimizer = optim.AdamWConfig(stochastic_rounding=True, moment_2="bfloat16").init()
    for _ in range(3):
        model(torch.randn(4, 64, dtype=torch.bfloat16)).square().mean().backward()
        optimizer.step(1e-4, model, GradientsParams.from_module(model))
    weight = model.module.weight.detach().float()
    others = [torch.empty_like(weight) for _ in range(2)]
    dist.all_gather(others, weight)
    return float((others[0] - others[1]).abs().max())


def resumed(rule: str, folder: Path) -> float:
    """Save in the middle, train on from there, and from what one process saved in the middle.

    The sharded weights at the end are left for one process to compare with.
    """
    recorder, config = DistributedRecorder(), SAVED[rule]
    model, optimizer = wrapped("fsdp"), config.init()
    train(model, optimizer, "fsdp", STEPS[:2])
    recorder.save(Record.from_module(model), folder / f"{rule} model")
    recorder.save(optimizer.to_record(), folder / f"{rule} optimizer")
    expected = weights_of(train(model, optimizer, "fsdp", STEPS[2:]))
    errors = []
    for source in (folder, folder / "one"):
        again = wrapped("fsdp")
        recorder.load(source / f"{rule} model").load_into(again)
        optimizer = config.init().load_record(recorder.load(source / f"{rule} optimizer"), again)
        errors.append(largest_error(weights_of(train(again, optimizer, "fsdp", STEPS[2:])), expected))
    if dist.get_rank() == 0:
        torch.save(expected, folder / f"{rule} end.pt")
    return max(errors[0] * 1e12, errors[1])  # the same job goes on with the same bits


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), checks)
