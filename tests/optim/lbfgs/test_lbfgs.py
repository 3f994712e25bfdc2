"""L-BFGS against Burn's steps and torch.optim.LBFGS in float64; frozen parameters; failing closures."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.module import params
from burnlike.optim import GradientsParams, LbfgsConfig

from .problems import Point, closure_of, convex, rosenbrock, values_of

Search = Literal["StrongWolfe"] | None
SEARCHES: list[Search] = [None, "StrongWolfe"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_step_is_burns(vectors: Callable[[str], dict[str, Any]], place: int) -> None:
    case = vectors("optim")["lbfgs"]["step_tests"][place]
    search = case["config"].pop("line_search_fn")
    optimizer = LbfgsConfig(**case["config"], line_search_fn=None if search == "None" else search).init()
    model = bl.nn.LinearConfig(d_input=1, d_output=1).init()
    for param in params(model):
        param.assign(torch.full(param.tensor.shape, case["initial"][param.path]))
    x, y = (torch.tensor(case[name])[:, None] for name in ("x", "y"))

    def closure(model: bl.nn.Linear) -> tuple[Tensor, GradientsParams]:
        loss = (model(x) - y).square().sum()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    returned, loss = optimizer.step(case["learning_rate"], model, closure)
    assert returned is model
    exact = {"abs": case["tolerance"]["value"]}
    assert loss == pytest.approx(case["expected"]["loss_returned"], **exact)
    assert model.weight.item() == pytest.approx(case["expected"]["weight"], **exact)
    assert model.bias is not None
    assert model.bias.item() == pytest.approx(case["expected"]["bias"], **exact)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("function", "start", "lr", "steps"),
    # In the curved valley of four values roundings grow tenfold with each step, so that it takes three.
    [(rosenbrock, [-1.2, 1.0], 1.0, 12), (rosenbrock, [-1.2, 1.0, 0.5, 2.0], 0.3, 3), (convex, [3.0] * 12, 0.7, 8)],
    ids=["rosenbrock", "rosenbrock of 4", "convex"],
)
@pytest.mark.parametrize("history_size", [100, 3])
def test_steps_are_those_of_torch(
    search: Search, function: Callable[[Tensor], Tensor], start: list[float], lr: float, steps: int, history_size: int
) -> None:
    if search is None and function is rosenbrock:
        lr, steps = 0.02, 3  # without a search larger ones diverge, here as in torch
    ours, theirs = Point(function, start), Point(function, start)
    optimizer = LbfgsConfig(line_search_fn=search, history_size=history_size, max_iter=10).init()
    their_optimizer = torch.optim.LBFGS(
        theirs.parameters(),
        lr=lr,
        max_iter=10,
        history_size=history_size,
        line_search_fn=None if search is None else "strong_wolfe",
    )

    def their_closure() -> Tensor:
        their_optimizer.zero_grad()
        loss = theirs()
        loss.backward()
        return loss

    for _ in range(steps):
        before = ours().item()
        _, loss = optimizer.step(lr, ours, closure_of)
        returned = their_optimizer.step(their_closure)  # the loss from before the step
        assert returned.item() == pytest.approx(before, rel=1e-12, abs=1e-12)
        assert loss == pytest.approx(theirs().item(), rel=1e-12, abs=1e-12)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    if search is not None and len(start) == 2:
        assert [p.item() for p in ours.parameters()] == pytest.approx([1.0, 1.0], abs=1e-4)


def test_the_history_is_bounded() -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    optimizer = LbfgsConfig(history_size=3, line_search_fn="StrongWolfe").init()
    optimizer.step(1.0, model, closure_of)
    assert optimizer.state.g_iter > 4
    assert len(optimizer.state.history_s) == len(optimizer.state.history_y) == 3


def test_at_the_minimum_nothing_changes() -> None:
    model = Point(rosenbrock, [1.0, 1.0])
    optimizer = LbfgsConfig().init()
    calls = []

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        calls.append(0)
        return closure_of(model)

    before = values_of(model)
    _, loss = optimizer.step(1.0, model, closure)
    assert (loss, len(calls), optimizer.state.g_iter) == (0.0, 1, 0)
    assert all(map(torch.equal, values_of(model), before))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("max_eval", "most"), [(None, 25), (4, 4), (1, 2)])
def test_the_closure_is_called_so_often_at_most(search: Search, max_eval: int | None, most: int) -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    calls = []

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        calls.append(0)
        return closure_of(model)

    config = LbfgsConfig(max_eval=max_eval, line_search_fn=search, tolerance_change=0.0)
    config.init().step(0.01, model, closure)
    # A search that begins with one evaluation left makes two, as Burn's and torch's.
    assert 1 < len(calls) <= most + (search is not None)


@pytest.mark.parametrize("search", SEARCHES)
def test_frozen_parameters_stay_and_the_others_move_as_without_them(search: Search) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
    both = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    alone = nn.Linear(4, 2).double()
    alone.load_state_dict(both[2].state_dict())
    both[0].requires_grad_(False)
    frozen = values_of(both[0])
    with torch.no_grad():
        hidden = both[:2](x)

    def closure(model: nn.Module, inputs: Tensor) -> tuple[Tensor, GradientsParams]:
        loss = (model(inputs) - y).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    optimizers = [LbfgsConfig(line_search_fn=search).init() for _ in range(2)]
    for _ in range(3):
        optimizers[0].step(0.5, both, lambda model: closure(model, x))
        optimizers[1].step(0.5, alone, lambda model: closure(model, hidden))
    assert all(map(torch.equal, values_of(both[0]), frozen))
    assert [param.requires_grad for param in both.parameters()] == [False, False, True, True]
    for one, other in zip(both[2].parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_frozen_later_stays_although_the_history_moves_it() -> None:
    model = Point(rosenbrock, [-1.2, 1.0, 0.5, 2.0])
    optimizer = LbfgsConfig(line_search_fn="StrongWolfe", max_iter=5).init()
    _, first = optimizer.step(1.0, model, closure_of)
    model.first.requires_grad_(False)
    before = model.first.detach().clone()
    _, second = optimizer.step(1.0, model, closure_of)
    assert torch.equal(model.first, before)
    assert second < first


def test_half_parameters_keep_their_dtype() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1).bfloat16()
    x = torch.randn(16, 4).bfloat16()

    def closure(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x).float() - 1).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    first, _ = closure(model)
    optimizer = LbfgsConfig(line_search_fn="StrongWolfe").init()
    _, loss = optimizer.step(1.0, model, closure)
    assert loss < first.item() / 10
    assert {param.dtype for param in model.parameters()} == {torch.bfloat16}
    assert {it.dtype for it in optimizer.state.vectors} == {torch.float32}


def test_a_typed_loss_and_its_gradients_are_taken() -> None:
    backend = bl.Autodiff(bl.Cpu())
    model, plain = nn.Linear(2, 1), nn.Linear(2, 1)
    plain.load_state_dict(model.state_dict())
    x = torch.rand(6, 2)

    def typed(model: nn.Module) -> tuple[Any, GradientsParams]:
        loss = (model(bl.Tensor(x, backend)) - 1).powi_scalar(2).mean()
        return loss, GradientsParams.from_grads(loss.backward(), model)

    def untyped(model: nn.Module) -> tuple[Tensor, GradientsParams]:
        loss = (model(x) - 1).square().mean()
        loss.backward()
        return loss, GradientsParams.from_module(model)

    _, ours = LbfgsConfig().init().step(0.1, model, typed)
    _, theirs = LbfgsConfig().init().step(0.1, plain, untyped)
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_closure_in_torchs_protocol_gives_the_first_loss() -> None:
    ours, theirs = Point(rosenbrock, [-1.2, 1.0]), Point(rosenbrock, [-1.2, 1.0])
    theirs.first.grad = torch.ones_like(theirs.first)  # of an earlier pass: not counted

    def closure() -> Tensor:
        loss = theirs()
        loss.backward()
        return loss

    before = ours().item()
    LbfgsConfig().init().step(0.01, ours, closure_of)
    found = LbfgsConfig().init().step_closure(0.01, theirs, closure)
    assert found.item() == before
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_rate_of_zero_changes_nothing() -> None:
    model = Point(rosenbrock, [-1.2, 1.0])
    before = values_of(model)
    for search in SEARCHES:
        _, loss = LbfgsConfig(line_search_fn=search).init().step(0.0, model, closure_of)
        assert loss == model().item()
    assert all(map(torch.equal, values_of(model), before))


def test_the_config_is_read_from_yaml() -> None:
    config = LbfgsConfig.from_yaml("type: Lbfgs\nmax_iter: 7\nline_search_fn: StrongWolfe\n")
    assert config == LbfgsConfig(max_iter=7, line_search_fn="StrongWolfe")
    assert LbfgsConfig.from_yaml(config.to_yaml()) == config
