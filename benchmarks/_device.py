"""Measuring what a GPU does by itself: calls are captured once and replayed, so that the host's work does not count.

Each sample is of many calls, over more memory than a GPU's caches have.
"""

from collections.abc import Callable, Sequence

import torch

from ._harness import Comparison, compare

SAMPLE_BYTES = 1 << 30
"""Bytes that the calls of a sample move together."""

Call = Callable[[], object]


def call_count(bytes_of_a_call: int, sample_bytes: int = SAMPLE_BYTES) -> int:
    """How many calls, each on memory of its own, move at least `sample_bytes`."""
    return max(2, -(-sample_bytes // bytes_of_a_call))


def captured(calls: Sequence[Call], device: str) -> Call:
    """All calls as one, of which the host does nothing any more but start it; on a CPU the calls themselves.

    Their results live side by side until all are captured: freed at once, they would share memory that stays in the
    cache of the GPU.
    """

    def run() -> list[object]:
        return [call() for call in calls]

    if device == "cpu":
        return run
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what first calls load and allocate is not captured
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    del results
    return graph.replay


def compare_with_copy(
    name: str, calls: Sequence[Call], bytes_of_a_call: int, bar: float | None, repeats: int, device: str
) -> Comparison:
    """Calls against a copy on the device that moves as many bytes, half of them read and half written.

    The ratio is the share of the copy's rate.
    """
    total = bytes_of_a_call * len(calls)
    source = torch.zeros(total // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    result = compare(
        name,
        captured(calls, device),
        captured([lambda: target.copy_(source)], device),
        theirs_name="copy of as many bytes",
        bar=bar,
        repeats=repeats,
        note=f"{len(calls)} calls of {bytes_of_a_call / 1e6:.1f} MB",
    )
    print(f"  {total / result.ours_ms / 1e6:.0f} GB/s, the copy {total / result.theirs_ms / 1e6:.0f}")
    return result


def compare_with_torch(
    name: str, ours: Sequence[Call], theirs: Sequence[Call], repeats: int, device: str
) -> Comparison:
    """Calls against as many of torch's."""
    return compare(name, captured(ours, device), captured(theirs, device), theirs_name="torch", repeats=repeats)
