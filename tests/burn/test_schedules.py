"""All schedules, nested and by group: each rate as Burn's, records carried both ways, and what is refused."""

import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

import burnlike.optim as bo
from burnlike.errors import ConfigError
from burnlike.module import ParamGroup, ParamId

from .optimizer_cases import burn_params
from .running import ask, random_of

pytestmark = pytest.mark.burn

STEPS = 130
_PATHS = ("embedding.weight", "blocks.0.norm.bias", "blocks.1.linear.weight", "head.bias")
NAMES = {
    "ConstantLrConfig": "Constant",
    "LinearLrConfig": "Linear",
    "CosineAnnealingConfig": "Cosine",
    "ExponentialLrConfig": "Exponential",
    "NoamLrConfig": "Noam",
    "StepLrConfig": "Step",
    "ComposedLrConfig": "Composed",
    "SequentialLrConfig": "Sequential",
}
_REDUCTIONS = {"prod": "Prod", "sum": "Sum", "avg": "Avg"}


def burn_schedule(config: Any) -> dict[str, Any]:
    """A schedule in the form of Burn's LrSchedulerConfig."""
    name = NAMES[type(config).__name__]
    if name == "Constant":
        return {name: config.lr}
    left_out = ("warmup_steps", "restart") if name == "Cosine" else ()
    fields = {key: getattr(config, key) for key in config.__struct_fields__ if key not in left_out}
    if "schedulers" in fields:
        fields["schedulers"] = [burn_schedule(it) for it in config.schedulers]
    if "reduction" in fields:
        fields["reduction"] = _REDUCTIONS[config.reduction]
    return {name: fields}


def burn_schedules(config: Any) -> dict[str, Any]:
    """Any schedule as Burn's ModuleLrSchedulerConfig."""
    if not isinstance(config, bo.ModuleLrSchedulerConfig):
        return {"base": burn_schedule(config), "scheduler_groups": []}
    groups = [{"group": burn_params(it.params), "scheduler": burn_schedule(it.scheduler)} for it in config.groups]
    return {"base": burn_schedule(config.base), "scheduler_groups": groups}


def drawn_schedule(random: Random, kind: str | None = None, depth: int = 0) -> Any:
    leaves = [*NAMES][:6]
    kind = kind or random.choice([*NAMES] if depth < 2 else leaves)
    lr = random.choice((1.0, 0.3, 0.01, 1e-5))
    length = random.choice((1, 2, 7, 50, 200))
    match NAMES[kind]:
        case "Constant":
            return bo.ConstantLrConfig(lr=lr)
        case "Linear":
            return bo.LinearLrConfig(initial_lr=lr, final_lr=random.choice((0.0, 1e-6, 0.5, 1.0)), num_iters=length)
        case "Cosine":
            least = random.choice((0.0, 0.1, 1.0)) * lr
            return bo.CosineAnnealingConfig(initial_lr=lr, min_lr=least, num_iters=length)
        case "Exponential":
            return bo.ExponentialLrConfig(initial_lr=lr, gamma=random.choice((1.0, 0.99, 0.5, 1e-3)))
        case "Noam":
            factor, size = random.choice((0.1, 1.0, 10.0)), random.choice((1, 64, 512))
            return bo.NoamLrConfig(factor=factor, warmup_steps=random.choice((1, 10, 4000)), model_size=size)
        case "Step":
            return bo.StepLrConfig(initial_lr=lr, step_size=length, gamma=random.choice((0.1, 0.5, 1.0, 1.5)))
        case "Composed":
            parts = [drawn_schedule(random, None, depth + 1) for _ in range(random.choice((1, 2, 3)))]
            return bo.ComposedLrConfig(schedulers=parts, reduction=random.choice([*_REDUCTIONS]))
        case _:
            parts = [drawn_schedule(random, None, depth + 1) for _ in range(random.choice((1, 2, 3)))]
            milestones = sorted(random.sample(range(1, STEPS - 10), len(parts) - 1))
            return bo.SequentialLrConfig(schedulers=parts, milestones=milestones)


