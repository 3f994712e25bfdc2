"""What each function of burnlike has to do with a sharded module in whatever state it is, as one process does it.

Each check is given a sharded model and what brings it into the state.
"""

import gc
import re
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import ModuleTreeError
from burnlike.interop import TorchOptimizer, import_torch_optimizer
from burnlike.module import ParamGroup, agree_ids, freeze, map, map_, num_params, params, unfreeze, valid, visit
from burnlike.module.torch_objects.wrappers import own_class
from burnlike.optim import (
    AdamWConfig,
    ClipByGlobalNorm,
    GradientsAccumulator,
    GradientsParams,
    LbfgsConfig,
    MultiGradientsParams,
    ScheduleFreeAdamWConfig,
    SgdConfig,
)
from burnlike.record import DistributedRecorder, Record
from burnlike.train import TrainingState

from .models import WRAPPINGS, batch, fill, loss_of, own_batch, whole

FROZEN = ParamGroup.from_regex("^(inner|first)")
Enter = Callable[[], None]


def twin(model: Any, seed: int = 3) -> Any:
    """The model of one process, with the same values or with others."""
    return fill(own_class(model)(), seed)


def child_of(model: Any) -> Any:
    """A layer whose parameters are gathered with those of the model; `model.inner` is gathered by itself."""
    return model.head if hasattr(model, "head") else model.first


def values_of(model: Any) -> dict[str, Tensor]:
    """The whole of each parameter, by path."""
    return {param.path: whole(param.tensor).clone() for param in params(model)}


def assert_close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert [*found] == [*expected]
    for path, value in expected.items():
        torch.testing.assert_close(
            found[path], value, rtol=0, atol=1e-12, msg=lambda text, path=path: f"{path}: {text}"
        )


def assert_is(model: Any, expected: nn.Module) -> None:
    """The model holds and computes with the values of `expected`, at once and after the next reshard."""
    assert_close(values_of(model), values_of(expected))
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(model(own_batch(7)), expected(own_batch(7)))
        loss_of(model, own_batch(8)).backward()
        assert_close(values_of(model), values_of(expected))


def grads_of(model: Any, step: int = 1) -> dict[str, Tensor]:
    """What one process finds for the batch of all ranks."""
    one = twin(model)
    loss_of(one, batch(step)).backward()
    return {param.path: param.tensor.grad for param in params(one) if param.tensor.grad is not None}


def by_path(grads: GradientsParams) -> dict[str, Tensor]:
    return {param.path: whole(grad) for param, grad in grads}


# burnlike.module


def lists_params(model: Any, enter: Enter) -> None:
    before = [(it.path, it.id, it.kind, it.aliases, id(it.tensor)) for it in params(model)]
    parts = [(it.path, it.id, id(it.tensor)) for part in (model.inner, child_of(model)) for it in params(part)]
    handles = params(model)
    enter()
    assert [(it.path, it.id, it.kind, it.aliases, id(it.tensor)) for it in params(model)] == before
    again = [(it.path, it.id, id(it.tensor)) for part in (model.inner, child_of(model)) for it in params(part)]
    assert again == parts
    assert [id(it.tensor) for it in handles] == [address for *_, address in before]
    assert_close(values_of(model), values_of(twin(model)))


def first_met_in_this_state(model: Any, enter: Enter) -> None:
    enter()
    child = params(child_of(model))
    assert {type(it.tensor).__name__ for it in child} == {"DTensor"}
    agree_ids(model)
    assert_close(values_of(model), values_of(twin(model)))
    assert {it.id for it in child} < {it.id for it in params(model)}


def visits(model: Any, enter: Enter) -> None:
    enter()
    found: dict[str, Tensor] = {}
    visit(model, lambda param: found.update({param.path: param.tensor}))
    assert {type(it).__name__ for it in found.values()} == {"DTensor"}
    found = {path: whole(it) for path, it in found.items()}
    assert_close(found, values_of(twin(model)))


