"""Rows of "Optimizers"."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike.optim as bo
from burnlike.errors import ConfigError
from burnlike.module import ParamGroup, params

from .optimizer_cases import RECORD_AT, STEPS, Case, burn_rule, values_of
from .rows import ELSEWHERE, row
from .running import ask, packed, unpacked
from .test_schedules import burn_schedules


def _case(config: Any, value: Tensor, grad: Tensor, lr: float = 0.1) -> Case:
    """A parameter with the same gradient in each step."""
    return Case(
        "a row", config, [value], [grad.expand(STEPS, *grad.shape).contiguous()], [[True] * STEPS], [lr] * STEPS
    )


def _asked(case: Case, dtype: str | None = None, **fields: Any) -> dict[str, Any]:
    asked = case.asked() | fields
    for name in ("vectors", "matrices", "kernels"):
        asked[name] = [entry | {"dtype": dtype} for entry in asked[name]]
    return asked


def _both(case: Case, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """The values after each step, of burnlike and of Burn."""
    names = {torch.float16: "f16", torch.bfloat16: "bf16", None: None}
    (answer,) = ask("optimizers", [_asked(case, names[dtype])])
    net, optimizer = nn.ParameterList([case.values[0].to(dtype)]), case.config.init()
    course = []
    for step in range(STEPS):
        net[0].grad = case.grads[0][step].to(net[0].dtype)
        optimizer.step(case.rates[step], net, bo.GradientsParams.from_module(net))
        course.append(net[0].detach().clone().float())
    return torch.stack(course), values_of(case, answer)[0]


@row("Parameters of half precision")
def _() -> None:
    case = _case(bo.AdamConfig(), torch.ones(3), torch.tensor([1e-4, 2e-4, 1e-3]), 0.01)
    ours, theirs = _both(case, torch.float16)
    # The square of 1e-4 is 0 in float16, that of the largest gradient two bits.
    assert (theirs[0] - 1).abs().max() > 1.5 * (ours[0] - 1).abs().max()
    exact, _ = _both(case)
    torch.testing.assert_close(ours[0], exact[0].half().float(), rtol=0, atol=0)


@row("Scalars of optimizers")
def _() -> None:
    case = _case(bo.AdamConfig(epsilon=1e-8), torch.zeros(1), torch.tensor([0.3]), 1.0)
    ours, theirs = _both(case)
    # With a steady gradient, each step is the rate.
    apart = torch.arange(1, 6)
    assert (ours[:5, 0] + apart).abs().max() < 1e-6
    assert 2e-6 < (theirs[:5, 0] + apart).abs().max() < 5e-5


@row("Loaded optimizer state of half-precision parameters")
def _() -> None:
    case = _case(bo.SgdConfig(momentum=bo.MomentumConfig()), torch.ones(3), torch.ones(3))
    (answer,) = ask("optimizers", [_asked(case, "f16")])
    fields = {"record": answer["record"], "record_at": None}
    (after,) = ask("optimizers", [_asked(case, "f16", **fields)])
    assert "refused" in after
    net = nn.ParameterList([torch.ones(3, dtype=torch.float16)])
    optimizer = case.config.init()
    for _ in range(2):
        net[0].grad = torch.ones(3, dtype=torch.float16)
        optimizer.step(0.1, net, bo.GradientsParams.from_module(net))
        optimizer = case.config.init().load_record(optimizer.into_record())
    (state,) = (optimizer.state_of(param) for param in params(net))
    assert state.momentum.velocity.dtype == torch.float32


@row("Weight decay of Sgd, Adam, AdaGrad, RmsProp, Muon")
def _() -> None:
    for name in ("Sgd", "Adam", "AdaGrad", "RmsProp", "Muon"):
        config = burn_rule(getattr(bo, f"{name}Config")(weight_decay=0.5))
        number = config | {"config": config["config"] | {"weight_decay": 0.5}}
        taken, refused = ask("optimizers", [it | {"task": "config"} for it in (config, number)])
        assert '"penalty": 0.5' in taken["text"], name
        assert "refused" in refused, name


@row("RmsProp, centered, where rounding makes the variance negative")
def _() -> None:
    grads = torch.linspace(0.1, 3, 400)
    ours, theirs = _both(_case(bo.RmsPropConfig(centered=True, alpha=0.5), torch.zeros(400), grads, 1e-3))
    assert theirs.isnan().any()
    assert not ours.isnan().any()


@row("Norms in Lamb, Adafactor, Muon and of clipping")
def _() -> None:
    # The square of the norm is no float32.
    ours, theirs = _both(_case(bo.LambConfig(), torch.full((3,), 1e25), torch.ones(3), 1e-3))
    assert ours.isfinite().all()
    assert not theirs.isfinite().all()
    clipped = bo.SgdConfig(grad_clipping=bo.ClipByNorm(threshold=1.0))
    ours, theirs = _both(_case(clipped, torch.zeros(4), torch.full((4,), 1e25), 1.0))
    assert ours[0].tolist() == [-0.5] * 4
    assert theirs[0].tolist() == [0.0] * 4


class _Problem(nn.Module):
    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.x = nn.Parameter(values.clone())
        self.unused = nn.Parameter(torch.ones(2, 2))

    def forward(self) -> Tensor:
        return (self.x - self.x.log()).sum()


def _lbfgs(config: Any, values: Tensor, steps: int) -> Tensor:
    model, optimizer = _Problem(values), config.init()

    def closure(module: nn.Module) -> tuple[Tensor, Any]:
        loss = module()
        loss.backward()
        return loss, bo.GradientsParams.from_module(module)

    for _ in range(steps):
        optimizer.step(1.0, model, closure)
    assert torch.equal(model.unused, torch.ones(2, 2))
    return model.x.detach()


def _lbfgs_asked(config: Any, values: Tensor, steps: int, others: list[Tensor]) -> dict[str, Any]:
    fields = {name: getattr(config, name) for name in config.__struct_fields__}
    return {
        "task": "lbfgs",
        "problem": "barrier",
        "config": fields | {"line_search_fn": config.line_search_fn or "None"},
        "rate": 1.0,
        "vectors": [{"id": 1, "value": packed(values)}],
        "matrices": [{"id": 2 + number, "value": packed(it)} for number, it in enumerate(others)],
        "kernels": [],
        "steps": steps,
        "record": None,
        "record_at": 0,
    }


@row("L-BFGS: parameters without gradient, running statistics")
def _() -> None:
    config, start = bo.LbfgsConfig(line_search_fn="StrongWolfe"), torch.tensor([0.5, 0.8])
    (answer,) = ask("optimizers", [_lbfgs_asked(config, start, 2, [torch.ones(2, 2)])])
    assert "refused" in answer
    assert (_lbfgs(config, start, 2) - 1).abs().max() < 1e-3


@row("L-BFGS: a loss that is not finite in the line search")
def _() -> None:
    config = bo.LbfgsConfig(line_search_fn="StrongWolfe")
    starts = [torch.tensor([value, 2.0]) for value in (3.0, 10.0, 50.0, 200.0)]
    answers = ask("optimizers", [_lbfgs_asked(config, start, 3, []) for start in starts])
    ends = [_lbfgs(config, start, 3) for start in starts]
    assert max((end - 1).abs().max() for end in ends) < 1e-3
    # Below 0, where the loss is NaN.
    assert all((unpacked(answer["values"][-1]) < -1e6).all() for answer in answers)


@row("Gradients of several micro-batches")
def _() -> None:
    case = _case(bo.SgdConfig(), torch.zeros(3), torch.tensor([1.0, 2.0, 3.0]))
    (answer,) = ask("optimizers", [case.asked() | {"task": "accumulated", "rates": [0.1] * 3}])
    (total,) = (unpacked(it) for it in answer["values"])
    net = nn.ParameterList([torch.zeros(3)])
    (param,) = params(net)
    for items, expected in ((None, total), ((1, 2, 1), total / 3)):
        accumulator = bo.GradientsAccumulator()
        for number in range(3):
            net[0].grad = case.grads[0][number].clone()
            counted = {} if items is None else {"items": items[number]}
            accumulator.accumulate(net, bo.GradientsParams.from_module(net), **counted)
        grad = accumulator.grads().get(param)
        assert grad is not None
        torch.testing.assert_close(grad, expected)


@row("Groups of an optimizer that match nothing, or set after there are states")
def _() -> None:
    groups = (bo.OptimizerGroupConfig(params=ParamGroup.from_path("nowhere"), optimizer=bo.LionConfig()),)
    case = _case(bo.SgdConfig(groups=groups), torch.zeros(3), torch.ones(3))
    (answer,) = ask("optimizers", [case.asked()])
    assert torch.equal(values_of(case, answer)[0][0], torch.full((3,), -0.1))
    net = nn.ParameterList([torch.zeros(3)])
    net[0].grad = torch.ones(3)
    with pytest.raises(ConfigError, match="matches no parameter"):
        case.config.init().step(0.1, net, bo.GradientsParams.from_module(net))
    net[0].grad = torch.ones(3)
    optimizer = bo.SgdConfig(momentum=bo.MomentumConfig()).init()
    optimizer.step(0.1, net, bo.GradientsParams.from_module(net))
    with pytest.raises(ConfigError, match="parameter group"):
        optimizer.with_group(ParamGroup.all(), bo.LionConfig().build())


def _rates(config: dict[str, Any], steps: int) -> list[float]:
    (answer,) = ask("schedules", [{"config": config, "paths": [], "steps": steps, "record": None, "record_at": 0}])
    assert "refused" not in answer, answer
    bits = torch.tensor([int(it) - (2**64 if it >= 2**63 else 0) for (it,) in answer["rates"]], dtype=torch.int64)
    return bits.view(torch.float64).tolist()


@row("Cosine schedule past its end")
def _() -> None:
    config = bo.CosineAnnealingConfig(initial_lr=1.0, num_iters=4)
    theirs = _rates(burn_schedules(config), 9)
    for restart, last in ((False, [0.5, 1.0]), (True, [0.5, 0.146446609])):
        schedule = config.replace(restart=restart).init()
        ours = [schedule.step() for _ in range(9)]
        assert ours[:5] == pytest.approx(theirs[:5])
        assert ours[6::2] == pytest.approx(theirs[6::2]) if not restart else ours[7:] == pytest.approx(last)


@row("Rates, factors and gammas of schedules that are 0 or negative, a `ComposedLr` of none")
def _() -> None:
    of_step = {"Step": {"initial_lr": -0.5, "step_size": 1, "gamma": -1.0}}
    of_noam = {"Noam": {"factor": -1.0, "warmup_steps": 1, "model_size": 1}}
    for schedule, rates in (
        (of_step, [-0.5, 0.5]),
        (of_noam, [-1.0, -(0.5**0.5)]),
        ({"Constant": -0.1}, [-0.1, -0.1]),
        ({"Composed": {"schedulers": [], "reduction": "Sum"}}, [0.0, 0.0]),
    ):
        assert _rates({"base": schedule, "scheduler_groups": []}, 2) == pytest.approx(rates)
    for kind, fields in (
        (bo.StepLrConfig, {"initial_lr": -0.5, "step_size": 1}),
        (bo.NoamLrConfig, {"factor": -1.0}),
        (bo.ConstantLrConfig, {"lr": -0.1}),
        (bo.ComposedLrConfig, {"schedulers": []}),
    ):
        with pytest.raises(ConfigError):
            kind(**fields)


@row("Bounds of options of optimizers, such as an `epsilon` of 0 or a beta of 1")
def _() -> None:
    for name, fields in (
        ("Adam", {"epsilon": 0.0}),
        ("AdamW", {"beta_1": 1.0}),
        ("RmsProp", {"alpha": 1.5}),
        ("Lion", {"weight_decay": -1.0}),
        ("Adan", {"epsilon": -1.0}),
    ):
        kind = getattr(bo, f"{name}Config")
        given = burn_rule(kind())
        given["config"] |= fields
        case = _case(kind(), torch.ones(2), torch.ones(2)).asked() | {"optimizer": given | {"groups": []}}
        (answer,) = ask("optimizers", [case])
        assert "refused" not in answer, (name, answer)
        with pytest.raises(ConfigError):
            kind(**fields)


@row("Lion: a NaN in a gradient")
def _() -> None:
    grad = torch.tensor([1.0, math.nan])
    case = _case(bo.LionConfig(), torch.ones(2), grad, 0.125)
    ours, theirs = _both(case)
    assert theirs[RECORD_AT].tolist() == [1 - 0.125 * (RECORD_AT + 1), 1.0]
    assert ours[0].isnan().tolist() == [False, True]
    assert torch.sign(torch.tensor(math.nan)).item() == 0


ELSEWHERE.update(
    {
        "Cosine schedule": (
            "tests/optim/schedules/test_lr_schedulers.py::test_warm_up_rises_by_equal_parts_and_ends_at_the_minimum"
        ),
        "Muon's iterations": "tests/optim/rules/test_muon.py::test_steps_in_bfloat16_are_those_of_torch",
        "Schedule-free AdamW, 8-bit and bfloat16 moments, stochastic rounding, bfloat16 copies": (
            "tests/optim/rules/test_schedule_free_adamw.py::test_the_weights_to_evaluate_with_are_the_average_of_the_paper"
        ),
        "Gradient clipping": "tests/optim/gradients/test_gradients.py::test_by_global_norm_is_torchs",
        "A gradient on another device than its parameter": "tests/optim/step/test_sharded.py::test_step",
        "`step`": "tests/optim/step/test_adaptor.py::test_the_gradients_of_a_typed_backward_pass_train_a_module",
        "Global norms and groups": (
            "tests/optim/step/test_clipping_in_steps.py::"
            "test_a_global_norm_is_of_the_base_and_of_groups_without_clipping_of_their_own"
        ),
        "Warm-up": "tests/optim/schedules/test_lr_by_group.py::test_a_warm_up_rises_to_the_first_rate_and_hands_over",
        "Schedules by group in 0.21 records": (
            "tests/optim/schedules/test_lr_by_group.py::test_burn_0_21_has_no_schedules_by_group"
        ),
        "A gradient that some ranks lack": (
            "tests/optim/step/test_sharded.py::test_a_gradient_that_one_rank_lacks_is_named_by_all"
        ),
    }
)
