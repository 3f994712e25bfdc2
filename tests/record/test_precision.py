"""Which type a tensor is stored in, and the values that a type can't hold."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from burnlike.errors import DTypeError, PrecisionError, RecordError
from burnlike.record import (
    BFloat16Precision,
    DoublePrecision,
    FullPrecision,
    HalfPrecision,
    Precision,
    Record,
    SafetensorsRecorder,
    load,
    save,
)

NAN, INF = float("nan"), float("inf")


def stored(tensor: torch.Tensor, precision: Precision, folder: Path) -> torch.Tensor:
    path = SafetensorsRecorder(precision).save(Record({"layer.weight": tensor}), folder / "x")
    return safetensors.torch.load_file(path)["layer.weight"]


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_bfloat16_and_its_neighbours_round_as_torch_rounds(target: torch.dtype, tmp_path: Path) -> None:
    # All upper halves of float32 with lower halves around the tie: each rounding case of bfloat16, many of the others.
    upper = torch.arange(2**16, dtype=torch.int64).repeat_interleave(5) << 16
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001]).repeat(2**16)
    values = (upper | lower).to(torch.int32).view(torch.float32)
    found = stored(values, Precision(target, allow_overflow=True), tmp_path)
    expected = values.to(target)
    width = torch.int16 if target.itemsize == 2 else torch.int8
    assert torch.equal(found.view(width), expected.view(width))


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        (FullPrecision, torch.float32),
        (DoublePrecision, torch.float64),
        (HalfPrecision, torch.float16),
        (BFloat16Precision, torch.bfloat16),
    ],
)
def test_named_precisions_convert_floats_and_leave_the_rest(
    precision: Precision, dtype: torch.dtype, tmp_path: Path
) -> None:
    source = {
        "f32": torch.randn(5),
        "f64": torch.randn(5, dtype=torch.float64),
        "i64": torch.tensor([2**62, -1]),
        "bool": torch.tensor([True, False]),
        "complex": torch.randn(3, dtype=torch.complex64),
        "u8": torch.arange(3, dtype=torch.uint8),
    }
    found = safetensors.torch.load_file(SafetensorsRecorder(precision).save(Record(source), tmp_path / "x"))
    for name, tensor in source.items():
        expected = tensor.to(dtype) if tensor.is_floating_point() else tensor
        assert found[name].dtype == expected.dtype
        assert torch.equal(found[name], expected)


def test_kept_tensors_are_stored_as_they_are(tmp_path: Path) -> None:
    precision = Precision(torch.bfloat16, int=torch.int32, keep=[r"norm", r"^step$"])
    record = Record({"layer.norm.gamma": torch.ones(2), "layer.weight": torch.ones(2), "step": torch.tensor(2**40)})
    found = safetensors.torch.load_file(SafetensorsRecorder(precision).save(record, tmp_path / "x"))
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        "layer.norm.gamma": torch.float32,
        "layer.weight": torch.bfloat16,
        "step": torch.int64,
    }


def test_tied_tensor_is_kept_by_any_of_its_names(tmp_path: Path) -> None:
    record = Record({"embed": torch.ones(2), "other": torch.ones(2)}, aliases={"head": "embed"})
    for keep in ("head", "embed"):
        path = SafetensorsRecorder(Precision(torch.bfloat16, keep=[keep])).save(record, tmp_path / keep)
        found = {name: tensor.dtype for name, tensor in safetensors.torch.load_file(path).items()}
        assert found == {"embed": torch.float32, "other": torch.bfloat16}


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (3.4e38, torch.float32, torch.bfloat16),
        (-3.4e38, torch.float32, torch.bfloat16),
        (65520.0, torch.float32, torch.float16),
        (1e300, torch.float64, torch.float32),
        (1e5, torch.bfloat16, torch.float16),
        (480.0, torch.float32, torch.float8_e4m3fn),
        (61441.0, torch.float32, torch.float8_e5m2),
    ],
)
def test_overflow_is_an_error_unless_allowed(
    value: float, source: torch.dtype, target: torch.dtype, tmp_path: Path
) -> None:
    tensor = torch.tensor([1.0, NAN, INF, -INF, value], dtype=source)
    (tmp_path / "x.safetensors").write_bytes(b"old")
    with pytest.raises(PrecisionError, match=r"'layer\.weight'.*too large for .*allow_overflow"):
        stored(tensor, Precision(target), tmp_path)
    assert (tmp_path / "x.safetensors").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]
    found = stored(tensor, Precision(target, allow_overflow=True), tmp_path)
    assert torch.equal(found.view(torch.uint8), tensor.to(target).view(torch.uint8))


def test_overflow_is_found_anywhere_in_a_large_tensor(tmp_path: Path) -> None:
    tensor = torch.zeros(3_000_000)
    tensor[2_999_999] = 3.4e38
    with pytest.raises(PrecisionError, match=r"3\.4e\+38"):
        stored(tensor, BFloat16Precision, tmp_path)


def test_inf_and_nan_that_were_there_pass(tmp_path: Path) -> None:
    found = stored(torch.tensor([INF, -INF, NAN, 1.0]), HalfPrecision, tmp_path)
    assert torch.equal(found.isnan(), torch.tensor([False, False, True, False]))
    assert found[:2].tolist() == [INF, -INF]


@pytest.mark.parametrize("value", [INF, -INF])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (torch.float32, torch.float8_e4m3fn),
        (torch.float8_e5m2, torch.float8_e5m2fnuz),  # of the same range but for that
    ],
)
def test_inf_in_a_type_without_inf_is_an_error(
    value: float, source: torch.dtype, target: torch.dtype, tmp_path: Path
) -> None:
    with pytest.raises(PrecisionError, match=f"inf is too large for {str(target).removeprefix('torch.')}"):
        stored(torch.tensor([1.0, value]).to(source), Precision(target), tmp_path)


def test_values_that_round_to_the_largest_pass(tmp_path: Path) -> None:
    assert stored(torch.tensor([464.0, -450.0]), Precision(torch.float8_e4m3fn), tmp_path).float().tolist() == [
        448,
        -448,
    ]
    assert stored(torch.tensor([65519.0]), HalfPrecision, tmp_path).tolist() == [65504]


def test_values_whose_sum_overflows_pass(tmp_path: Path) -> None:
    tensor = torch.full((1000,), 60000.0)
    assert torch.equal(stored(tensor, HalfPrecision, tmp_path), tensor.half())


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([0, 2**31], torch.int64, torch.int32),
        ([0, -(2**31) - 1], torch.int64, torch.int32),
        ([-1], torch.int8, torch.uint8),
        ([2**63], torch.uint64, torch.int64),
        ([200], torch.uint8, torch.int8),
        ([70000], torch.uint32, torch.uint16),
    ],
)
def test_integers_that_do_not_fit_are_an_error(
    values: list[int], source: torch.dtype, target: torch.dtype, tmp_path: Path
) -> None:
    with pytest.raises(PrecisionError, match=r"'layer\.weight': -?\d+ does not fit"):
        stored(torch.tensor(values, dtype=source), Precision(None, target), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([2**31 - 1, -(2**31)], torch.int64, torch.int32),
        ([2**63 - 1, 0], torch.uint64, torch.int64),
        ([], torch.int64, torch.int8),
        ([-128, 127], torch.int8, torch.int64),
    ],
)
def test_integers_that_fit_are_narrowed(
    values: list[int], source: torch.dtype, target: torch.dtype, tmp_path: Path
) -> None:
    found = stored(torch.tensor(values, dtype=source), Precision(None, target), tmp_path)
    assert found.dtype == target
    assert found.tolist() == values


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"Precision\.float: expected one of float64.*got int32"):
        Precision(torch.int32)
    with pytest.raises(DTypeError, match=r"Precision\.int: .*got float32"):
        Precision(None, torch.float32)
    with pytest.raises(DTypeError, match="got 'bf16'"):
        Precision("bf16")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RecordError, match="expected a regular expression"):
        Precision(None, keep=["("])
    with pytest.raises(RecordError, match=r"write keep=\['norm'\]"):
        Precision(None, keep="norm")
    with pytest.raises(RecordError, match="expected a Precision"):
        SafetensorsRecorder(torch.bfloat16)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("extension", ["safetensors", "mpk", "bpk"])
def test_float64_is_rounded_once(extension: str, tmp_path: Path) -> None:
    """A little above the middle of two: by way of float32 it is the middle, and becomes the even one below."""
    module = torch.nn.Linear(1, 3, bias=False, dtype=torch.float64)
    values = torch.tensor([[1 + 2**-11 + 2**-40], [-(1 + 2**-11 + 2**-40)], [65519.99999999]], dtype=torch.float64)
    module.weight.data.copy_(values)
    expected = values.numpy().astype("float16")
    assert expected.tolist() == [[1 + 2**-10], [-(1 + 2**-10)], [65504.0]]
    path = save(module, tmp_path / f"x.{extension}", precision=HalfPrecision)
    half, back = torch.nn.Linear(1, 3, bias=False, dtype=torch.float16), torch.nn.Linear(1, 3, bias=False)
    load(back, path)
    assert back.weight.tolist() == expected.tolist()
    load(half, save(module, tmp_path / f"y.{extension}", precision=Precision(float=None)))
    assert half.weight.tolist() == expected.tolist()
