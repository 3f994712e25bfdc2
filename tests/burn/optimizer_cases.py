"""Optimizers with drawn configs, groups, rates and gradients, as Burn takes them and as burnlike runs them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

import burnlike.optim as bo
from burnlike.module import ParamGroup, ParamId, params

from .running import packed, unpacked

STEPS = 30
RECORD_AT = 12
_SHAPES = ((7,), (1,), (5, 3), (2, 3, 3, 2))
_MATRICES = ((5, 3), (3, 7), (4, 4))
_LISTS = {1: "vectors", 2: "matrices", 4: "kernels"}
_IDS = (2**64 - 5, 7, 123_456_789, 2**63 + 1)
"""Of the parameters, in the order of a module's."""
_DECAY_IS_OPTION = {"Sgd", "Adam", "AdaGrad", "RmsProp", "Muon"}
RULES = ("Sgd", "Adam", "AdamW", "AdaGrad", "RmsProp", "Adan", "Lion", "Lamb", "Adafactor", "Muon")


class Net(nn.Module):
    """Parameters of several ranks, at the paths that they have in Burn's `Net`."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        super().__init__()
        for rank, name in _LISTS.items():
            setattr(self, name, nn.ParameterList(value.clone() for value in values if value.dim() == rank))


@dataclass
class Case:
    """An optimizer and what it is given: values, gradients `[steps, ...]`, and in which steps they are there."""

    name: str
    config: Any
    values: list[Tensor]
    grads: list[Tensor]
    has_grad: list[list[bool]]
    rates: list[float]
    rate_groups: list[tuple[ParamGroup, list[float]]] = field(default_factory=list)

    def asked(self, values: Sequence[Tensor] | None = None, record: bytes | None = None) -> dict[str, Any]:
        """The case for Burn: all steps, or those after RECORD_AT from values and a record on."""
        begin = 0 if record is None else RECORD_AT
        lists: dict[str, list[Any]] = {name: [] for name in _LISTS.values()}
        for number, value in enumerate(self.values if values is None else values):
            entry = {"id": _IDS[number], "value": packed(value), "grads": packed(self.grads[number][begin:])}
            lists[_LISTS[value.dim()]].append(entry | {"has_grad": self.has_grad[number][begin:]})
        groups = [burn_group(self.config, it) for it in self.config.groups]
        return {
            **lists,
            "task": "steps",
            "optimizer": burn_rule(self.config) | {"groups": groups},
            "rates": self.rates[begin:],
            "rate_groups": [{"params": burn_params(it), "rates": rates[begin:]} for it, rates in self.rate_groups],
            "record": None if record is None else record.hex(),
            "record_at": RECORD_AT if record is None else None,
        }

    def run(
        self, folder: Path, values: Sequence[Tensor] | None = None, record: bytes | None = None
    ) -> tuple[list[Tensor], bytes]:
        """burnlike's values of each parameter after each step, and its record after RECORD_AT steps; or what follows
        from values and a record then.
        """
        net, path = Net(self.values if values is None else values), folder / "optimizer.bpk"
        found = params(net)
        for param, number in zip(found, _IDS, strict=False):
            param.adopt(ParamId(number))
        optimizer = self.config.init()
        if record is not None:
            path.write_bytes(record)
            optimizer.load(path)
        courses: list[list[Tensor]] = [[] for _ in found]
        saved = b""
        for step in range(0 if record is None else RECORD_AT, STEPS):
            for number, param in enumerate(found):
                param.tensor.grad = self.grads[number][step].clone() if self.has_grad[number][step] else None
            groups, rates = zip(*self.rate_groups, strict=True) if self.rate_groups else ((), ())
            rate = bo.ModuleLearningRate(self.rates[step], groups, tuple(of_steps[step] for of_steps in rates))
            optimizer.step(rate, net, bo.GradientsParams.from_module(net))
            for course, param in zip(courses, found, strict=True):
                course.append(param.tensor.detach().clone())
            if step + 1 == RECORD_AT and record is None:
                optimizer.save(path)
                saved = path.read_bytes()
        return [torch.stack(course) for course in courses], saved


def values_of(case: Case, answer: Mapping[str, Any]) -> list[Tensor]:
    """Burn's values of each parameter, `[steps, ...]`."""
    assert "refused" not in answer, f"{case.name}: {answer}"
    shapes = [value.shape for value in case.values]
    return [unpacked(it).reshape(-1, *shape) for it, shape in zip(answer["values"], shapes, strict=True)]