def shows(model: Any, enter: Enter) -> None:
    before = bl.module.display(model)
    enter()
    assert bl.module.display(model) == before
    assert num_params(model) == num_params(twin(model))


def maps_in_place(model: Any, enter: Enter) -> None:
    enter()
    map_(model, lambda param: param.tensor * 2)
    assert_is(model, map_(twin(model), lambda param: param.tensor * 2))


def maps_a_part_by_hand(model: Any, enter: Enter) -> None:
    def half(param: Any) -> Any:
        param.tensor.mul_(0.5)
        return param

    enter()
    map_(child_of(model), half)
    expected = twin(model)
    map_(child_of(expected), half)
    assert_is(model, expected)


def assigns(model: Any, enter: Enter) -> None:
    enter()
    for param in params(model):
        param.assign(param.tensor.detach() * 3)
    assert_is(model, map_(twin(model), lambda param: param.tensor * 3))


def refuses_a_whole_tensor(model: Any, enter: Enter) -> None:
    enter()
    with pytest.raises(ModuleTreeError, match="expected a DTensor in its place"):
        params(model)[0].assign(torch.zeros(params(model)[0].tensor.shape))
    assert_is(model, twin(model))


def refuses_copies(model: Any, enter: Enter) -> None:
    enter()
    for part in (model, model.inner, child_of(model)):
        for copied in (
            lambda part: map(part, lambda param: param),
            valid,
            bl.module.clone,
            lambda it: bl.module.fork(it, "cpu"),
        ):
            with pytest.raises(ModuleTreeError, match=r"is sharded by fully_shard and can't be copied; change it in"):
                copied(part)
    assert_is(model, twin(model))


def freezes(model: Any, enter: Enter) -> None:
    enter()
    freeze(model, FROZEN)
    frozen = [it for it in params(model) if it.path.startswith(("inner", "first"))]
    assert not any(it.trainable or it.requires_grad for it in frozen)
    for _ in range(2):
        GradientsParams.from_module(model)
        loss_of(model, own_batch(1)).backward()
        expected = {path: it for path, it in grads_of(model).items() if not path.startswith(("inner", "first"))}
        assert_close(by_path(GradientsParams.from_module(model)), expected)
        assert not any(it.trainable for it in frozen)
    enter()
    unfreeze(model)
    GradientsParams.from_module(model)
    loss_of(model, own_batch(1)).backward()
    assert_close(by_path(GradientsParams.from_module(model)), grads_of(model))


def freezes_between_forward_and_backward(model: Any, enter: Enter) -> None:
    enter()
    GradientsParams.from_module(model)
    loss = loss_of(model, own_batch(1))
    freeze(model, FROZEN)
    loss.backward()
    expected = {path: it for path, it in grads_of(model).items() if not path.startswith(("inner", "first"))}
    assert_close(by_path(GradientsParams.from_module(model)), expected)


# burnlike.record


def loads(model: Any, enter: Enter) -> None:
    enter()
    Record.from_module(twin(model, 9)).load_into(model)
    assert_is(model, twin(model, 9))


def loads_as_saved(model: Any, enter: Enter) -> None:
    enter()
    Record.from_module(twin(model, 9)).load_into(model, dtype="as_saved")
    assert_is(model, twin(model, 9))


def loads_a_file(model: Any, enter: Enter) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = bl.record.save(twin(model, 9), Path(folder) / "x.safetensors")
        enter()
        bl.record.load(model, path)
    assert_is(model, twin(model, 9))


def saves(model: Any, enter: Enter) -> None:
    folder: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    enter()
    DistributedRecorder().save(Record.from_module(model), Path(folder[0]) / "x")
    other = twin(model, 9)
    DistributedRecorder().load(Path(folder[0]) / "x").load_into(other)
    assert_close(values_of(other), values_of(twin(model)))
    map_(model, lambda param: param.tensor * 0)
    enter()
    DistributedRecorder().load(Path(folder[0]) / "x").load_into(model)
    assert_is(model, twin(model))