def drawn_groups(random: Random) -> Any:
    groups = (
        ParamGroup.from_path(_PATHS[0]),
        ParamGroup.from_predicates(("blocks", "weight")),
        ParamGroup.from_any_predicates(("head", "norm")),
        ParamGroup.from_regex(r"\.bias$"),
        ParamGroup.from_any_regexes((r"^emb", r"\d\.linear")),
        ParamGroup.all().exclude(ParamGroup.from_predicate("bias")),
        ParamGroup.from_ids([ParamId(1)]),
    )
    count = random.choice((1, 2, 3))
    chosen = [bo.LrGroupConfig(params=it, scheduler=drawn_schedule(random)) for it in random.sample(groups, count)]
    return bo.ModuleLrSchedulerConfig(base=drawn_schedule(random), groups=tuple(chosen))


def rates_of(schedule: Any, steps: int) -> list[list[float]]:
    """The rates of _PATHS, and that of the base, as the program answers."""
    answers = []
    for _ in range(steps):
        rate = schedule.step()
        if not isinstance(rate, bo.ModuleLearningRate):
            rate = bo.ModuleLearningRate(rate)
        found = []
        for path in _PATHS:
            matching = [it for group, it in zip(rate.groups, rate.rates, strict=True) if _matches(group, path)]
            found.append(matching[-1] if matching else rate.base)
        answers.append([*found, rate.base])
    return answers


def _matches(group: ParamGroup, path: str) -> bool:
    return group.matches_id_path(ParamId(1), path)


def _asked(config: Any, steps: int, record: bytes | None = None, record_at: int = 0) -> dict[str, Any]:
    text = None if record is None else record.hex()
    return {
        "config": burn_schedules(config),
        "paths": _PATHS,
        "steps": steps,
        "record": text,
        "record_at": record_at,
    }


def _rates(answer: dict[str, Any]) -> list[list[float]]:
    return [[struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in step] for step in answer["rates"]]


def _differences(config: Any, burnlike: list[list[float]], burn: list[list[float]], what: str) -> list[str]:
    for step, (ours, theirs) in enumerate(zip(burnlike, burn, strict=True)):
        for mine, other in zip(ours, theirs, strict=True):
            if abs(mine - other) > 1e-12 * max(abs(mine), abs(other)) + 1e-300:
                return [f"{what}: {config}: step {step}: {mine!r} of burnlike, {other!r} of Burn"]
    return []


def test_every_rate_and_records_both_ways(tmp_path: Path) -> None:
    random = random_of("schedules")
    configs = [drawn_schedule(random, kind) for kind in NAMES for _ in range(16)]
    configs += [drawn_groups(random) for _ in range(48)]
    middles = [random.choice((1, 7, 60)) for _ in configs]
    path, saved, ours = tmp_path / "schedule.bpk", [], []
    for config, middle in zip(configs, middles, strict=True):
        schedule = config.init()
        first = rates_of(schedule, middle)
        schedule.save(path)
        saved.append(path.read_bytes())
        ours.append(first + rates_of(schedule, STEPS - middle))
    answers = ask("schedules", [_asked(it, STEPS, None, at) for it, at in zip(configs, middles, strict=True)])
    asked = [_asked(it, STEPS - at, record) for it, at, record in zip(configs, middles, saved, strict=True)]
    wrong = []
    for config, middle, mine, answer, after in zip(
        configs, middles, ours, answers, ask("schedules", asked), strict=True
    ):
        assert "refused" not in answer, (config, answer)
        wrong += _differences(config, mine, _rates(answer), "rates")
        wrong += _differences(config, mine[middle:], _rates(after), f"burnlike's record after {middle} steps in Burn")
        path.write_bytes(bytes.fromhex(answer["record"]))
        rest = rates_of(config.init().load(path), STEPS - middle)
        wrong += _differences(config, rest, _rates(answer)[middle:], f"Burn's record after {middle} steps")
    assert not wrong, f"{len(wrong)} of {3 * len(configs)}:\n" + "\n".join(wrong[:10])


