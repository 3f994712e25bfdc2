"""Schedule-free AdamW: the weights to evaluate with, and that training goes on from either ones in the same bits."""

import copy
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from burnlike.data import DataLoader, InMemDataset
from burnlike.errors import ArgumentError
from burnlike.module import ParamGroup, params
from burnlike.optim import (
    AdamWConfig,
    ConstantLrConfig,
    GradientsParams,
    OptimizerAdaptor,
    OptimizerGroupConfig,
    ScheduleFreeAdamWConfig,
)
from burnlike.record import BurnpackRecorder, Record, load, save
from burnlike.train import Checkpointer, Learner, PlainRenderer, StepOutput, TrainingConfig
from tests.optim.rules.formulas import PlainScheduleFreeAdamW
from tests.optim.steps import assert_same, train

CONFIG = ScheduleFreeAdamWConfig(weight_decay=0.1, warmup_steps=2)


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).to(dtype)


def trained(
    config: Any = CONFIG, steps: int = 5, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, OptimizerAdaptor]:
    torch.manual_seed(1)
    model, optimizer = network(dtype), config.init()
    for _ in range(steps):
        train(model, optimizer)
    return model, optimizer


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def test_the_weights_to_evaluate_with_are_the_average_of_the_paper() -> None:
    torch.manual_seed(1)
    model, plain = network(torch.float64), network(torch.float64)
    plain.load_state_dict(model.state_dict())
    optimizer = CONFIG.init()
    reference = PlainScheduleFreeAdamW(plain.parameters(), lr=1e-2, weight_decay=0.1, warmup_steps=2)
    for step in range(50):
        train(model, optimizer)
        train_other(plain, reference)
        if step % 10 == 0:
            with optimizer.eval_weights(model):
                for one, state in zip(model.parameters(), reference.states, strict=True):
                    torch.testing.assert_close(one.detach(), state["x"], rtol=1e-11, atol=1e-12)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def train_other(model: nn.Module, reference: PlainScheduleFreeAdamW) -> None:
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    reference.step()


