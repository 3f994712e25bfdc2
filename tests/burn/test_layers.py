"""Layers beside Burn's: outputs in evaluation and in training, all gradients, records both ways, display."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import burnlike as bl
from burnlike import nn, record
from tests.burn_configs import module_config

from .layer_case import ACTIVATIONS, OTHER_ACTIVATIONS, LayerCase
from .layer_comparison import Flaw, compared, still_there, without
from .layers import DRAWS, NORMS
from .losses import DRAWS as LOSSES
from .running import ask, cargo, packed, random_of, unpacked
from .test_initializers import RULES

pytestmark = pytest.mark.burn

DRAWN = 12
"""Cases of each layer."""
EXTREMES = torch.tensor(
    [[0.0, -0.0, 1e-30, 0.5, -0.5, 20, -20, 89, -89, 1e30, -1e30, torch.inf, -torch.inf, torch.nan]]
)


EACH_ELEMENT = {*ACTIVATIONS, *OTHER_ACTIVATIONS, "LogSigmoid", "Mish", "Relu6", "SiLU", "Tanhshrink", "RRelu"}
"""Activations of each element by itself."""


def is_conv1d_with_a_rest(case: LayerCase) -> bool:
    """True if a convolution of groups has strides, which may leave a rest of the input."""
    return case.layer == "Conv1d" and case.config["groups"] > 1 and case.config["stride"] > 1


def is_interpolation(mode: str, case: LayerCase) -> bool:
    """True for a layer of this mode."""
    return case.layer.startswith("Interpolate") and case.config["mode"] == mode


def interpolation(mode: str) -> LayerCase:
    """A line of twice the length."""
    config = {"output_size": 4, "scale_factor": None, "mode": mode, "align_corners": True}
    return LayerCase("Interpolate1d", config, {"x": torch.ones(1, 1, 2)})


CONV = {
    "channels_in": 2,
    "channels_out": 4,
    "kernel_size": 1,
    "stride": 3,
    "dilation": 1,
    "groups": 2,
    "padding": "Valid",
    "bias": False,
    "initializer": "Ones",
}
FLAWS = {
    "The gradient of Conv1d's weight is wrong for groups and a stride that leaves a rest": Flaw(
        is_conv1d_with_a_rest, "gradient of weight", LayerCase("Conv1d", CONV, {"x": torch.arange(10.0).view(1, 2, 5)})
    ),
    "The gradients of Elu, Celu and Selu are NaN where e^x is infinite": Flaw(
        lambda case: case.layer in ("Elu", "Celu", "Selu") and bool((case.inputs["x"] >= 88).any()),
        "gradient of x",
        LayerCase("Elu", {"alpha": 1.0}, {"x": torch.tensor([[90.0, 1.0]])}),
    ),
    "The gradient of PRelu's alpha is NaN beside infinity": Flaw(
        lambda case: case.layer == "PRelu" and not case.inputs["x"].isfinite().all(),
        "gradient of alpha",
        LayerCase("PRelu", {"num_parameters": 1, "alpha": 0.5}, {"x": torch.tensor([[torch.inf, -1.0]])}),
    ),
    "The flex backend has no NearestExact": Flaw(
        lambda case: is_interpolation("NearestExact", case),
        "refused: .*unsupported mode NearestExact",
        interpolation("NearestExact"),
    ),
    "The flex backend has no backward pass of Lanczos": Flaw(
        lambda case: is_interpolation("Lanczos", case),
        "refused: .*interpolate_backward: unsupported mode Lanczos",
        interpolation("Lanczos"),
    ),
}
"""What Burn 0.22.1 gets wrong. Nothing else of these cases may differ."""


def test_layers(tmp_path: Path) -> None:
    cases = [draw(random) for name, draw in DRAWS.items() for random in [random_of(name)] for _ in range(DRAWN)]
    different = without(FLAWS.values(), compared("layers", cases, tmp_path))
    assert not different, f"{len(different)} of {len(cases)} cases:\n" + "\n".join(different)


def test_known_flaws_are_still_there(tmp_path: Path) -> None:
    assert still_there("layers", FLAWS, tmp_path) == []


def test_lanczos(tmp_path: Path) -> None:
    random = random_of("Lanczos")
    cases = list[LayerCase]()
    for name in ("Interpolate1d", "Interpolate2d"):
        for _ in range(DRAWN):
            case = DRAWS[name](random)
            cases.append(LayerCase(name, {**case.config, "mode": "Lanczos"}, case.inputs, {"training": False}))
    assert without((), compared("layers", cases, tmp_path)) == []


def test_activations_of_extreme_values(tmp_path: Path) -> None:
    random = random_of("extremes")
    cases = list[LayerCase]()
    for name in sorted(EACH_ELEMENT & DRAWS.keys()):
        case = DRAWS[name](random)
        if name == "Gelu":  # whose row in docs/deviations has another number for infinity
            case.config["approximate"] = True
        # At 0 and at NaN the two choose another side of a bend.
        cases.append(LayerCase(name, case.config, {"x": EXTREMES}, {"training": False}))
        cases.append(LayerCase(name, case.config, {"x": EXTREMES[:, 2:-1]}, case.options))
    different = without(FLAWS.values(), compared("layers", cases, tmp_path))
    assert not different, f"{len(different)} of {len(cases)} cases:\n" + "\n".join(different)


def test_half_precision_is_cast_at_load(tmp_path: Path) -> None:
    module, path = nn.LinearConfig(d_input=3, d_output=2).init(), tmp_path / "half.bpk"
    record.save(module, path, precision=bl.HalfPrecision)
    x = torch.ones(1, 3)
    config = {"d_input": 3, "d_output": 2, "bias": True, "initializer": "Ones", "layout": "Row"}
    case = {"layer": "Linear", "config": config, "inputs": {"x": packed(x)}, "after": str(path), "training": False}
    as_saved, cast = ask("layers", [case, {**case, "cast": True}])
    assert re.search("dtype mismatch", as_saved["refused"], re.IGNORECASE)
    torch.testing.assert_close(unpacked(cast["evaluation"][0]), module(x).detach(), rtol=0, atol=2e-3)


def trained(layer: str, config: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """What burnlike's layer and Burn's give in training."""
    (answer,) = ask("layers", [{"layer": layer, "config": config, "inputs": {"x": packed(x)}, "weights": [packed(x)]}])
    return module_config(layer, config).init().train()(x), unpacked(answer["training"][0])


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9])
def test_dropout_in_training(prob: float) -> None:
    for values in trained("Dropout", {"prob": prob}, torch.ones(200, 200)):
        assert values[values != 0].sub(1 / (1 - prob)).abs().max() <= 1e-6 / (1 - prob)
        assert (values == 0).float().mean().item() == pytest.approx(prob, abs=0.02)


def test_noise_in_training() -> None:
    for values in trained("GaussianNoise", {"std": 0.5}, torch.ones(200, 200)):
        assert values.mean().item() == pytest.approx(1, abs=0.02)
        assert values.std().item() == pytest.approx(0.5, abs=0.02)


def test_randomized_relu_in_training() -> None:
    for values in trained("RRelu", {"lower": 0.2, "upper": 0.6}, -torch.ones(200, 200)):
        assert -0.6 <= values.min() < -0.59
        assert -0.21 < values.max() <= -0.2
        assert values.mean().item() == pytest.approx(-0.4, abs=0.01)


def answers_of(answer: Any) -> list[dict[str, Any]]:
    """Those of a case that has several."""
    assert isinstance(answer, list), answer
    return answer


def test_masks() -> None:
    tokens = [[3, 5, 0], [7], [1, 2, 3, 4]]
    cases: list[dict[str, Any]] = [
        {"causal": 1},
        {"causal": 4},
        *(
            {"tokens": tokens, "pad": pad, **limit}
            for pad in (0, 9)
            for limit in ({}, {"max": 2}, {"max": 9}, {"fixed": 6})
        ),
    ]
    for case, answer in zip(cases, ask("layers", [{"layer": "masks", **it} for it in cases]), strict=True):
        if "causal" in case:
            ours = [nn.generate_autoregressive_mask(2, case["causal"])]
        else:
            length = case.get("max", case.get("fixed"))
            ours = [*nn.generate_padding_mask(case["pad"], tokens, length, fixed="fixed" in case)]
        assert all(torch.equal(one, it) for one, it in zip(ours, map(unpacked, answers_of(answer)), strict=True)), case


def test_sinusoids() -> None:
    for length, size, scale in ((5, 8, 10_000), (50, 4, 100)):
        (answer,) = ask("layers", [{"layer": "sinusoids", "length": length, "d_model": size, "max_timescale": scale}])
        torch.testing.assert_close(nn.generate_sinusoids(length, size, scale), unpacked(answer), rtol=0, atol=1e-5)


VARIANTS = {
    "ActivationConfig": {*ACTIVATIONS, "SwiGlu"},
    "NormalizationConfig": {*NORMS, "Identity"},
    "InterpolateMode": {"Nearest", "NearestExact", "Linear", "Cubic", "Lanczos"},
    "LinearLayout": {"Row", "Col"},
    "SeqLengthOption": {"NoMax", "Max", "Fixed"},
    "Reduction": {"Mean", "Sum", "BatchMean", "Auto"},
    "PaddingConfig1d": {"Same", "Valid", "Explicit"},
    "PaddingConfig2d": {"Same", "Valid", "Explicit"},
    "PaddingConfig3d": {"Same", "Valid", "Explicit"},
    "Initializer": set(RULES),
}
"""Which variants of Burn's enums are drawn in `layers.py`, `losses.py` and `test_initializers.py`."""


def test_each_public_config_of_burn_is_built() -> None:
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    (manifest,) = [it["manifest_path"] for it in packages if it["name"] == "burn-nn"]
    text = "\n".join(path.read_text() for path in sorted(Path(manifest).parent.joinpath("src").rglob("*.rs")))
    found = re.findall(
        r"#\[derive\([^)]*\bConfig\b[^)]*\)\]\s*(?:(?:#\[[^\]]*\]|///[^\n]*)\s*)*pub (struct|enum) (\w+) \{(.*?)^\}",
        text,
        re.DOTALL | re.MULTILINE,
    )
    assert len(found) > 70
    structs = {name.removesuffix("Config") for kind, name, _ in found if kind == "struct"}
    assert structs - {*DRAWS, *LOSSES} == set()
    variants = {
        name: set(re.findall(r"^    (\w+)(?=[ ({,])", body, re.MULTILINE))
        for kind, name, body in found
        if kind == "enum"
    }
    assert variants == VARIANTS
