"""Part `rates`: ops as a share of a device copy of the same bytes, calls of small ops, then the same beside others.

The rows are those of `benchmarks.ops.sizes_device`, `calls`, `convert_device` and `gradient_squares_device`, in the
order in which they tell most: each op beside a copy first; torch.compile last, as compiling takes seconds a row.
"""

from collections.abc import Sequence

import torch

from benchmarks._device import SAMPLE_BYTES
from benchmarks._results import Comparison
from benchmarks.ops import calls, convert_device, gradient_squares_device, sizes_device
from benchmarks.optim._sides import language_model

from .results import Part

Size = tuple[str, int, int, torch.dtype]

FIRST = ("rms_norm", "cross_entropy", "rotary", "bias_gelu", "layer_norm", "swiglu", "geglu")
OTHERS = ("add_rms_norm", "softmax", "dropout_add", "add_layer_norm")
ROWS, WIDTH = 16_384, 4096
CLASSES = (32_000, 50_257, 128_256)
REPEATS = 10
TINY_BYTES = 1 << 12


def sizes() -> list[Size]:
    """All rows: each op in bfloat16 at one size, then the other sizes, then float32."""
    once: list[Size] = []
    for op in (*FIRST, *OTHERS):
        rows, width = (8192, CLASSES[0]) if op == "cross_entropy" else (ROWS, WIDTH)
        once.append((op, rows, width, torch.bfloat16))
    more: list[Size] = [("cross_entropy", 4096, classes, torch.bfloat16) for classes in CLASSES[1:]]
    more += [(op, ROWS, width, torch.bfloat16) for op in ("rms_norm", "layer_norm") for width in (1024, 8192)]
    more += [(op, rows, width, torch.float32) for op, rows, width, _ in once[: len(FIRST)]]
    return once + more


def run(part: Part) -> None:
    """Run all that there is time for."""
    rows = sizes()
    if part.is_rehearsal:
        rows = [(op, 32, 64, dtype) for op, _, _, dtype in (rows[0], rows[1])]
    measured: set[tuple[str, str]] = set()

    def keep(benchmark: str, found: Sequence[Comparison]) -> None:
        fresh = [row for row in found if (row.name, row.theirs) not in measured]
        measured.update((row.name, row.theirs) for row in fresh)
        part.add_rows(benchmark, fresh)

    def sized(size: Size, compiled: bool) -> None:
        keep("ops.sizes_device", _sized(part, size, compiled))

    for size in rows[: len(FIRST) + len(OTHERS)]:
        part.step(_name(size), lambda size=size: sized(size, False))
    for op in (FIRST + OTHERS)[: 2 if part.is_rehearsal else None]:
        part.step(f"calls of {op}", lambda op=op: keep("ops.calls", _calls(part, op)))
    for dtype in (torch.float32, torch.bfloat16):
        part.step(f"squares {dtype}", lambda dtype=dtype: keep("ops.gradient_squares_device", _squares(part, dtype)))
    part.step("convert", lambda: keep("ops.convert_device", _convert(part)))
    for size in rows[len(FIRST) + len(OTHERS) :]:
        part.step(_name(size), lambda size=size: sized(size, False))
    for size in rows[: len(FIRST)]:
        part.step(f"{_name(size)}, compiled", lambda size=size: sized(size, True))


def _name(size: Size) -> str:
    op, rows, width, dtype = size
    return f"{op} {rows} x {width} {str(dtype).removeprefix('torch.')}"


def _bytes(part: Part) -> int:
    return TINY_BYTES if part.is_rehearsal else SAMPLE_BYTES


def _repeats(part: Part) -> int:
    return 1 if part.is_rehearsal else REPEATS


def _sized(part: Part, size: Size, compiled: bool) -> list[Comparison]:
    try:
        return sizes_device.measure(*size, _repeats(part), part.device, compiled, _bytes(part))
    finally:
        if not part.is_rehearsal:
            torch.cuda.empty_cache()


def _calls(part: Part, op: str) -> list[Comparison]:
    return calls.measure(op, _repeats(part), part.device, 2 if part.is_rehearsal else calls.ON_GPU)


def _squares(part: Part, dtype: torch.dtype) -> list[Comparison]:
    shapes = [(8, 3), (5,)] if part.is_rehearsal else language_model()
    return gradient_squares_device.measure("language model", shapes, dtype, _repeats(part), part.device, _bytes(part))


def _convert(part: Part) -> list[Comparison]:
    values = 1 << 8 if part.is_rehearsal else convert_device.VALUES
    pair = torch.float32, torch.bfloat16
    return convert_device.measure(*pair, 1, _repeats(part), part.device, values, _bytes(part))
