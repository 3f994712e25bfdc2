"""One save of 10,000 small tensors against eight saves of 1,250: a time that grows as the square of their number is 8x.

python -m benchmarks.record_many_tensors
"""

from collections.abc import Callable
from dataclasses import replace

import torch

import burnlike.record
from benchmarks._harness import Comparison, compare, main
from burnlike.module import ParamId
from burnlike.record import Record

COUNT, PARTS = 10_000, 8
BAR = 1 / 3
ADAM = {"momentum": {"time": "usize", "moment_1": "tensor", "moment_2": "tensor"}}
RECORDERS = ("SafetensorsRecorder", "NamedMpkFileRecorder", "BinFileRecorder", "BurnpackRecorder")


def of_a_module(count: int) -> Record:
    """Parameters and as many running statistics."""
    weights = {f"layers.{index}.weight": torch.zeros(2) for index in range(count // 2)}
    means = {f"layers.{index}.mean": torch.zeros(2) for index in range(count // 2)}
    ids = {name: ParamId(index * 7919 + 1) for index, name in enumerate(weights)}
    return Record({**weights, **means}, ids=ids, states=frozenset(means))


def of_an_optimizer(count: int) -> Record:
    """States whose layout leaves the ranks out."""
    ids = [str(ParamId(index * 7919 + 1)) for index in range(count // 2)]
    moments = {f"{it}.momentum.moment_{number}": torch.zeros(2) for it in ids for number in (1, 2)}
    times = {f"{it}.momentum.time": 3 for it in ids}
    return Record(moments, {"states": times, "paths": {}}, layout={"$map": {"$state": ADAM}})


def _measure(name: str, make: Callable[[int], Record], repeats: int) -> Comparison:
    recorder, few, many = getattr(burnlike.record, name)(), make(COUNT // PARTS), make(COUNT)
    if make is of_a_module and name == "BinFileRecorder":
        layout = {"layers": {"$vec": {"weight": "param", "mean": "tensor"}}}
        few, many = replace(few, layout=layout), replace(many, layout=layout)

    def in_parts() -> None:
        for _ in range(PARTS):
            recorder.to_bytes(few)

    title = f"{name}, {make.__name__}"
    return compare(title, lambda: recorder.to_bytes(many), in_parts, theirs_name="in parts", bar=BAR, repeats=repeats)


def run(repeats: int) -> list[Comparison]:
    """Measure each format with each kind of record."""
    count = min(repeats, 10)
    return [_measure(name, make, count) for make in (of_a_module, of_an_optimizer) for name in RECORDERS]


if __name__ == "__main__":
    main(__doc__ or "", run)