def goes_on_with_a_training_state(model: Any, enter: Enter) -> None:
    optimizer = AdamWConfig().init()
    loss_of(model, own_batch(1)).backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    enter()
    records = TrainingState(model=model, optimizer=optimizer).to_records()
    kept = {
        name: Record(
            {it: value.clone() for it, value in record.tensors.items()}, record.values, record.ids, record.aliases
        )
        for name, record in records.items()
    }
    expected = twin(model)
    theirs = AdamWConfig().init()
    for step in (1, 2):
        loss_of(expected, batch(step)).backward()
        theirs.step(0.1, expected, GradientsParams.from_module(expected))
    loss_of(model, own_batch(5)).backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    enter()
    TrainingState(model=model, optimizer=optimizer).load_records(kept)
    GradientsParams.from_module(model)
    loss_of(model, own_batch(2)).backward()
    optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert_is(model, expected)


# burnlike.optim


def takes_gradients(model: Any, enter: Enter) -> None:
    loss_of(model, own_batch(1)).backward()
    enter()
    grads = GradientsParams.from_module(model)
    assert_close(by_path(grads), grads_of(model))
    assert GradientsParams.from_module(model).is_empty()


def takes_gradients_of_a_typed_loss(model: Any, enter: Enter) -> None:
    loss = bl.Tensor(loss_of(model, own_batch(1)).reshape(1), bl.Autodiff(bl.Cpu()))
    grads = loss.backward()
    enter()
    shown = {name: grads.get(param) for name, param in model.named_parameters()}
    assert_close({name: whole(it) for name, it in shown.items() if it is not None}, grads_of(model))
    assert_close(by_path(GradientsParams.from_grads(grads, model)), grads_of(model))
    assert not any(param.grad is not None for param in (it.tensor for it in params(model)))


def differentiates_a_typed_loss(model: Any, enter: Enter) -> None:
    enter()
    GradientsParams.from_module(model)
    grads = bl.Tensor(loss_of(model, own_batch(1)).reshape(1), bl.Autodiff(bl.Cpu())).backward()
    assert_close(by_path(GradientsParams.from_grads(grads, model)), grads_of(model))


def steps(model: Any, enter: Enter, config: Any = None, **options: Any) -> None:
    config = config or AdamWConfig(grad_clipping=ClipByGlobalNorm(threshold=0.1))
    expected, ours, theirs = twin(model), config.init(), config.init()
    for step in range(3):
        loss_of(model, own_batch(step)).backward()
        grads = GradientsParams.from_module(model)
        enter()
        GradientsParams.from_module(model)
        ours.step(0.1, model, grads, **options)
        loss_of(expected, batch(step)).backward()
        theirs.step(0.1, expected, GradientsParams.from_module(expected))
    assert_is(model, expected)


def steps_by_a_rule_of_whole_tensors(model: Any, enter: Enter) -> None:
    steps(model, enter, bl.optim.LambConfig())


def puts_weights_to_evaluate(model: Any, enter: Enter) -> None:
    found = []
    for each, of_rank in ((model, own_batch), (twin(model), batch)):
        optimizer = ScheduleFreeAdamWConfig().init()
        for step in range(2):
            loss_of(each, of_rank(step)).backward()
            optimizer.step(0.1, each, GradientsParams.from_module(each))
        if each is model:
            enter()
        optimizer.use_eval_weights(each)
        found.append(each)
    assert_is(*found)


def minimizes_by_lbfgs(model: Any, enter: Enter) -> None:
    expected = twin(model)
    enter()
    for each, x in ((model, own_batch(1)), (expected, batch(1))):

        def closure(module: nn.Module, x: Tensor = x) -> tuple[Tensor, GradientsParams]:
            GradientsParams.from_module(module)
            loss = loss_of(module, x)
            loss.backward()
            return loss, GradientsParams.from_module(module)

        LbfgsConfig(max_iter=3).init().step(0.01, each, closure)
    assert_is(model, expected)


