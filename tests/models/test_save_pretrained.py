"""Models of ours written for transformers: the `config.json` says the model, and transformers computes the same."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import nn
from burnlike.errors import ConfigError
from burnlike.models import pretrained_config, save_pretrained
from burnlike.models.pretrained import described
from burnlike.models.weights.describing import description_of

from ..nn.cases import tensors_of
from .cases import CASES, LM, ModelCase

REFUSED = {
    "DecoderLm/capped": "has attention_soft_cap: None",
    "LstmLm": "no table of its weights",
    "Mlp": "no table of its weights",
    "ResNet/small": "resnet has stem: ImageNet",
    "ResNet/vectors": "resnet has stem: ImageNet",
    "Siamese": "no table of its weights",
    "Siamese/cosine": "no table of its weights",
    "TextClassifier": "no table of its weights",
    "TextClassifier/cls": "no table of its weights",
    "TokenTagger": "no table of its weights",
    "UNet": "no table of its weights",
}
WRITTEN = [case for case in CASES if case.name not in REFUSED]
SCALINGS = [
    nn.LinearScaling(factor=2.0),
    nn.DynamicScaling(factor=2.0, original_length=6),
    nn.YarnScaling(factor=2.0, original_length=3),
]
THEIRS = {"tokens": "input_ids", "token_types": "token_type_ids", "decoder_tokens": "decoder_input_ids"}
THEIRS["x"] = "pixel_values"


@pytest.mark.parametrize("case", [case for case in CASES if case.name in REFUSED], ids=lambda case: case.name)
def test_a_model_that_transformers_lacks_is_refused_with_the_reasons(case: ModelCase, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"transformers has no such model .*{REFUSED[case.name]}"):
        save_pretrained(case.model(), tmp_path / "new", config=case.config)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda it: type(it).__name__)
def test_scalings_of_positions_are_said(scaling: Any) -> None:
    from burnlike.models import RotaryPositions

    config = LM.replace(positions=RotaryPositions(interleaved=False, scaling=scaling), d_head=8)
    values = description_of(config, lambda it: described(it, "config.json").config)
    found: Any = described(values, "config.json").config
    assert found.positions == config.positions


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.name)
def test_transformers_computes_the_same(case: ModelCase, tmp_path: Path) -> None:
    import transformers

    model = case.model().float()
    names = ["x" if model_is_of_images(case) else it for it in inspect.signature(model.forward).parameters]
    inputs = {name: it for name, it in zip(names, case.drawn(), strict=False) if name != "mask_pad"}
    inputs = {name: it.float() if it.is_floating_point() else it for name, it in inputs.items()}
    save_pretrained(model, tmp_path, config=case.config, classes=["x", "y", "z"])
    said = json.loads((tmp_path / "config.json").read_text())
    loader = getattr(transformers, said["architectures"][0])
    theirs, report = loader.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    with torch.no_grad():
        output = theirs.eval()(**{THEIRS.get(name, name): it for name, it in inputs.items()})
        expected = tensors_of(model(*inputs.values()))[0]
    found = output.logits if hasattr(output, "logits") else output.last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if "id2label" in said:
        assert theirs.config.id2label == {0: "x", 1: "y", 2: "z"}
    assert type(pretrained_config(tmp_path)) is type(case.config)


def model_is_of_images(case: ModelCase) -> bool:
    return case.drawn()[0].dim() == 4
