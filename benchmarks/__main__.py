"""All benchmarks, one after the other, or those that are named: `python -m benchmarks`, or `make bench`.

The results go to a file in benchmarks/results.
"""

from collections.abc import Sequence
from types import ModuleType

from benchmarks import device, record_load, record_many_tensors, record_save
from benchmarks._harness import main
from benchmarks._results import FOLDER, Comparison
from benchmarks.data import loader, streams
from benchmarks.models import experts, families, generate, llama_logits, models, step
from benchmarks.module import traversal
from benchmarks.nn import layers
from benchmarks.ops import (
    adamw_step,
    add_layer_norm,
    add_rms_norm,
    attention,
    bias_gelu,
    calls,
    convert,
    cross_entropy,
    dropout_add,
    geglu,
    half_products,
    int8_linear,
    layer_norm,
    linear,
    linear_cross_entropy,
    lora_linear,
    masked_softmax,
    rms_norm,
    rotary,
    swiglu,
)
from benchmarks.optim import kernel_optimizers, muon
from benchmarks.tensor import chain, compiled, forward, overhead
from benchmarks.train import adapters, checkpoints, learner, packing, parallel_step

BENCHMARKS = (
    cross_entropy,
    linear_cross_entropy,
    rms_norm,
    rotary,
    swiglu,
    linear,
    half_products,
    int8_linear,
    lora_linear,
    geglu,
    bias_gelu,
    dropout_add,
    layer_norm,
    add_rms_norm,
    add_layer_norm,
    attention,
    masked_softmax,
    calls,
    adamw_step,
    kernel_optimizers,
    muon,
    convert,
    record_save,
    record_load,
    record_many_tensors,
    device,
    overhead,
    compiled,
    forward,
    chain,
    traversal,
    layers,
    models,
    step,
    generate,
    families,
    experts,
    llama_logits,
    loader,
    streams,
    learner,
    adapters,
    checkpoints,
    packing,
    parallel_step,
)


def _name(benchmark: ModuleType) -> str:
    return benchmark.__name__.removeprefix("benchmarks.")


NAMES = [_name(it) for it in BENCHMARKS]


def run(repeats: int, names: Sequence[str] = ()) -> dict[str, list[Comparison]]:
    """Run every benchmark, or those of these names, and say at the end which bars were reached."""
    results: dict[str, list[Comparison]] = {}
    for benchmark in BENCHMARKS:
        if names and _name(benchmark) not in names:
            continue
        print(f"\n{(benchmark.__doc__ or '').strip()}\n")
        results[_name(benchmark)] = benchmark.run(repeats)
    barred = [row for rows in results.values() for row in rows if row.bar is not None]
    missed = [row for row in barred if row.ratio < (row.bar or 0)]
    print(f"\n{len(barred) - len(missed)} of {len(barred)} bars reached")
    for row in missed:
        print(f"missed: {row}")
    return results


if __name__ == "__main__":
    main("All benchmarks", run, names=NAMES, results=FOLDER)