_CONSTANT = {"Constant": 0.1}
REFUSALS: list[tuple[str, dict[str, Any], type, dict[str, Any]]] = [
    *[("both", {"initial_lr": lr, "final_lr": 0.1, "num_iters": 3}, bo.LinearLrConfig, {}) for lr in (0.0, -1.0, 1.5)],
    *[("both", {"initial_lr": 0.1, "final_lr": lr, "num_iters": 3}, bo.LinearLrConfig, {}) for lr in (-0.1, 1.5)],
    ("both", {"initial_lr": 0.1, "final_lr": 0.1, "num_iters": 0}, bo.LinearLrConfig, {}),
    *[("both", {"initial_lr": lr, "num_iters": 3}, bo.CosineAnnealingConfig, {"min_lr": 0.0}) for lr in (0.0, 1.5)],
    *[("both", {"initial_lr": 0.1, "min_lr": lr, "num_iters": 3}, bo.CosineAnnealingConfig, {}) for lr in (-0.1, 0.2)],
    ("both", {"initial_lr": 0.1, "num_iters": 0}, bo.CosineAnnealingConfig, {"min_lr": 0.0}),
    *[("both", {"initial_lr": lr, "gamma": 0.5}, bo.ExponentialLrConfig, {}) for lr in (0.0, -1.0, 1.5)],
    *[("both", {"initial_lr": 0.1, "gamma": gamma}, bo.ExponentialLrConfig, {}) for gamma in (0.0, -1.0, 1.5)],
    ("both", {"initial_lr": 0.1, "step_size": 0, "gamma": 0.5}, bo.StepLrConfig, {}),
    ("both", {"factor": 1.0, "warmup_steps": 0, "model_size": 4}, bo.NoamLrConfig, {}),
    ("both", {"factor": 1.0, "warmup_steps": 4, "model_size": 0}, bo.NoamLrConfig, {}),
    ("both", {"schedulers": [], "milestones": []}, bo.SequentialLrConfig, {}),
    ("both", {"schedulers": [0.1, 0.1], "milestones": []}, bo.SequentialLrConfig, {}),
    ("both", {"schedulers": [0.1, 0.1], "milestones": [0]}, bo.SequentialLrConfig, {}),
    ("both", {"schedulers": [0.1, 0.1, 0.1], "milestones": [3, 3]}, bo.SequentialLrConfig, {}),
    # Rows of docs/deviations.
    *[("burnlike", {"initial_lr": lr, "step_size": 1, "gamma": 0.5}, bo.StepLrConfig, {}) for lr in (0.0, -1.0)],
    *[("burnlike", {"initial_lr": 0.1, "step_size": 1, "gamma": it}, bo.StepLrConfig, {}) for it in (0.0, -1.0)],
    *[("burnlike", {"factor": it, "warmup_steps": 4, "model_size": 4}, bo.NoamLrConfig, {}) for it in (0.0, -1.0)],
    ("burnlike", {"schedulers": [], "reduction": "sum"}, bo.ComposedLrConfig, {}),
    ("burnlike", {"lr": -0.1}, bo.ConstantLrConfig, {}),
]


def test_both_refuse_what_both_can_not_do() -> None:
    cases = []
    for _, fields, kind, defaults in REFUSALS:
        name, given = NAMES[kind.__name__], fields | defaults
        if "schedulers" in given:
            given |= {"schedulers": [_CONSTANT for _ in given["schedulers"]]}
        if "reduction" in given:
            given |= {"reduction": _REDUCTIONS[given["reduction"]]}
        config = {"base": {name: given["lr"] if name == "Constant" else given}, "scheduler_groups": []}
        cases.append({"config": config, "paths": [], "steps": 1})
    for (who, fields, kind, _), answer in zip(REFUSALS, ask("schedules", cases), strict=True):
        given = dict(fields)
        if "schedulers" in given:
            given["schedulers"] = [bo.ConstantLrConfig(lr=it) for it in given["schedulers"]]
        with pytest.raises(ConfigError):
            kind(**given).init()
        assert ("refused" in answer) == (who == "both"), (kind, fields, answer)
