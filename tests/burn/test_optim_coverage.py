"""Each public config of burn-optim is in a case, and the vectors that were worked out are what Burn computes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from .optimizer_cases import RULES, drawn_case
from .running import HERE, ask, cargo, packed, random_of, unpacked
from .test_lbfgs import asked_lbfgs, drawn_problem
from .test_schedules import NAMES, burn_schedules, drawn_groups, drawn_schedule

pytestmark = pytest.mark.burn

_SCHEDULES = {name: f"{name}LrSchedulerConfig" for name in NAMES.values()} | {
    "Cosine": "CosineAnnealingLrSchedulerConfig"
}
_BY_KEY = {
    "penalty": "WeightDecayConfig",
    "dampening": "MomentumConfig",
    "Norm": "GradientClippingConfig",
    "scheduler_groups": "ModuleLrSchedulerConfig",
    "base": "LrSchedulerConfig",
    "history_size": "LBFGSConfig",
    **_SCHEDULES,
}


def _configs_in(value: Any) -> Iterator[str]:
    """The configs of Burn's that a case is made of."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _configs_in(item)
    if isinstance(value, dict):
        if "type" in value:
            yield f"{value['type']}Config"
        for key, item in value.items():
            if key in _BY_KEY:
                yield _BY_KEY[key]
            yield from _configs_in(item)


def test_no_config_of_burn_optim_is_left_out() -> None:
    words = ("metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu")
    packages = json.loads(cargo(*words))["packages"]
    (source,) = (Path(it["manifest_path"]).parent / "src" for it in packages if it["name"] == "burn-optim")
    public = {
        name
        for path in source.rglob("*.rs")
        for name in re.findall(r"^pub (?:struct|enum) (\w*Config)\b", path.read_text(), re.MULTILINE)
    }
    assert len(public) > 20
    random = random_of("configs")
    cases: list[Any] = [drawn_case(random, rule, number).asked() for rule in RULES for number in range(16)]
    cases += [burn_schedules(drawn_schedule(random, kind)) for kind in NAMES]
    cases += [burn_schedules(drawn_groups(random)), asked_lbfgs(drawn_problem(random, 0), 1)]
    # A constant rate has no config.
    assert public == {*_configs_in(cases)} - {"ConstantLrSchedulerConfig"}


_VECTORS = json.loads((HERE.parent / "vectors" / "optim.json").read_text())["optimizers_derived"]


def _of_linear(entry: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Values and gradients of weight and bias, whose loss is the sum of the outputs, and the values after all steps."""
    inputs = torch.tensor(entry["inputs_per_step"])
    weight, bias = torch.tensor(entry["initial"]["weight"]), torch.tensor(entry["initial"]["bias"])
    of_weight = inputs.sum(1)[:, :, None].expand(-1, *weight.shape).contiguous()
    of_bias = torch.full((len(inputs), *bias.shape), float(inputs.shape[1]))
    ends = [torch.tensor(entry["expected"][name])[None] for name in ("weight", "bias")]
    return [weight, bias], [of_weight, of_bias], ends


@pytest.mark.parametrize("entry", _VECTORS, ids=lambda it: it["id"])
def test_vectors_that_were_worked_out_are_burns(entry: dict[str, Any]) -> None:
    if "initial" in entry:
        values, grads, expected = _of_linear(entry)
    else:
        values, grads = [torch.tensor(entry["initial_param"])], [torch.tensor(entry["grads_per_step"])]
        expected = [torch.tensor(entry["expected_param_after_each_step"])]
    steps = len(grads[0])
    case: dict[str, Any] = {"vectors": [], "matrices": [], "kernels": []}
    for number, (value, grad) in enumerate(zip(values, grads, strict=True)):
        given = {"id": number + 1, "value": packed(value), "grads": packed(grad), "has_grad": [True] * steps}
        case["vectors" if value.dim() == 1 else "matrices"].append(given)
    optimizer = {"type": entry["optimizer"], "config": entry["config"], "groups": []}
    rates = [entry["learning_rate"]] * steps
    (answer,) = ask("optimizers", [{"task": "steps", **case, "optimizer": optimizer, "rates": rates}])
    assert "refused" not in answer, answer
    by_rank = sorted(zip(values, expected, strict=True), key=lambda it: it[0].dim())
    for (value, ends), found in zip(by_rank, answer["values"], strict=True):
        course = unpacked(found).reshape(steps, *value.shape)
        torch.testing.assert_close(course[-len(ends) :], ends, rtol=0, atol=entry["tolerance"]["value"])