def accumulates(model: Any, enter: Enter) -> None:
    accumulator = GradientsAccumulator()
    for step in (1, 2):
        loss_of(model, own_batch(step)).backward()
        grads = GradientsParams.from_module(model)
        enter()
        accumulator.accumulate(model, grads, items=3)
        GradientsParams.from_module(model)
    one, other = grads_of(model, 1), grads_of(model, 2)
    assert_close(by_path(accumulator.grads()), {path: (one[path] + other[path]) / 2 for path in one})


def sums_gradients_of_replicas(model: Any, enter: Enter) -> None:
    multi = MultiGradientsParams()
    for step in (1, 2):
        loss_of(model, own_batch(step)).backward()
        multi.add(GradientsParams.from_module(model))
    enter()
    one, other = grads_of(model, 1), grads_of(model, 2)
    assert_close(by_path(multi.summed(model)), {path: one[path] + other[path] for path in one})


# burnlike.interop


def optimizer_of(model: Any, **options: Any) -> TorchOptimizer:
    return TorchOptimizer(model, SgdConfig(momentum=bl.optim.MomentumConfig()), lr=0.1, **options)


def trained(expected: nn.Module, optimizer: torch.optim.Optimizer, steps: range = range(3)) -> Any:
    for step in steps:
        optimizer.zero_grad()
        loss_of(expected, batch(step)).backward()
        optimizer.step()
    return expected


def makes_a_torch_optimizer(model: Any, enter: Enter) -> None:
    enter()
    for options in ({}, {"params": list(model.parameters())}, {"params": [*model.named_parameters()]}):
        optimizer = optimizer_of(model, **options)
        shown = {id(it) for group in optimizer.param_groups for it in group["params"]}
        assert shown == {id(it.tensor) for it in params(model, "weight")}
    for step in range(3):
        enter()
        optimizer.zero_grad()
        loss_of(model, own_batch(step)).backward()
        optimizer.step()
    assert_is(model, trained(expected := twin(model), optimizer_of(expected)))


def adds_a_group(model: Any, enter: Enter) -> None:
    def make(each: Any, added: Enter) -> TorchOptimizer:
        optimizer = optimizer_of(each, params=[*each.inner.parameters()])
        added()
        inner = {name for name, _ in each.inner.named_parameters(prefix="inner")}
        others = [it for name, it in each.named_parameters() if name not in inner]
        optimizer.add_param_group({"params": others, "lr": 0.01})
        assert sorted(optimizer.param_groups[1]["param_names"]) == sorted({it.path for it in params(each)} - inner)
        return optimizer

    optimizer = make(model, enter)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, own_batch(step)).backward()
        optimizer.step()
    expected = twin(model)
    assert_is(model, trained(expected, make(expected, lambda: None)))


def steps_a_torch_optimizer(model: Any, enter: Enter) -> None:
    optimizer = optimizer_of(model)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, own_batch(step)).backward()
        kept = [it.tensor.grad for it in params(model)]
        enter()
        for param, grad in zip(params(model), kept, strict=True):
            param.tensor.grad = grad
        optimizer.step()
    assert_is(model, trained(expected := twin(model), optimizer_of(expected)))


def zeroes_gradients(model: Any, enter: Enter) -> None:
    for set_to_none in (True, False):
        optimizer = optimizer_of(model)
        loss_of(model, own_batch(1)).backward()
        enter()
        optimizer.zero_grad(set_to_none)
        loss_of(model, own_batch(2)).backward()
        assert_close(by_path(GradientsParams.from_module(model)), grads_of(model, 2))


