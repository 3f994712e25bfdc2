"""L-BFGS on small problems: values, losses and numbers of evaluations as Burn's, and records carried both ways."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike.optim as bo
from burnlike.module import ParamId, params

from .running import ask, packed, random_of, unpacked

pytestmark = pytest.mark.burn

STEPS, RECORD_AT = 6, 3


class Problem(nn.Module):
    """The problem of a case, whose parameters are at the paths of Burn's `Net`."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.case = case
        self.vectors = nn.ParameterList([case["vector"].clone()])
        self.matrices = nn.ParameterList([case["matrix"].clone()] if "matrix" in case else [])
        for number, param in enumerate(params(self)):
            param.adopt(ParamId(number + 1))

    def forward(self) -> Tensor:
        x, case = self.vectors[0], self.case
        if case["problem"] == "quadratic":
            return (case["a"] @ x[:, None] - case["b"]).square().sum() * 0.5
        if case["problem"] == "rosenbrock":
            return ((x[1:] - x[:-1].square()).square() * 100 + (1 - x[:-1]).square()).sum()
        margins = (case["a"] @ self.matrices[0] + x[:, None]) * case["b"]
        return ((-margins).exp() + 1).log().mean()


def drawn_problem(random: Random, number: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    problem = ("quadratic", "rosenbrock", "logistic")[number % 3]
    searches = random.random() < 0.6
    rate = random.choice((1.0, 0.5)) if searches else random.choice((0.01, 1e-3) if number % 3 == 1 else (0.1, 0.02))
    config = bo.LbfgsConfig(
        max_iter=random.choice((1, 4, 20)),
        history_size=random.choice((1, 3, 100)),
        max_eval=random.choice((None, 5)),
        line_search_fn="StrongWolfe" if searches else None,
    )
    case: dict[str, Any] = {"problem": problem, "config": config, "rate": rate}
    size = random.choice((2, 5))
    if problem == "logistic":
        a = torch.randn(12, size, generator=generator)
        signs = torch.randn(12, 1, generator=generator).sign()
        return case | {"a": a, "b": signs, "vector": torch.zeros(1), "matrix": torch.zeros(size, 1)}
    a, b = torch.randn(size + 2, size, generator=generator), torch.randn(size + 2, 1, generator=generator)
    return case | {"a": a, "b": b, "vector": torch.randn(size, generator=generator)}


def asked_lbfgs(
    case: dict[str, Any], steps: int, start: Tensor | None = None, record: bytes | None = None
) -> dict[str, Any]:
    config = {name: getattr(case["config"], name) for name in case["config"].__struct_fields__}
    values = [case["vector"], *([case["matrix"]] if "matrix" in case else [])]
    if start is not None:
        values = [
            it.reshape(value.shape) for it, value in zip(start.split([v.numel() for v in values]), values, strict=True)
        ]
    entries = [{"id": number + 1, "value": packed(value)} for number, value in enumerate(values)]
    return {
        "task": "lbfgs",
        "problem": case["problem"],
        "config": config | {"line_search_fn": config["line_search_fn"] or "None"},
        "rate": case["rate"],
        "a": packed(case["a"]),
        "b": packed(case["b"]),
        "vectors": entries[:1],
        "matrices": entries[1:],
        "kernels": [],
        "steps": steps,
        "record": None if record is None else record.hex(),
        "record_at": RECORD_AT,
    }


def _run(
    case: dict[str, Any], path: Path, steps: int = STEPS, start: Tensor | None = None, record: bytes | None = None
) -> tuple[list[Tensor], list[int], bytes]:
    """Values after each step, how often the loss was evaluated, and the record after RECORD_AT steps."""
    model, optimizer = Problem(case), case["config"].init()
    if start is not None:
        nn.utils.vector_to_parameters(start.clone(), model.parameters())
    if record is not None:
        path.write_bytes(record)
        optimizer.load(path)
    values, calls, saved = [], [], b""
    for step in range(steps):
        count = 0

        def closure(module: nn.Module) -> tuple[Any, Any]:
            nonlocal count
            count += 1
            loss = module()
            loss.backward()
            return loss, bo.GradientsParams.from_module(module)

        optimizer.step(case["rate"], model, closure)
        values.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
        calls.append(count)
        if step + 1 == RECORD_AT:
            optimizer.save(path)
            saved = path.read_bytes()
    return values, calls, saved


def _losses(case: dict[str, Any], values: list[Tensor]) -> list[float]:
    """The loss at each of the values, in float64."""
    doubled = {name: it.double() if isinstance(it, Tensor) else it for name, it in case.items()}
    model, found = Problem(doubled), []
    for value in values:
        nn.utils.vector_to_parameters(value.double(), model.parameters())
        found.append(model().item())
    return found


def _difference(case: dict[str, Any], mine: list[Tensor], burn: list[Tensor], spread: list[float]) -> str:
    """The first step after which both are at different places, and not both at the end of what float32 resolves."""
    for step, (a, b, loss, other) in enumerate(zip(mine, burn, _losses(case, mine), _losses(case, burn), strict=True)):
        apart = (a - b).abs() / (1 + b.abs())
        at_end = abs(loss - other) <= 1e-5 * (abs(other) + 1e-3) and apart.max() < 0.02
        if apart.max() > 2e-5 + spread[len(spread) - len(mine) + step] and not at_end:
            return f"step {step}: {a.tolist()} of burnlike, {b.tolist()} of Burn"
    return ""


def _spread(case: dict[str, Any], values: list[Tensor], path: Path) -> list[float]:
    """How far burnlike's own run goes where each value it is given is changed a little: a line search decides.

    Values are changed each on their own: scaling all of them alike left a branch untaken that rounding in Burn takes.
    """
    spread, generator = [0.0] * STEPS, torch.Generator().manual_seed(0)
    for _ in range(16):
        changed = {
            name: case[name] * (1 + 2e-6 * torch.randn(case[name].shape, generator=generator))
            for name in ("vector", "a")
        }
        other, _, _ = _run(case | changed, path)
        apart = [float(((a - b).abs() / (1 + b.abs())).max()) * 20 for a, b in zip(values, other, strict=True)]
        spread = [*map(max, spread, apart)]
    return spread


def test_every_step_and_records_both_ways(tmp_path: Path) -> None:
    random, path, wrong, exact = random_of("lbfgs"), tmp_path / "lbfgs.bpk", list[str](), 0
    cases = [drawn_problem(random, number) for number in range(48)]
    ours = [_run(case, path) for case in cases]
    answers = ask("optimizers", [asked_lbfgs(case, STEPS) for case in cases])
    asked = [
        asked_lbfgs(case, STEPS - RECORD_AT, values[RECORD_AT - 1], saved)
        for case, (values, _, saved) in zip(cases, ours, strict=True)
    ]
    for case, (values, calls, _), answer, after in zip(cases, ours, answers, ask("optimizers", asked), strict=True):
        name = f"{case['problem']} {case['config']} {case['vector'].tolist()}"
        assert "refused" not in answer, (name, answer)
        assert "refused" not in after, (name, after)
        theirs, continued = ([unpacked(it) for it in reply["values"]] for reply in (answer, after))
        record = bytes.fromhex(answer["record"])
        rest, _, _ = _run(case, path, STEPS - RECORD_AT, theirs[RECORD_AT - 1], record)
        pairs = {
            "steps": (values, theirs),
            "burnlike's record in Burn": (values[RECORD_AT:], continued),
            "Burn's record": (rest, theirs[RECORD_AT:]),
        }
        if any(_difference(case, *both, [0.0] * STEPS) for both in pairs.values()):
            spread = _spread(case, values, path)
            found = ((what, _difference(case, *both, spread)) for what, both in pairs.items())
            wrong += [f"{name}: {what}: {it}" for what, it in found if it]
        exact += calls[:2] == answer["calls"][:2]
    assert not wrong, f"{len(wrong)} of {3 * len(cases)}:\n" + "\n".join(wrong[:10])
    assert exact > 0.85 * len(cases), exact