def difference(case: Case, burnlike: Sequence[Tensor], burn: Sequence[Tensor], folder: Path) -> str:
    """The first place where the values are further apart than rounding explains; "" if there is none.

    That is 2e-5 of a value and 1e-4 of how far its tensor moved, since Burn has `1 - beta` and `1 - beta^t` in float32,
    of 4 to 5 digits; and as far as burnlike's own run goes where all it is given is changed in the sixth digit.
    """
    places = _differing(case, burnlike, burn, [0.0] * len(burn))
    if places:
        changed, _ = _changed(case).run(folder)
        reach = [(ours - other).abs().nan_to_num(0.0) for ours, other in zip(burnlike, changed, strict=True)]
        # An element may stand still where others move.
        spread = [it.flatten(1).amax(1).reshape(-1, *[1] * (it.dim() - 1)) * 10 for it in reach]
        places = _differing(case, burnlike, burn, spread)
    return places


def _changed(case: Case) -> Case:
    generator = torch.Generator().manual_seed(0)

    def changed(tensor: Tensor) -> Tensor:
        return tensor * (1 + 1e-6 * torch.randn(tensor.shape, generator=generator))

    return replace(case, values=[*map(changed, case.values)], grads=[*map(changed, case.grads)])


def _differing(case: Case, burnlike: Sequence[Tensor], burn: Sequence[Tensor], spread: Sequence[Any]) -> str:
    rules = [case.config, *(group.optimizer for group in case.config.groups)]
    is_centered = any(getattr(rule, "centered", False) for rule in rules)
    for number, (ours, theirs) in enumerate(zip(burnlike, burn, strict=True)):
        steps = torch.cat([case.values[number][None], ours]).diff(dim=0)
        moved = steps.abs().nan_to_num(0.0, 0.0).cumsum(0).flatten(1).amax(1).reshape(-1, *[1] * (ours.dim() - 1))
        allowed = 2e-5 * theirs.abs() + 1e-4 * moved + spread[number]
        wrong = ~(((ours - theirs).abs() <= allowed) | (ours == theirs) | (ours.isnan() & theirs.isnan()))
        if is_centered:  # where the variance is rounding, Burn may have the root of a negative number
            wrong &= ~theirs.isnan()
        if wrong.any():
            step, *place = wrong.nonzero()[0].tolist()
            at = (step, *place)
            pair = f"{ours[at].item()} of burnlike, {theirs[at].item()} of Burn"
            limit = f"{allowed.expand_as(ours)[at]:.1e}"
            return f"{case.name}: parameter {number}, step {step}, value {place}: {pair}, allowed {limit}"
    return ""


def burn_rule(config: Any) -> dict[str, Any]:
    """The type and config of a rule in Burn's form, all fields."""
    name = type(config).__name__.removesuffix("Config")
    left_out = {*bo.ModuleOptimizerConfig.__struct_fields__, "moment_1", "moment_2", "moment", "velocity", "ns_dtype"}
    fields = {key: getattr(config, key) for key in config.__struct_fields__ if key not in left_out}
    if name in _DECAY_IS_OPTION:
        decay = fields["weight_decay"]
        fields["weight_decay"] = {"penalty": decay} if decay else None
    if fields.get("momentum") is not None and name in ("Sgd", "Muon"):
        momentum = fields["momentum"]
        fields["momentum"] = {key: getattr(momentum, key) for key in momentum.__struct_fields__}
    fields["gradient_clipping" if name == "Sgd" else "grad_clipping"] = burn_clipping(config.grad_clipping)
    if name == "Muon":  # it has no clipping in its config
        del fields["grad_clipping"]
    return {"type": name, "config": fields}