def test_the_average_is_of_all_points_that_the_steps_went_to() -> None:
    """With a constant rate and no decay each z has the same weight."""
    torch.manual_seed(1)
    model, optimizer = network(torch.float64), ScheduleFreeAdamWConfig().init()
    points = []
    for _ in range(7):
        train(model, optimizer)
        record = optimizer.to_record().tensors
        points.append({param.path: record[f"{param.id}.z"].clone() for param in params(model)})
    with optimizer.eval_weights(model):
        for param in params(model):
            mean = torch.stack([point[param.path] for point in points]).mean(0)
            torch.testing.assert_close(param.tensor.detach(), mean, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_goes_on_in_the_same_bits_after_an_evaluation(dtype: torch.dtype) -> None:
    (one, optimizer), (other, undisturbed) = trained(dtype=dtype), trained(dtype=dtype)
    before = values(one)
    with optimizer.eval_weights(one):
        assert any(not torch.equal(before[name], value) for name, value in values(one).items())
        assert all(value.dtype == dtype for value in values(one).values())
    assert_same(values(one), before)
    train(one, optimizer)
    train(other, undisturbed)
    assert_same(values(one), values(other))


def test_the_average_of_bfloat16_weights_is_rounded_once() -> None:
    model, optimizer = trained(dtype=torch.bfloat16)
    weights, record = values(model), optimizer.to_record().tensors
    with optimizer.eval_weights(model):
        for param in params(model):
            y, z = weights[param.path].double(), record[f"{param.id}.z"].double()
            expected = (y - 0.1 * z) / 0.9
            torch.testing.assert_close(param.tensor.detach().double(), expected, rtol=2**-8, atol=1e-6)


def test_an_error_within_puts_the_weights_to_train_with_back() -> None:
    model, optimizer = trained()
    before = values(model)
    with pytest.raises(ZeroDivisionError), optimizer.eval_weights(model):
        _ = 1 / 0
    assert_same(values(model), before)


def test_it_may_be_nested_and_repeated() -> None:
    model, optimizer = trained()
    before = values(model)
    assert optimizer.use_eval_weights(model)
    averages = values(model)
    assert not optimizer.use_eval_weights(model)
    with optimizer.eval_weights(model):
        assert_same(values(model), averages)
    assert_same(values(model), averages)
    assert optimizer.use_training_weights(model)
    assert not optimizer.use_training_weights(model)
    assert_same(values(model), before)


def test_before_the_first_step_nothing_changes() -> None:
    model, optimizer = network(), CONFIG.init()
    before = values(model)
    assert not optimizer.use_eval_weights(model)
    assert_same(values(model), before)
    train(model, optimizer)


def test_a_step_from_the_weights_to_evaluate_with_is_refused_and_changes_nothing() -> None:
    group = OptimizerGroupConfig(params=ParamGroup.from_predicate("1."), optimizer=CONFIG)
    model, optimizer = trained(AdamWConfig(groups=(group,)))
    optimizer.use_eval_weights(model)
    before, states = values(model), {name: it.clone() for name, it in optimizer.to_record().tensors.items()}
    with pytest.raises(ArgumentError, match="use_training_weights"):
        train(model, optimizer)
    assert_same(values(model), before)
    assert_same(dict(optimizer.to_record().tensors), states)
    optimizer.use_training_weights(model)
    train(model, optimizer)


def test_other_rules_have_one_set_of_weights() -> None:
    group = OptimizerGroupConfig(params=ParamGroup.from_predicate("1."), optimizer=CONFIG)
    model, optimizer = trained(AdamWConfig(groups=(group,)))
    before = values(model)
    with optimizer.eval_weights(model):
        after = values(model)
        assert [name for name in before if not torch.equal(before[name], after[name])] == ["1.weight", "1.bias"]


def test_copies_of_weights_are_kept_up_to_date() -> None:
    torch.manual_seed(1)
    model, copies = network(), network(torch.bfloat16)
    optimizer = CONFIG.init().with_copies(model, copies)
    for _ in range(3):
        train(model, optimizer)
    with optimizer.eval_weights(model):
        assert_same(values(copies), {name: it.bfloat16() for name, it in values(model).items()})
    assert_same(values(copies), {name: it.bfloat16() for name, it in values(model).items()})


@pytest.mark.parametrize("evaluating", [False, True])
@pytest.mark.parametrize("name", ["model.bpk", "model.safetensors"])
def test_what_is_saved_with_either_weights_goes_on_in_the_same_bits(
    evaluating: bool, name: str, tmp_path: Path
) -> None:
    model, optimizer = trained()
    if evaluating:
        optimizer.use_eval_weights(model)
    save(model, tmp_path / name)
    recorder = BurnpackRecorder()
    recorder.save(optimizer.to_record(), tmp_path / "optimizer.bpk")
    averages = values(model)
    optimizer.use_training_weights(model)
    train(model, optimizer)

    again, resumed = copy.deepcopy(model), CONFIG.init()
    load(again, tmp_path / name)
    assert_same(values(again), averages)
    resumed.load_record(recorder.load(tmp_path / "optimizer.bpk"), again)
    if evaluating:
        with pytest.raises(ArgumentError, match="weights to evaluate with"):
            train(again, resumed)
    assert resumed.use_training_weights(again) == evaluating
    train(again, resumed)
    assert_same(values(again), values(model))


class Points:
    def batch(self, items: list[float], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor(items, device=device).unsqueeze(1)
        return x, 3 * x - 1


def points_loader() -> DataLoader:
    return DataLoader(InMemDataset([i / 8 for i in range(8)]), Points(), batch_size=4, seed=1)


def squared_error(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> StepOutput:
    return StepOutput(nn.functional.mse_loss(model(batch[0]), batch[1]), len(batch[0]))


def learner() -> Learner:
    torch.manual_seed(5)
    rate = ConstantLrConfig(lr=0.1).init(num_iters=100)
    return Learner(nn.Linear(1, 1), ScheduleFreeAdamWConfig().init(), rate, loss=squared_error)


def test_a_training_loop_validates_and_saves_the_average_and_resumes_in_the_same_bits(tmp_path: Path) -> None:
    checkpointer, renderer = Checkpointer(tmp_path, keep=9), PlainRenderer(io.StringIO())
    options = TrainingConfig(epochs=3, batch_size=4, log_every_steps=2)
    whole = learner()
    whole.fit(points_loader(), points_loader(), options, checkpointer=checkpointer, renderer=renderer)
    with whole.optimizer.eval_weights(whole.model):
        averages = values(whole.model)
        losses = [squared_error(whole.model, batch).loss.detach() for batch in points_loader()]
    assert whole.validate(points_loader()) == pytest.approx(torch.stack(losses).mean().item(), rel=1e-6)
    last = checkpointer.latest()
    assert last is not None
    assert_same(dict(last.load("model").tensors), averages)

    resumed, loader = learner(), points_loader()
    resumed.load_checkpoint(checkpointer.all()[0], loader)
    resumed.fit(loader, points_loader(), options, renderer=renderer)
    assert resumed.step == whole.step == 6
    assert_same(values(resumed.model), values(whole.model))


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def divided(tensor: torch.Tensor, like: Any) -> torch.Tensor:
    return distribute_tensor(tensor, like.device_mesh, like.placements)


@pytest.mark.usefixtures("one_rank")
def test_a_sharded_module_has_its_average_too() -> None:
    plain, expected = trained()
    torch.manual_seed(1)
    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))  # torch's default is an accelerator, if it knows of one
    optimizer = CONFIG.init()
    for step in range(5):
        if step == 3:  # a state that was loaded lies whole before the next step divides it
            optimizer = CONFIG.init().load_record(optimizer.to_record(), model)
            optimizer.use_eval_weights(model)
            optimizer.use_training_weights(model)
        generator = torch.Generator().manual_seed(3)
        grads = GradientsParams()
        for param in params(model):
            grad = torch.randn(param.tensor.shape, generator=generator)
            grads.register(param, divided(grad, param.tensor))
        optimizer.step(1e-2, model, grads)
    with expected.eval_weights(plain), optimizer.eval_weights(model):
        record = Record.from_module(model)
        for param in params(plain):
            found: Any = record.tensors[param.path]
            assert torch.equal(found.full_tensor(), param.tensor)
