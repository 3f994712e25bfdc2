"""Each ready model exported to ONNX and run by onnxruntime."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch

from burnlike import nn
from burnlike.models import Mlp

from ..nn.cases import tensors_of
from .cases import CASES, ModelCase
from .test_every_model import run


def single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def expect_same(model: torch.nn.Module, inputs: tuple[Any, ...], expected: object, file: Path) -> None:
    program = torch.onnx.export(model, inputs, dynamo=True, verbose=False)
    assert program is not None
    program.save(file)
    session = onnxruntime.InferenceSession(file)
    given = {place.name: it.numpy() for place, it in zip(session.get_inputs(), tensors_of(inputs), strict=True)}
    found, wanted = [torch.from_numpy(it) for it in session.run(None, given)], tensors_of(expected)
    assert len(found) >= len(wanted)
    for one, other in zip(found, wanted, strict=False):
        torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-5)


# The exporter asks torch's pytrees in an old way.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    "case",
    [pytest.param(it, id=it.name, marks=[] if it.name == Mlp.__name__ else [pytest.mark.slow]) for it in CASES],
)
def test_onnxruntime_computes_the_same(case: ModelCase, tmp_path: Path) -> None:
    model = case.model().float()
    inputs = tuple(single(it) if isinstance(it, torch.Tensor) else it for it in case.drawn())
    expect_same(model, inputs, run(model, case, single), tmp_path / "model.onnx")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    "config",
    [
        nn.BiGruConfig(d_input=3, d_hidden=4, bias=True),
        nn.BiLstmConfig(d_input=3, d_hidden=4, bias=True),
        nn.BiRnnConfig(d_input=3, d_hidden=4, bias=True),
        nn.BiLstmConfig(d_input=3, d_hidden=4, bias=False, clip=0.5),
    ],
)
def test_two_directions(config: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(config.init()).eval()  # also behind a prefix
    x = torch.randn(2, 5, 3)
    names = [name for name, _ in model.named_parameters()]
    expect_same(model, (x,), model(x), tmp_path / "model.onnx")
    assert [name for name, _ in model.named_parameters()] == names
