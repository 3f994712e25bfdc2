"""Each ready model exported to ONNX and run by onnxruntime."""

from pathlib import Path

import onnxruntime
import pytest
import torch

from burnlike.models import Mlp

from ..nn.cases import tensors_of
from .cases import CASES, ModelCase
from .test_every_model import run


def single(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


# The exporter asks torch's pytrees in an old way.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize(
    "case",
    [pytest.param(it, id=it.name, marks=[] if it.name == Mlp.__name__ else [pytest.mark.slow]) for it in CASES],
)
def test_onnxruntime_computes_the_same(case: ModelCase, tmp_path: Path) -> None:
    if "onnx" in case.not_in:
        pytest.skip(case.not_in["onnx"])
    model = case.model().float()
    inputs = tuple(single(it) if isinstance(it, torch.Tensor) else it for it in case.drawn())
    program = torch.onnx.export(model, inputs, dynamo=True, verbose=False)
    assert program is not None
    program.save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    tensors = tensors_of(inputs)
    given = {place.name: it.numpy() for place, it in zip(session.get_inputs(), tensors, strict=True)}
    found = [torch.from_numpy(it) for it in session.run(None, given)]
    expected = tensors_of(run(model, case, single))
    assert len(found) >= len(expected)
    for one, other in zip(found, expected, strict=False):
        torch.testing.assert_close(one, other.detach(), rtol=1e-4, atol=1e-5)
