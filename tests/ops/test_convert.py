"""What is special about convert_: every value is rounded once, and every value that is lost noticed."""

import pytest
import torch
from torch import Tensor

from burnlike.errors import ArgumentError, AutodiffError, DeviceError, DTypeError, ShapeError
from burnlike.ops import convert_, convert_reference, force_cpu_isa, native_status

from .op_case import FLOATS, rounded_to

ISAS = native_status().isas
PAIRS = [(source, target) for source in FLOATS for target in FLOATS]


def flags(count: int = 1) -> Tensor:
    return torch.zeros(count, dtype=torch.int32)


def every_kind_of_value(dtype: torch.dtype) -> Tensor:
    """All values of 16 bits, or those of 32 bits (for float64 of its upper 32) whose lower half is special."""
    high = torch.arange(2**16, dtype=torch.int32)
    if dtype.itemsize == 2:
        return high.to(torch.int16).view(dtype)
    low = torch.tensor([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    words = ((high << 16)[:, None] | low).flatten()
    if dtype == torch.float32:
        return words.view(torch.float32)
    return (words.to(torch.int64) << 32 | torch.tensor([0, 1, 1 << 28, 0xFFFFFFFF])[:, None]).flatten().view(dtype)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_every_value_becomes_the_nearest_one(source: torch.dtype, target: torch.dtype, isa: str) -> None:
    values = every_kind_of_value(source)
    # torch itself takes float64 to 16 bits by way of float32.
    is_by_float32 = source == torch.float64 and target.itemsize == 2
    expected = rounded_to(target, values) if is_by_float32 else values.to(target)
    found, lost, plain = torch.empty_like(expected), flags(), torch.empty_like(expected)
    with force_cpu_isa(isa):
        convert_([found], [values], lost)
    convert_reference([plain], [values], flags())
    assert torch.equal(plain.nan_to_num(1.25), found.nan_to_num(1.25))
    assert torch.equal(found.isnan(), values.isnan())
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[target.itemsize]
    numbers = ~values.isnan()
    assert torch.equal(found.view(bits)[numbers], expected.view(bits)[numbers])
    assert lost.item() == (values.isfinite() & ~expected.isfinite()).any().item()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("change", [convert_, convert_reference])
@pytest.mark.parametrize("place", [0, 5, 40_000, 99_999])
def test_lost_value_is_noted_for_its_tensor_wherever_it_is(place: int, change: object, isa: str) -> None:
    sources = [torch.zeros(100_000) for _ in range(3)]
    sources[1][place] = -65520.0  # the least that rounds to infinity
    sources[2][place] = 65519.0
    targets, lost = [torch.empty(100_000, dtype=torch.float16) for _ in range(3)], flags(3)
    with force_cpu_isa(isa):
        change(targets, sources, lost)  # type: ignore[operator]
    assert lost.tolist() == [0, 1, 0]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_values_that_are_not_finite_are_not_lost(source: torch.dtype, target: torch.dtype, value: float) -> None:
    found, lost = torch.empty(7, dtype=target), flags()
    convert_([found], [torch.full((7,), value, dtype=source)], lost)
    assert lost.item() == 0
    assert torch.equal(found, torch.full((7,), value, dtype=target)) or found.isnan().all()


def test_lost_gathers_what_several_calls_find() -> None:
    lost = flags(2)
    for sources in ([1e6, 1.0], [1.0, 1.0]):
        values = [torch.tensor([value]) for value in sources]
        convert_([torch.empty(1, dtype=torch.float16) for _ in values], values, lost)
    assert lost.tolist() == [1, 0]


def test_targets_may_be_views_of_one_buffer() -> None:
    sources = [torch.randn(33), torch.randn(5, 7).t(), torch.randn(()), torch.randn(0, 3)]
    buffer = torch.zeros(100, dtype=torch.bfloat16)
    targets, at = [], 0
    for source in sources:
        targets.append(buffer[at : at + source.numel()].view(source.shape))
        at += source.numel()
    convert_(targets, sources, flags(4))
    assert torch.equal(buffer[:at], torch.cat([source.to(torch.bfloat16).flatten() for source in sources]))
    assert buffer[at:].eq(0).all()


def test_version_counters_see_the_change() -> None:
    target, lost = torch.empty(3), flags()
    before = target._version, lost._version
    convert_([target], [torch.ones(3)], lost)
    assert target._version > before[0]
    assert lost._version > before[1]


def test_inference_mode_is_no_obstacle() -> None:
    with torch.inference_mode():
        target = torch.empty(3)
        convert_([target], [torch.ones(3)], flags())
    assert target.eq(1).all()


def test_wrong_arguments_are_named_and_nothing_is_written() -> None:
    target, source = torch.zeros(3), torch.ones(3)
    with pytest.raises(ArgumentError, match="expected 1 sources, one for each target, got 2"):
        convert_([target], [source, source], flags())
    with pytest.raises(ShapeError, match=r"expected targets\[1\] of shape \[2\], got \[3\]"):
        convert_([target, target], [source, source[:2]], flags(2))
    with pytest.raises(ShapeError, match=r"expected lost of shape \[1\], got \[2\]"):
        convert_([target], [source], flags(2))
    with pytest.raises(DTypeError, match="expected lost of dtype int32, got int64"):
        convert_([target], [source], torch.zeros(1, dtype=torch.int64))
    with pytest.raises(DTypeError, match=r"expected sources\[0\] of dtype float32 or .*, got int64"):
        convert_([target], [source.long()], flags())
    with pytest.raises(ArgumentError, match=r"expected targets\[0\] to be contiguous, got strides \[2\]"):
        convert_([torch.zeros(6)[::2]], [source], flags())
    with pytest.raises(DeviceError, match=r"expected sources\[0\] on cpu, got meta"):
        convert_([target], [source.to("meta")], flags())
    with pytest.raises(AutodiffError, match=r"under torch.no_grad"):
        convert_([target.clone().requires_grad_()], [source], flags())
    assert target.eq(0).all()
    convert_([], [], flags(0))


def test_fake_tensors_are_checked_alike() -> None:
    target = torch.zeros(3, device="meta")
    convert_([target], [target.double()], torch.zeros(1, dtype=torch.int32, device="meta"))
    with pytest.raises(ShapeError):
        convert_([target], [target[:2]], torch.zeros(1, dtype=torch.int32, device="meta"))


def test_compiles_without_graph_break() -> None:
    def convert(source: Tensor) -> tuple[Tensor, Tensor]:
        target, lost = torch.empty(source.shape, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.int32)
        convert_([target], [source], lost)
        return target, lost

    torch.compiler.reset()
    source = torch.tensor([1.0, 3.4e38])
    target, lost = torch.compile(convert, fullgraph=True, backend="aot_eager")(source)
    assert torch.equal(target, source.to(torch.bfloat16))
    assert lost.tolist() == [1]


@pytest.mark.cuda
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_cuda_gives_the_bits_of_the_cpu(source: torch.dtype, target: torch.dtype) -> None:
    values = every_kind_of_value(source)
    numbers = ~values.isnan()
    on_cpu, lost = torch.empty(values.shape, dtype=target), flags(2)
    convert_([on_cpu], [values], flags())
    found = torch.empty(values.numel() * 2 + 1, dtype=target, device="cuda")
    cuda_lost = lost.cuda()
    halves = [found[1 : 1 + values.numel()], found[1 + values.numel() :]]  # one of them not aligned
    convert_(halves, [values.cuda(), values.cuda()], cuda_lost)
    for half in halves:
        assert torch.equal(half.cpu()[numbers], on_cpu[numbers])
        assert torch.equal(half.cpu().isnan(), values.isnan())
    assert cuda_lost.tolist() == [int((values.isfinite() & ~on_cpu.isfinite()).any())] * 2
