"""Initializers beside Burn's, by the statistics of 200,000 numbers, and what both refuse."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import nn
from burnlike.errors import BurnlikeError

from .running import ask, random_of, unpacked

pytestmark = pytest.mark.burn

GAINS = (0.5, 1.0, 1.7)
RULES: dict[str, list[dict[str, Any]]] = {
    "Constant": [{"value": -1.5}],
    "Ones": [{}],
    "Zeros": [{}],
    "Uniform": [{"min": -0.3, "max": 0.7}, {"min": 2.0, "max": 2.5}],
    "Normal": [{"mean": 1.5, "std": 0.2}, {"mean": 0.0, "std": 3.0}],
    "KaimingUniform": [{"gain": gain, "fan_out_only": only} for gain in GAINS for only in (False, True)],
    "KaimingNormal": [{"gain": gain, "fan_out_only": only} for gain in GAINS for only in (False, True)],
    "XavierUniform": [{"gain": gain} for gain in GAINS],
    "XavierNormal": [{"gain": gain} for gain in GAINS],
    "Orthogonal": [{"gain": gain} for gain in GAINS],
}
"""Each rule of Burn's with its fields."""
FANS: tuple[dict[str, int], ...] = ({"fan_in": 80, "fan_out": 30}, {"fan_in": 7}, {"fan_out": 50}, {})


def statistics(values: Tensor) -> list[float]:
    """Mean, deviation and ends."""
    wide = values.double()
    return [wide.mean().item(), wide.std(correction=0).item(), wide.min().item(), wide.max().item()]


def fans_of(case: dict[str, Any]) -> dict[str, int]:
    """Those that are given."""
    return {name: case[name] for name in ("fan_in", "fan_out") if name in case}


def test_initializers() -> None:
    torch.manual_seed(random_of("initializers").getrandbits(40))
    cases = [
        {"layer": "initializer", "config": {name: fields} if fields else name, "shape": [400, 500], **fans}
        for name, all_fields in RULES.items()
        if name != "Orthogonal"
        for fields in all_fields
        for fans in FANS
    ]
    different = list[str]()
    for case, answer in zip(cases, ask("layers", cases), strict=True):
        name, fields = (case["config"], {}) if isinstance(case["config"], str) else next(iter(case["config"].items()))
        try:
            ours = getattr(nn, name)(**fields).init(case["shape"], **fans_of(case)).detach()
        except BurnlikeError as error:
            if "refused" not in answer:
                different.append(f"{json.dumps(case)}: burnlike refuses: {error}")
            continue
        if "refused" in answer:
            different.append(f"{json.dumps(case)}: Burn refuses: {answer['refused']}")
            continue
        one, other = statistics(ours), statistics(unpacked(answer))
        # Ends of normal numbers are those of a tail.
        near = 0.02 * one[1] + 1e-6
        ends = 3 * one[1] + 1e-6 if "Normal" in name else near
        if any(abs(a - b) > it for a, b, it in zip(one, other, (near, near, ends, ends), strict=True)):
            different.append(f"{json.dumps(case)}: {one} and {other}")
    assert different == []


@pytest.mark.parametrize("shape", [[6, 4], [4, 6], [3, 2, 5]], ids=str)
def test_orthogonal(shape: list[int]) -> None:
    for fields in RULES["Orthogonal"]:
        (answer,) = ask("layers", [{"layer": "initializer", "config": {"Orthogonal": fields}, "shape": shape}])
        for values in (nn.Orthogonal(**fields).init(shape).detach(), unpacked(answer)):
            rows = values.flatten(1) if values.shape[0] <= values[0].numel() else values.flatten(1).T
            gram = rows @ rows.T
            torch.testing.assert_close(gram, fields["gain"] ** 2 * torch.eye(len(rows)), rtol=0, atol=1e-4)
