"""Part `steps`: optimizer steps, and saves and loads of 355 M values, with the side stream and without."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from benchmarks._harness import compare
from benchmarks._results import Comparison
from benchmarks.ops import adamw_step, adamw_step_device
from benchmarks.optim._sides import Shapes, language_model
from benchmarks.record_load import Net
from benchmarks.record_save import tensors
from burnlike.optim.rules.config_base import StateDtype
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, load

from .results import Part

TINY: Shapes = [(64, 32), (7,)]
LARGE: Shapes = [adamw_step_device.LARGE] * 4
STATES: tuple[StateDtype, ...] = ("float32", "bfloat16", "blockwise8")
REPEATS = 10
SAVES = 3


def run(part: Part) -> None:
    """Run the steps, then the files."""
    repeats = 1 if part.is_rehearsal else REPEATS
    model, large = (TINY, TINY) if part.is_rehearsal else (language_model(), LARGE)
    benchmark = "ops.adamw_step_device"
    for clips in (False, True):
        name = f"{'Clip and ' * clips}AdamW step on a {'CPU' if part.is_rehearsal else 'GPU'}, language model"
        part.step(
            name,
            lambda name=name, clips=clips: part.add_rows(
                benchmark, [adamw_step.with_torch(name, model, None, repeats, clips=clips, device=part.device)]
            ),
        )
    for state in STATES:
        part.step(
            f"AdamW with moments in {state}",
            lambda state=state: part.add_rows(
                benchmark, [adamw_step_device.with_copy(state, large, None, repeats, part.device)]
            ),
        )
    part.step("save and load", lambda: part.add_rows("record_device", [*_files(part)]))


@contextmanager
def without_side_stream() -> Iterator[None]:
    """Within the block, copies to and from the device go through the stream in which it computes."""
    with mock.patch("burnlike.record.bytes.values._stream_of", torch.cuda.current_stream):
        yield


def _values(part: Part) -> dict[str, Tensor]:
    if part.is_rehearsal:
        return {f"part.{index}": torch.randn(shape) for index, shape in enumerate(TINY)}
    with torch.device(part.device):
        return tensors()


def _files(part: Part) -> Iterator[Comparison]:
    """A save and a load with the side stream beside themselves without; all values come back, rounded."""
    values, repeats = _values(part), 1 if part.is_rehearsal else SAVES
    count = sum(it.numel() for it in values.values()) / 1e6
    recorder, record = SafetensorsRecorder(BFloat16Precision), Record(values)
    with torch.device(part.device):
        net = Net(values)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        path = Path(name) / "values.safetensors"

        def save() -> None:
            recorder.save(record, path)

        def save_without() -> None:
            with without_side_stream():
                save()

        def fill() -> None:
            load(net, path)

        def fill_without() -> None:
            with without_side_stream():
                fill()

        plain = "without the side stream"
        where = f"bf16, {count:.0f} M values on {part.device}"
        yield compare(f"save {where}", save, save_without, theirs_name=plain, repeats=repeats)
        yield compare(f"load {where}", fill, fill_without, theirs_name=plain, repeats=repeats)
    parameters = dict(net.named_parameters())
    for key, value in values.items():
        expected = value.to(torch.bfloat16).float()
        if not torch.equal(parameters[key].detach(), expected):
            most = (parameters[key].detach() - expected).abs().max().item()
            part.result.fail(f"{key} {list(value.shape)}: not what was saved, by at most {most:.3g}")