def burn_clipping(clipping: Any) -> Any:
    return None if clipping is None else {type(clipping).__name__.removeprefix("ClipBy"): clipping.threshold}


def burn_group(base: Any, group: Any) -> dict[str, Any]:
    """A group with its rule; one without clipping has none in Burn, and here that of the base."""
    rule = burn_rule(group.optimizer)
    return rule | {
        "params": burn_params(group.params),
        "clipping": burn_clipping(group.optimizer.grad_clipping or base.grad_clipping),
    }


def burn_params(group: ParamGroup) -> dict[str, Any]:
    """A ParamGroup in Burn's form."""

    def combined(rules: Sequence[Any]) -> Any:
        matchers = [burn_matcher(rule) for rule in rules]
        return matchers[0] if len(matchers) == 1 else {"Combined": matchers}

    return {"matcher": combined(group.match), "excludes": combined(group.excludes) if group.excludes else None}


def burn_matcher(rule: Any) -> Any:
    match type(rule).__name__:
        case "MatchAll":
            return "All"
        case "MatchIds":
            return {"Explicit": [{"value": ParamId.parse(it).value} for it in rule.ids]}
        case "MatchPaths":
            return {"Path": {"Exact": [*rule.paths]}}
        case "MatchPredicates":
            return {"Path": {"Include": [*rule.predicates]}}
        case "MatchRegexes":
            return {"Path": {"Regex": [*rule.regexes]}}
        case "MatchAnyPredicates":
            return {"Combined": [{"Path": {"Include": [it]}} for it in rule.predicates]}
        case "MatchAnyRegexes":
            return {"Combined": [{"Path": {"Regex": [it]}} for it in rule.regexes]}
        case name:
            raise AssertionError(name)


def drawn_config(random: Random, name: str, *, default: bool = False) -> Any:
    """A config of a rule, its defaults or drawn."""
    kind = getattr(bo, f"{name}Config")
    if default:
        return kind()
    decay = random.choice((0.0, 0.0, 1e-4, 0.01, 0.3))
    beta_1, beta_2 = random.choice((0.0, 0.5, 0.875, 0.9)), random.choice((0.75, 0.9, 0.99, 0.999))
    epsilon = random.choice((1e-8, 1e-5, 1e-3))
    momentum = bo.MomentumConfig(
        momentum=random.choice((0.0, 0.5, 0.9, 0.95)),
        dampening=random.choice((0.0, 0.1, 0.5)),
        nesterov=random.random() < 0.5,
    )
    options: dict[str, Any] = {
        "Sgd": {"momentum": random.choice((None, momentum, momentum))},
        "Adam": {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "amsgrad": random.random() < 0.4},
        "AdamW": {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "amsgrad": random.random() < 0.4},
        "AdaGrad": {"lr_decay": random.choice((0.0, 0.01, 0.5)), "epsilon": epsilon},
        "RmsProp": {"alpha": beta_2, "momentum": random.choice((0.0, 0.5, 0.9)), "epsilon": epsilon},
        "Adan": {"beta_1": 0.98 if beta_1 else 0.0, "beta_2": 0.92, "beta_3": beta_2, "epsilon": epsilon},
        "Lion": {"beta_1": beta_1, "beta_2": beta_2},
        "Lamb": {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "use_trust_ratio": random.random() < 0.6},
        "Adafactor": {"decay_rate": random.choice((-0.8, -0.5, -1.5)), "clip_threshold": random.choice((1.0, 0.3))},
        "Muon": {"momentum": momentum, "ns_steps": random.choice((1, 3, 5)), "epsilon": random.choice((1e-7, 1e-3))},
    }[name]
    if name == "AdamW":
        options["cautious_weight_decay"] = random.random() < 0.5
    if name == "RmsProp":
        options["centered"] = random.random() < 0.4
    if name == "Adan":
        options["no_prox"] = random.random() < 0.5
    if name == "Adafactor":
        options |= {"relative_step": random.random() < 0.5, "scale_parameter": random.random() < 0.5}
    if name == "Muon":
        options["adjust_lr_fn"] = random.choice(("Original", "MatchRmsAdamW"))
    elif random.random() < 0.5:
        options["grad_clipping"] = random.choice((bo.ClipByValue(threshold=0.5), bo.ClipByNorm(threshold=1.5)))
    return kind(weight_decay=decay, **options)


