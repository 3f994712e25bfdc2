"""States of torch's own optimizers come in, and go out again: the next steps are the same on both sides."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from burnlike.errors import RecordFormatError, RecordIOError, RecordMismatchError
from burnlike.interop import export_torch_optimizer, import_torch_optimizer
from burnlike.optim import AdaGradConfig, AdamConfig, AdamWConfig, MomentumConfig, RmsPropConfig, SgdConfig

from .models import assert_equal_weights, loss_of, model_of, optimizer_of, train

MOMENTUM = MomentumConfig(momentum=0.8, dampening=0.0)
# torch's class and options, and the config with the same settings
PAIRS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "AdamW": (torch.optim.AdamW, {"eps": 1e-8}, AdamWConfig(epsilon=1e-8, weight_decay=1e-2)),
    "AdamW amsgrad": (
        torch.optim.AdamW,
        {"eps": 1e-8, "amsgrad": True},
        AdamWConfig(epsilon=1e-8, weight_decay=1e-2, amsgrad=True),
    ),
    "Adam": (torch.optim.Adam, {"weight_decay": 0.1}, AdamConfig(epsilon=1e-8, weight_decay=0.1)),
    "SGD": (torch.optim.SGD, {}, SgdConfig()),
    "SGD momentum": (torch.optim.SGD, {"momentum": 0.8}, SgdConfig(momentum=MOMENTUM)),
    "RMSprop": (torch.optim.RMSprop, {"eps": 1e-8}, RmsPropConfig(epsilon=1e-8, momentum=0.0)),
    "RMSprop all": (
        torch.optim.RMSprop,
        {"eps": 1e-6, "momentum": 0.8, "centered": True},
        RmsPropConfig(epsilon=1e-6, momentum=0.8, centered=True),
    ),
    "Adagrad": (torch.optim.Adagrad, {"eps": 1e-8, "lr_decay": 0.1}, AdaGradConfig(epsilon=1e-8, lr_decay=0.1)),
}


def pair_of(name: str, *, named: bool = True) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    made, options, config = PAIRS[name]
    model = model_of()
    theirs = made(model.named_parameters() if named else model.parameters(), lr=0.01, **options)
    train(model, theirs, 3)
    return model, theirs, config


@pytest.mark.parametrize("name", PAIRS)
def test_the_next_steps_are_those_of_torch(name: str) -> None:
    model, theirs, config = pair_of(name)
    twin = copy.deepcopy(model)
    ours = optimizer_of(twin, config)
    ours.adaptor.load_record(import_torch_optimizer(theirs.state_dict(), twin), twin)
    train(model, theirs, 3, 3)
    train(twin, ours, 3, 3)
    assert_equal_weights(twin, model, 1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_torch_goes_on_with_what_is_exported(name: str) -> None:
    made, options, config = PAIRS[name]
    model = model_of()
    ours = optimizer_of(model, config)
    train(model, ours, 3)
    twin = copy.deepcopy(model)
    theirs = made(reversed([*twin.named_parameters()]), lr=0.01, **options)
    theirs.load_state_dict(export_torch_optimizer(ours.adaptor.to_record(), theirs, twin))
    train(model, ours, 3, 3)
    train(twin, theirs, 3, 3)
    assert_equal_weights(twin, model, 1e-12)


def test_a_file_is_read_without_running_code(tmp_path: Path) -> None:
    model, theirs, config = pair_of("AdamW")
    path = tmp_path / "optimizer.pt"
    torch.save(theirs.state_dict(), path)
    record = import_torch_optimizer(path, model)
    assert len(config.init().load_record(record, model).load_report.by_id) == 6

    class Attack:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "attacked",)

    torch.save({"state": {}, "param_groups": [], "x": Attack()}, path)
    with pytest.raises(RecordFormatError, match=r"optimizer\.pt: it calls something that has no name"):
        import_torch_optimizer(path, model)
    assert not (tmp_path / "attacked").exists()
    torch.save({"state": {}, "param_groups": [{"params": [Path("x")]}]}, path)
    with pytest.raises(RecordFormatError, match=r"'param_groups.0.params.0' is pathlib\S+, which only code could make"):
        import_torch_optimizer(path, model)
    again: list[Any] = []
    again.append(again)
    torch.save({"state": {}, "param_groups": again}, path)
    with pytest.raises(RecordFormatError, match="is nested too deeply or refers to itself"):
        import_torch_optimizer(path, model)
    path.write_bytes(b"{}")
    with pytest.raises(RecordFormatError, match=r"expected a file of torch\.save"):
        import_torch_optimizer(path, model)
    with pytest.raises(RecordIOError, match="missing"):
        import_torch_optimizer(tmp_path / "missing.pt", model)
    torch.save([1], path)
    with pytest.raises(RecordMismatchError, match="got a list"):
        import_torch_optimizer(path, model)


def test_each_state_keeps_its_dtype_and_time_is_a_whole_number() -> None:
    model = model_of().bfloat16()
    theirs = torch.optim.AdamW(model.named_parameters(), fused=False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    theirs.step()
    record = import_torch_optimizer(theirs.state_dict(), model)
    assert {it.dtype for it in record.tensors.values()} == {torch.bfloat16}
    assert set(record.values["states"].values()) == {1}  # pyright: ignore[reportAttributeAccessIssue, reportIndexIssue]


ORDERS: dict[str, Any] = {
    "parameters": lambda model: model.parameters(),
    "paths": lambda model: [name for name, _ in model.named_parameters()],
    "an optimizer": lambda model: torch.optim.AdamW(model.parameters()),
}


@pytest.mark.parametrize("name", ORDERS)
def test_without_names_the_order_is_told(name: str) -> None:
    model, theirs, _ = pair_of("AdamW", named=False)
    with pytest.raises(RecordMismatchError, match=r"no names of parameters.*order=module\.parameters"):
        import_torch_optimizer(theirs.state_dict(), model)
    found = import_torch_optimizer(theirs.state_dict(), model, order=ORDERS[name](model))
    named = import_torch_optimizer(pair_of("AdamW")[1].state_dict(), model)
    assert [*found.tensors] == [*named.tensors]
    assert all(torch.equal(found.tensors[it], named.tensors[it]) for it in found.tensors)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_states_that_torch_keyed_by_names_need_no_order() -> None:
    model, theirs, _ = pair_of("AdamW", named=False)
    found = import_torch_optimizer(get_optimizer_state_dict(model, theirs), model)
    expected = import_torch_optimizer(theirs.state_dict(), model, order=model.parameters())
    assert {name: it.tolist() for name, it in found.tensors.items()} == {
        name: it.tolist() for name, it in expected.tensors.items()
    }


def test_names_of_wrapped_modules_are_known() -> None:
    model = model_of()
    theirs = torch.optim.AdamW(torch.compile(model, backend="eager").named_parameters(), lr=0.01)
    train(model, theirs, 1)
    assert theirs.state_dict()["param_groups"][0]["param_names"][0] == "_orig_mod.0.weight"
    assert len(import_torch_optimizer(theirs.state_dict(), model).tensors) == 12


def changed(state: dict[str, Any], index: int, **fields: Any) -> dict[str, Any]:
    return {**state, "state": {**state["state"], index: {**state["state"].get(index, {}), **fields}}}


DAMAGES: dict[str, tuple[Any, str]] = {
    "another shape": (lambda it: changed(it, 0, exp_avg=torch.ones(2)), r"exp_avg of '0\.weight': expected shape"),
    "no tensor": (lambda it: changed(it, 0, exp_avg=3), r"exp_avg of '0\.weight': expected shape \[4, 3\], got 3"),
    "a foreign field": (lambda it: changed(it, 1, mu=torch.ones(())), r"the state of '0\.bias' has 'mu'"),
    "a lost field": (lambda it: changed(it, 1, exp_avg=None), r"the state of '0\.bias' lacks 'exp_avg'"),
    "a state of none": (lambda it: changed(it, 9, step=1), "a state of 9"),
    "no groups": (lambda it: {**it, "param_groups": []}, "expected one of torch's .* got one without groups"),
    "no list of groups": (lambda it: {"state": {}}, "expected the state dict of an optimizer"),
    "a whole checkpoint": (lambda it: {"model": {}, "optimizer": it}, "got a dict with 'model', 'optimizer'"),
    "a group of nothing": (lambda it: {**it, "param_groups": [3]}, "expected the state dict of an optimizer"),
    "a group without params": (lambda it: {**it, "param_groups": [{"amsgrad": False}]}, "whose groups have 'params'"),
    "a state that is none": (lambda it: {**it, "state": {0: 3}}, "expected the state dict of an optimizer"),
    "no step": (lambda it: changed(it, 0, step="x"), r"step of '0\.weight': expected a whole number, got 'x'"),
    "a step of nan": (lambda it: changed(it, 0, step=torch.tensor(torch.nan)), "expected a whole number, got tensor"),
    "another name": (
        lambda it: {**it, "param_groups": [{**it["param_groups"][0], "param_names": ["x"] * 6}]},
        "has a state of 'x', and Sequential has no such parameter",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_fit_is_refused(name: str) -> None:
    model, theirs, _ = pair_of("AdamW")
    damage, message = DAMAGES[name]
    with pytest.raises(RecordMismatchError, match=message):
        import_torch_optimizer(damage(theirs.state_dict()), model)


def test_orders_that_do_not_fit() -> None:
    model, theirs, _ = pair_of("AdamW", named=False)
    names = [name for name, _ in model.named_parameters()]
    for order, message in (
        (names[:2], "has 6 parameters, and order has 2"),
        ([*names[:5], names[0]], "meant twice"),
        ([torch.ones(1)] * 6, r"order\[0\] is no parameter of the Sequential"),
    ):
        with pytest.raises(RecordMismatchError, match=message):
            import_torch_optimizer(theirs.state_dict(), model, order=order)


@pytest.mark.parametrize("made", [torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adadelta, torch.optim.ASGD])
def test_other_optimizers_of_torch_are_refused(made: Any) -> None:
    model = model_of()
    theirs = made(model.named_parameters())
    loss_of(model).backward()
    theirs.step()
    with pytest.raises(RecordMismatchError, match="expected one of torch's 'Adam or AdamW'"):
        import_torch_optimizer(theirs.state_dict(), model)
    with pytest.raises(RecordMismatchError, match="expected one of torch's"):
        export_torch_optimizer(optimizer_of(model).adaptor.to_record(), theirs, model)


def test_exports_that_do_not_fit() -> None:
    model = model_of()
    ours = optimizer_of(model)
    train(model, ours, 1)
    with pytest.raises(RecordMismatchError, match=r"'momentum\.moment_1' of .* is no field of SGD's states"):
        export_torch_optimizer(ours.adaptor.to_record(), torch.optim.SGD(model.parameters()), model)
    part = torch.optim.AdamW(model[0].parameters())
    with pytest.raises(RecordMismatchError, match=r"states of '2\.weight'"):
        export_torch_optimizer(ours.adaptor.to_record(), part, model)
