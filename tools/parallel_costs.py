"""The table of docs/parallelism/cost.md: `python -m tools.parallel_costs`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from burnlike.train import TrainConfig
from burnlike.train.job.forecast import MeshForecast, forecast_meshes, parse_mesh
from burnlike.train.view.formats import format_bytes

CONFIG = Path(__file__).parent.parent / "burnlike" / "configs" / "char_gpt.yaml"
OPTIONS = (
    "model={type: DecoderLm, vocab_size: 256, max_sequence_length: 2048, d_model: 4096, n_layers: 8, n_heads: 32,"
    " d_ff: 11008}",
    "data.context_length=2048",
    "training.batch_size=1",
    "training.activation_checkpointing=true",
)
WORLDS = {
    64: ("strategy=ddp", "strategy=fsdp2", "strategy=fsdp2,replicate=8", "strategy=fsdp2,tensor=8"),
    1024: ("strategy=fsdp2", "strategy=fsdp2,replicate=128", "strategy=fsdp2,tensor=8", "strategy=fsdp2,context=8"),
}
HEADS = ("processes", "mesh", "weights", "states", "gradients", "at the peak", "exchanged in a step")
_LEAST = 1e6
"""Bytes of the exchanges that are shown; others are numbers, such as norms."""


def table(config: TrainConfig, worlds: Any = WORLDS) -> Iterator[str]:
    """The lines of the table."""
    yield f"| {' | '.join(HEADS)} |"
    yield f"| {' | '.join(['---'] * len(HEADS))} |"
    for world_size, meshes in worlds.items():
        for found in forecast_meshes(config, world_size, [*map(parse_mesh, meshes)]):
            yield f"| {' | '.join(_cells(world_size, found))} |"


def _cells(world_size: int, found: MeshForecast) -> Iterator[str]:
    step = found.step
    assert step is not None, found.problem
    yield str(world_size)
    yield f"`{found.mesh}`"
    sizes = (step.resident["weights"], step.resident["optimizer states"], step.gradients, step.peak)
    yield from map(format_bytes, sizes)
    yield "; ".join(
        f"{it.exchanges} {it.kind} of `{it.among}`, {format_bytes(it.bytes)}"
        for it in step.communication
        if it.bytes > _LEAST
    )


if __name__ == "__main__":
    print("\n".join(table(TrainConfig.load(CONFIG, OPTIONS))))