def _drawn_group(random: Random, case: Case) -> ParamGroup:
    """Some parameters of the case, told in one of the ways of ParamGroup."""
    paths = [param.path for param in params(Net(case.values))]
    path = random.choice(paths)
    folder = path.split(".")[0]
    return random.choice(
        (
            ParamGroup.from_path(path),
            ParamGroup.from_paths(random.sample(paths, 2)),
            ParamGroup.from_predicate(folder),
            ParamGroup.from_predicates((folder, ".0")),
            ParamGroup.from_any_predicates((folder, "kernels")),
            ParamGroup.from_regex(rf"^{folder}\.\d$"),
            ParamGroup.from_any_regexes((rf"^{folder}", "0$")),
            ParamGroup.all().exclude(ParamGroup.from_path(path)),
            ParamGroup.from_predicate(folder).fuse(ParamGroup.from_path(paths[-1])),
        )
    )


def _drawn_gradients(
    random: Random, generator: torch.Generator, shape: tuple[int, ...], broken: bool
) -> tuple[Tensor, list[bool]]:
    noise = torch.randn(STEPS, *shape, generator=generator)
    if broken and random.random() < 0.6:
        place = tuple(random.randrange(size) for size in noise.shape)
        noise[place] = random.choice((math.nan, math.inf, -math.inf))
    kind = random.choice(("usual", "usual", "zero", "tiny", "huge", "steady", "sparse", "missing", "late"))
    has_grad = [True] * STEPS
    if kind == "missing":
        has_grad = [random.random() < 0.7 for _ in range(STEPS)]
    elif kind == "late":
        has_grad = [step >= 15 for step in range(STEPS)]
    elif kind == "sparse":
        noise *= torch.rand(STEPS, *shape, generator=generator) < 0.3
    elif kind == "steady":
        noise = noise[:1].expand_as(noise).contiguous()
    return noise * {"zero": 0.0, "tiny": 1e-6, "huge": 1e6}.get(kind, 1.0), has_grad


def drawn_case(random: Random, name: str, number: int, *, broken: bool = False) -> Case:
    """A case of a rule: the first with its defaults, others with drawn options, some with groups; with `broken`, some
    gradients have a value that is not finite.
    """
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    shapes = _MATRICES if name == "Muon" else _SHAPES
    values = [torch.randn(shape, generator=generator) * (0 if random.random() < 0.1 else 1) for shape in shapes]
    drawn = [_drawn_gradients(random, generator, shape, broken) for shape in shapes]
    lr = random.choice((1e-3, 0.01, 0.1))
    rates = [lr] * STEPS if random.random() < 0.5 else [lr * (1 + math.cos(step / 7)) for step in range(STEPS)]
    config = drawn_config(random, name, default=number == 0)
    case = Case(f"{name} {number}", config, values, [grads for grads, _ in drawn], [has for _, has in drawn], rates)
    if number % 3 == 2:
        groups = []
        for _ in range(random.choice((1, 1, 2))):
            others = [it for it in RULES[:-1] if it != "Lion" or not broken]
            rule = drawn_config(random, "Muon" if name == "Muon" else random.choice(others))
            groups.append(bo.OptimizerGroupConfig(params=_drawn_group(random, case), optimizer=rule))
        case.config = config.replace(groups=tuple(groups))
    if number % 4 == 3:
        case.rate_groups = [(_drawn_group(random, case), [lr * 0.3 * (step % 3) for step in range(STEPS)])]
    case.name += f" {case.config}"
    return case
