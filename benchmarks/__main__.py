"""All benchmarks, one after the other: `python -m benchmarks`, or `make bench`."""

from benchmarks import device, record_load, record_many_tensors, record_save
from benchmarks._harness import Comparison, main
from benchmarks.data import loader, streams
from benchmarks.models import models, step
from benchmarks.module import traversal
from benchmarks.nn import layers
from benchmarks.ops import (
    adamw_step,
    add_layer_norm,
    add_rms_norm,
    attention,
    bias_gelu,
    convert,
    cross_entropy,
    dropout_add,
    geglu,
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
    lora_linear,
    geglu,
    bias_gelu,
    dropout_add,
    layer_norm,
    add_rms_norm,
    add_layer_norm,
    attention,
    masked_softmax,
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
    loader,
    streams,
    learner,
    adapters,
    checkpoints,
    packing,
    parallel_step,
)


def run(repeats: int) -> list[Comparison]:
    """Run every benchmark and say at the end which bars were reached."""
    results = []
    for benchmark in BENCHMARKS:
        print(f"\n{(benchmark.__doc__ or '').strip()}\n")
        results += benchmark.run(repeats)
    barred = [result for result in results if result.bar is not None]
    missed = [result for result in barred if result.ratio < (result.bar or 0)]
    print(f"\n{len(barred) - len(missed)} of {len(barred)} bars reached")
    for result in missed:
        print(f"missed: {result}")
    return results


if __name__ == "__main__":
    main("All benchmarks", run)
