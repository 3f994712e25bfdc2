"""State dicts of torch's own optimizers in a TorchOptimizer, and its state in torch's: steps go on as before."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike import optim
from burnlike.errors import RecordMismatchError
from burnlike.optim.rules.configs import MomentumConfig

# Of each rule the config and the optimizer of torch, with options away from both defaults.
PAIRS: list[tuple[Any, Any]] = [
    (
        optim.AdamWConfig(beta_1=0.8, epsilon=1e-6, weight_decay=0.1),
        lambda it: torch.optim.AdamW(it, lr=0.01, betas=(0.8, 0.999), eps=1e-6, weight_decay=0.1),
    ),
    (
        optim.AdamWConfig(amsgrad=True, weight_decay=0.01, epsilon=1e-8),
        lambda it: torch.optim.AdamW(it, lr=0.01, amsgrad=True),
    ),
    (optim.AdamConfig(weight_decay=0.1, epsilon=1e-8), lambda it: torch.optim.Adam(it, lr=0.01, weight_decay=0.1)),
    (
        optim.SgdConfig(momentum=MomentumConfig(momentum=0.7, dampening=0.0, nesterov=True)),
        lambda it: torch.optim.SGD(it, lr=0.01, momentum=0.7, nesterov=True),
    ),
    (optim.SgdConfig(weight_decay=0.1), lambda it: torch.optim.SGD(it, lr=0.01, weight_decay=0.1)),
    (
        optim.RmsPropConfig(centered=True, momentum=0.5, epsilon=1e-8),
        lambda it: torch.optim.RMSprop(it, lr=0.01, centered=True, momentum=0.5),
    ),
    (optim.AdaGradConfig(lr_decay=0.1, epsilon=1e-10), lambda it: torch.optim.Adagrad(it, lr=0.01, lr_decay=0.1)),
]
NAMES = [f"{type(config).__name__}-{place}" for place, (config, _) in enumerate(PAIRS)]


def train(model: nn.Module, optimizer: Any, steps: int, start: int = 0) -> list[Tensor]:
    for step in range(start, start + steps):
        optimizer.zero_grad()
        x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        optimizer.step()
    return [it.detach().clone() for it in model.parameters()]


def model_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.mark.parametrize(("config", "make"), PAIRS, ids=NAMES)
def test_a_training_goes_on_in_the_other_optimizer(config: Any, make: Any) -> None:
    whole = model_of()
    expected = train(whole, make(whole.parameters()), 6)
    model = model_of()
    theirs = make(model.parameters())
    train(model, theirs, 3)
    other = copy.deepcopy(model)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["lr"] == 0.01
    torch.testing.assert_close(train(model, ours, 3, 3), expected, rtol=1e-9, atol=1e-12)

    ours = bl.interop.TorchOptimizer(other, config, lr=0.01)
    ours.load_state_dict(theirs.state_dict())
    back = make(other.parameters())
    back.load_state_dict(ours.state_dict(form="torch"))
    torch.testing.assert_close(train(other, back, 3, 3), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("config", "make", "message"),
    [
        (optim.AdamConfig(), lambda it: torch.optim.AdamW(it), "decoupled_weight_decay=True"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(it, amsgrad=True), "amsgrad=True"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(it, maximize=True), "maximize=True"),
        (optim.SgdConfig(), lambda it: torch.optim.SGD(it, lr=0.1, momentum=0.9), "momentum=0.9"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW(list(it)[:2]), r"groups of \[2\] parameters"),
        (optim.AdamWConfig(), lambda it: torch.optim.AdamW([*it][::-1]), r"expected shape \[4, 3\], got \[2\]"),
        (optim.LionConfig(), lambda it: torch.optim.AdamW(it), "rule is Lion"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(config: Any, make: Any, message: str) -> None:
    model = model_of()
    theirs = make(model.parameters())
    train(model, theirs, 1)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.5)
    with pytest.raises(RecordMismatchError, match=message):
        ours.load_state_dict(theirs.state_dict())
    assert not ours.state
    assert ours.param_groups[0]["lr"] == 0.5


def test_a_rule_that_torch_lacks_has_no_form_for_it() -> None:
    with pytest.raises(RecordMismatchError, match=r"torch\.optim has no counterpart of the Lion"):
        bl.interop.TorchOptimizer(model_of(), optim.LionConfig(), lr=0.1).state_dict(form="torch")


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
        self.real = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.abs().square() + self.weight.real * self.real + self.weight.imag).sum() + 0 * x.sum()


@pytest.mark.parametrize(("config", "make"), PAIRS, ids=NAMES)
def test_complex_parameters_are_stepped_as_torch_does(config: Any, make: Any, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Complex()
    twin = copy.deepcopy(model)
    expected = train(twin, make(twin.parameters()), 4)
    ours = bl.interop.TorchOptimizer(model, config, lr=0.01)
    train(model, ours, 2)
    ours.save(tmp_path / "state")
    again = bl.interop.TorchOptimizer(model, config, lr=0.01)
    again.load(tmp_path / "state")
    moments = [it for fields in again.state_dict()["state"].values() for it in fields.values() if torch.is_tensor(it)]
    assert all(it.shape in ((), (3, 2)) for it in moments)
    torch.testing.assert_close(train(model, again, 2, 2), expected, rtol=1e-5, atol=1e-6)


def test_rules_of_whole_tensors_refuse_complex_ones() -> None:
    model = Complex()
    ours = bl.interop.TorchOptimizer(model, optim.MuonConfig(), lr=0.01)
    with pytest.raises(bl.errors.DTypeError, match="can't step 'weight', which is complex"):
        train(model, ours, 1)


def test_names_decide_where_the_dict_has_them() -> None:
    model = model_of()
    theirs = torch.optim.AdamW([*model.named_parameters()][::-1], lr=0.01)
    train(model, theirs, 1)
    ours = bl.interop.TorchOptimizer(model, optim.AdamWConfig(), lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    for parameter in model.parameters():
        assert torch.equal(ours.state[parameter]["momentum.moment_1"], theirs.state[parameter]["exp_avg"])
    other = torch.optim.AdamW([(f"a.{name}", it) for name, it in model.named_parameters()])
    with pytest.raises(RecordMismatchError, match=r"has a state of 'a\.0\.weight'"):
        ours.load_state_dict(other.state_dict())