def shows_states(model: Any, enter: Enter) -> None:
    optimizer = optimizer_of(model)
    loss_of(model, own_batch(1)).backward()
    optimizer.step()
    enter()
    for shown in (model.parameters(), (it.tensor for it in params(model))):
        found = {
            name: whole(optimizer.state[it]["momentum.velocity"])
            for name, it in zip(grads_of(model), shown, strict=True)
        }
        assert_close(found, grads_of(model))
    state = optimizer.state_dict()
    other = optimizer_of(model)
    other.load_state_dict(state)
    assert len(other.state) == len(params(model, "weight"))


def takes_states_of_torch(model: Any, enter: Enter) -> None:
    theirs = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of(model, own_batch(1)).backward()
    theirs.step()
    enter()
    record = import_torch_optimizer(theirs.state_dict(), model, order=model.parameters())
    by_handle = import_torch_optimizer(theirs.state_dict(), model, order=theirs)
    assert [*record.tensors] == [*by_handle.tensors]
    assert_close(
        {re.sub(r"\..*", "", name): whole(it) for name, it in record.tensors.items()},
        {str(param.id): grads_of(model)[param.path] for param in params(model)},
    )


def trains_in_the_usual_order(make: Callable[[], Any]) -> None:
    """Forward, zero_grad, backward, step, with evaluations between: as torch.optim, in the order that it needs."""
    model, expected = make(), make()
    pairs: list[tuple[Any, torch.optim.Optimizer]] = [
        (model, TorchOptimizer(model, AdamWConfig(epsilon=1e-8, weight_decay=0.01), lr=0.05)),
        (expected, torch.optim.AdamW(expected.parameters(), lr=0.05)),
    ]
    for each, optimizer in pairs:
        for step in range(5):
            if each is expected:
                optimizer.zero_grad()
            loss = loss_of(each, own_batch(step))
            if each is model:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                each(own_batch(99))
                each.reshard() if each is expected else None
    expected.reshard()
    assert_close(values_of(model), {name: whole(param) for name, param in expected.named_parameters()})


def refuses_changes_during_a_pass() -> None:
    model = WRAPPINGS["nested"]()
    refused = []

    def change(*_: Any) -> None:
        with pytest.raises(
            ModuleTreeError, match="FSDPNet, sharded by fully_shard, can't be changed during its forward"
        ):
            map_(model, lambda param: param.tensor * 2)
        refused.append(len(params(model)))

    model.last.register_forward_pre_hook(change)
    loss = loss_of(model, own_batch(1))
    model.last.weight.register_hook(change)
    loss.backward()
    assert refused == [7, 7]
    assert_close(values_of(model), values_of(twin(model)))


def lets_one_rank_look_alone() -> None:
    """Looking sends nothing and gathers nothing: the other rank need not do it."""
    model = WRAPPINGS["nested"]()
    agree_ids(model)
    for step in range(2):
        loss = loss_of(model, own_batch(step))
        if dist.get_rank() == 0:
            bl.module.display(model)
            visit(model, lambda param: None)
            num_params(model)
            Record.from_module(model)
            TorchOptimizer(model, AdamWConfig(), lr=0.1).zero_grad()
        loss.backward()
        assert_close(by_path(GradientsParams.from_module(model)), grads_of(model, step))


def forgets_models_that_are_gone() -> None:
    model = WRAPPINGS["nested"]()
    model(own_batch(1))
    freeze(model)
    params(model.inner)
    known = weakref.ref(model)
    del model
    gc.collect()
    assert known() is None


ALONE: Mapping[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        refuses_changes_during_a_pass,
        lets_one_rank_look_alone,
        forgets_models_that_are_gone,
    )
}
CHECKS: Mapping[str, Any] = {
    name: check
    for name, check in list(globals().items())
    if getattr(check, "__module__", None) == __name__
    and callable(check)
    and [*getattr(check, "__annotations__", {})][:2] == ["model", "enter"]
}
