"""How long a save holds the GPU: until weights on the device may be changed again, for each GB that is written.

    python -m benchmarks.record_device

355 M float32 values on the device, saved as bfloat16. Ours is `save_async`, which converts and packs on the device and
copies through pinned buffers; theirs are `torch.save` of converted tensors, and `async_save` of them by
`torch.distributed.checkpoint`, which holds the device until its copy is staged. Without a GPU nothing is measured.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder

from ._harness import Comparison, compare, main
from .record_save import tensors

MOST_REPEATS = 5


def run(repeats: int) -> Sequence[Comparison]:
    if not torch.cuda.is_available():
        print("no CUDA device: not measured")
        return []
    values = {name: tensor.cuda() for name, tensor in tensors().items()}
    gigabytes = 2 * sum(tensor.numel() for tensor in values.values()) / 1e9
    recorder, record = SafetensorsRecorder(BFloat16Precision), Record(values)
    pending: list[Any] = []

    def settle() -> None:
        """Let what still goes on in the background end, outside of the timing."""
        while pending:
            found = pending.pop()
            (found.wait if hasattr(found, "wait") else found.result)()

    def converted() -> dict[str, torch.Tensor]:
        return {name: tensor.to(torch.bfloat16) for name, tensor in values.items()}

    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        theirs: dict[str, Callable[[], object]] = {
            "torch.save": lambda: torch.save(converted(), folder / "theirs.pt"),
            "dcp.async_save": lambda: pending.append(
                dcp.async_save(converted(), checkpoint_id=folder / "dcp", no_dist=True)
            ),
        }
        results = [
            compare(
                f"GPU held by a bf16 save of {gigabytes:.2f} GB, {side}",
                lambda: pending.append(recorder.save_async(record, folder / "ours.safetensors")),
                call,
                theirs_name=side,
                repeats=min(repeats, MOST_REPEATS),
                before_ours=settle,
                before_theirs=settle,
            )
            for side, call in theirs.items()
        ]
        settle()
    for result in results:
        print(
            f"  per GB: ours {result.ours_ms / gigabytes:.1f} ms, {result.theirs} {result.theirs_ms / gigabytes:.1f} ms"
        )
    return results


if __name__ == "__main__":
    main("How long a save holds the GPU", run)
