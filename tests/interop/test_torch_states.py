"""States of torch's optimizers come in and go out: the next steps are the same, also where layouts differ."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

from burnlike import optim
from burnlike.errors import RecordFormatError, RecordIOError, RecordMismatchError
from burnlike.interop import (
    TorchLbfgs,
    TorchOptimizer,
    export_torch_optimizer,
    from_torch,
    import_torch_optimizer,
    to_torch,
)
from burnlike.module import params
from burnlike.optim import (
    AdaGradConfig,
    AdamConfig,
    AdamWConfig,
    GradientsParams,
    MomentumConfig,
    OptimizerAdaptor,
    RmsPropConfig,
    SgdConfig,
    load_torch_record,
    torch_record,
)
from burnlike.record import Record, open_record
from burnlike.record.tools.comparison import compare
from burnlike.record.tools.renaming import rename

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


D = 4  # all weights are square where they can be, so that no shape tells how a state lies


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(D, D), nn.Linear(D, D)
        self.two.weight = self.one.weight


def encoder(**options: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(D, 2, D, batch_first=True, **options)


def decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(D, 2, D, batch_first=True, norm_first=True), 2)


NETS: Mapping[str, Callable[[], nn.Module]] = {
    "square Linear": lambda: nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D, bias=False)),
    "Linear": lambda: nn.Sequential(nn.Linear(D, 3), nn.Linear(3, 2)),
    "embedding, convolutions, norms": lambda: nn.ModuleDict(
        {
            "embedding": nn.Embedding(D, D),
            "conv": nn.Conv2d(D, D, 3),
            "up": nn.ConvTranspose1d(D, D, 2),
            "norm": nn.LayerNorm(D),
            "batch": nn.BatchNorm1d(D),
            "head": nn.Linear(D, D),
        }
    ),
    "MultiheadAttention": lambda: nn.MultiheadAttention(D, 2, batch_first=True),
    "MultiheadAttention without bias": lambda: nn.MultiheadAttention(D, 2, bias=False, batch_first=True),
    "LSTM": lambda: nn.LSTM(D, D, batch_first=True),
    "bidirectional LSTM": lambda: nn.LSTM(D, 3, batch_first=True, bidirectional=True),
    "GRU": lambda: nn.GRU(D, D, batch_first=True),
    "bidirectional GRU": lambda: nn.GRU(D, D, batch_first=True, bidirectional=True),
    "RNN": lambda: nn.RNN(D, D, batch_first=True, bias=False),
    "TransformerEncoderLayer": encoder,
    "TransformerEncoderLayer, norms first": lambda: encoder(norm_first=True),
    "TransformerDecoder": decoder,
    "tied": Tied,
}


def drawn(name: str) -> nn.Module:
    torch.manual_seed(1)
    return NETS[name]().double()


def gradients(net: nn.Module, step: int) -> nn.Module:
    """A module like `net` whose parameters are the gradients of a step."""
    torch.manual_seed(step)
    made = copy.deepcopy(net)
    for parameter in made.parameters():
        parameter.data = torch.randn_like(parameter)
    return made


def stepped(module: nn.Module, optimizer: Any, steps: range) -> None:
    """Steps with gradients that are drawn for torch's layers, and converted as weights are for burnlike's."""
    is_twin = not any(type(it).__module__.startswith("torch.nn.modules") for it in module.modules() if it._parameters)
    net = to_torch(module) if is_twin else module
    for step in steps:
        given = gradients(net, step)
        given = from_torch(given) if is_twin else given
        grads = {it.path: it.tensor.detach() for it in params(given, "weight")}
        for param in params(module, "weight"):
            param.tensor.grad = grads[param.path].clone()
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer.step()
        else:
            optimizer.step(0.01, module, GradientsParams.from_module(module))


def assert_same(one: nn.Module, other: nn.Module) -> None:
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    for (name, expected), (_, value) in pairs:
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12, msg=lambda it, name=name: f"{name}: {it}")


def rows_of(record: Record) -> dict[str, Any]:
    return {name: it.tolist() for name, it in record.tensors.items()} | dict(record.values["states"])  # pyright: ignore


@pytest.mark.parametrize("rule", PAIRS)
@pytest.mark.parametrize("name", NETS)
def test_torch_then_burnlike_then_torch_is_one_run(name: str, rule: str) -> None:
    made, options, config = PAIRS[rule]
    net = drawn(name)
    alone = copy.deepcopy(net)
    stepped(alone, made(alone.parameters(), lr=0.01, **options), range(9))

    theirs = made(net.parameters(), lr=0.01, **options)
    stepped(net, theirs, range(3))
    twin = from_torch(net)
    ours = config.init().load_record(torch_record(theirs, net), twin)
    assert not ours.load_report.missing or rule == "SGD"  # which has no states
    stepped(twin, ours, range(3, 6))
    back = to_torch(twin)
    again = made(back.parameters(), lr=0.01, **options)
    load_torch_record(again, ours.into_record(), back)
    stepped(back, again, range(6, 9))
    assert_same(back, alone)


CONFIGS: Mapping[str, Any] = {
    "Adam": optim.AdamConfig(amsgrad=True),
    "AdamW": optim.AdamWConfig(),
    "Sgd": optim.SgdConfig(momentum=optim.MomentumConfig()),
    "RmsProp": optim.RmsPropConfig(centered=True),
    "AdaGrad": optim.AdaGradConfig(),
    "Adan": optim.AdanConfig(),
    "Lion": optim.LionConfig(),
    "Lamb": optim.LambConfig(),
    "Muon": optim.MuonConfig(),
    "ScheduleFreeAdamW": optim.ScheduleFreeAdamWConfig(),
    "Adafactor": optim.AdafactorConfig(),
}
ELEMENTWISE = ("Adam", "AdamW", "Sgd", "RmsProp", "AdaGrad", "Adan", "Lion", "ScheduleFreeAdamW")


def test_all_rules_are_here() -> None:
    configs = [getattr(optim, name) for name in dir(optim) if name.endswith("Config")]
    rules = {
        it for it in configs if issubclass(it, optim.ModuleOptimizerConfig) and it.__module__.endswith("rules.configs")
    }
    assert rules - {optim.ModuleOptimizerConfig, optim.OptimizerGroupsConfig} == {*map(type, CONFIGS.values())}


def of_rule(name: str, net: nn.Module) -> nn.Module:
    """The part of a net that a rule can update: Muon has matrices only."""
    return nn.Sequential(nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)).double() if name == "Muon" else net


@pytest.mark.parametrize("rule", CONFIGS)
@pytest.mark.parametrize("name", NETS)
def test_every_rule_goes_over_and_comes_back(name: str, rule: str, tmp_path: Path) -> None:
    net, config = of_rule(rule, drawn(name)), CONFIGS[rule]
    ours: OptimizerAdaptor[Any] = config.init()
    stepped(net, ours, range(2))
    twin = from_torch(net)
    if rule == "Adafactor" and any(isinstance(it, nn.MultiheadAttention | nn.LSTM | nn.GRU) for it in net.modules()):
        with pytest.raises(RecordMismatchError, match=r"has 'second_moment' of shape .* can't be laid out"):
            config.init().load_record(ours.into_record(), twin)
        return
    ours.save(tmp_path / "optimizer.safetensors")
    follower = config.init().load_record(open_record(tmp_path / "optimizer.safetensors"), twin)
    assert not follower.load_report.missing
    back = config.init().load_record(follower.into_record(), to_torch(twin))
    assert rows_of(back.into_record()) == rows_of(ours.into_record())
    if rule in ELEMENTWISE:
        stepped(net, ours, range(2, 4))
        stepped(twin, follower, range(2, 4))
        assert_same(to_torch(twin), net)


@pytest.mark.parametrize("name", NETS)
def test_state_dicts_cross_too(name: str) -> None:
    net, config = drawn(name), optim.AdamWConfig(epsilon=1e-8, weight_decay=1e-2)
    theirs = torch.optim.AdamW(net.named_parameters(), lr=0.01, eps=1e-8)
    stepped(net, theirs, range(2))
    twin = from_torch(net)
    facade = TorchOptimizer(twin, config, lr=0.01)
    imported = import_torch_optimizer(theirs.state_dict(), net)
    facade.load_record(imported)
    expected = rows_of(facade.adaptor.into_record())

    own = TorchOptimizer(net, config, lr=0.01)
    own.load_state_dict(theirs.state_dict())
    other = TorchOptimizer(twin, config, lr=0.01)
    other.load_state_dict(own.state_dict())
    assert rows_of(other.adaptor.into_record()) == expected
    assert (
        rows_of(TorchOptimizer(twin, config, lr=0.01).load_record(own.into_record()).adaptor.into_record()) == expected
    )

    # The original, which knows nothing of the twin's ids, gets its own states back.
    same = torch.optim.AdamW(net.parameters(), lr=0.01, eps=1e-8)
    load_torch_record(same, facade.adaptor.into_record(), net)
    assert rows_of(torch_record(same, net)) == rows_of(torch_record(theirs, net))

    back = to_torch(twin)
    again = torch.optim.AdamW(back.parameters(), lr=0.01, eps=1e-8)
    again.load_state_dict(export_torch_optimizer(facade.adaptor.into_record(), again, back))
    stepped(net, theirs, range(2, 4))
    stepped(back, again, range(2, 4))
    assert_same(back, net)


@pytest.mark.parametrize("name", ["MultiheadAttention", "LSTM", "bidirectional GRU"])
def test_torchs_names_say_whose_state_dict_it_is(name: str) -> None:
    net = drawn(name)
    theirs = torch.optim.AdamW(net.named_parameters())
    stepped(net, theirs, range(2))
    twin = from_torch(net)
    found = import_torch_optimizer(theirs.state_dict(), twin)
    expected = optim.AdamWConfig().init().load_record(torch_record(theirs, net), twin).into_record()
    assert rows_of(found) == rows_of(expected)


def squares() -> tuple[nn.Module, Any, nn.Module]:
    net = drawn("square Linear")
    theirs = torch.optim.AdamW(net.named_parameters())
    stepped(net, theirs, range(1))
    return net, theirs, from_torch(net)


def test_what_does_not_say_how_it_lies_is_refused() -> None:
    net, theirs, twin = squares()
    with pytest.raises(RecordMismatchError, match=r"'0\.weight' has a shape that fits both; make a record"):
        TorchOptimizer(twin, optim.AdamWConfig(), lr=0.1).load_state_dict(theirs.state_dict())
    with pytest.raises(RecordMismatchError, match="fits both"):
        import_torch_optimizer(theirs.state_dict(), twin)
    # Of the parameters of the twin itself it is certain, and so it is of what torch's layers are trained by.
    assert import_torch_optimizer(theirs.state_dict(), twin, order=twin.parameters()).values["layouts"] == {}
    TorchOptimizer(net, optim.AdamWConfig(), lr=0.1).load_state_dict(theirs.state_dict())
    ours = optim.AdamWConfig().init()
    stepped(twin, ours, range(1))
    record = ours.into_record()
    silent = Record(record.tensors, {key: it for key, it in record.values.items() if key != "layouts"})  # as Burn's
    optim.AdamWConfig().init().load_record(silent, twin)
    with pytest.raises(RecordMismatchError, match=r"fits both; load it into an optimizer of the module"):
        load_torch_record(theirs, silent, net)


def test_shapes_tell_where_one_is_not_square() -> None:
    net = nn.Sequential(nn.Linear(D, D), nn.Linear(D, 3)).double()
    theirs = torch.optim.AdamW(net.parameters())
    stepped(net, theirs, range(1))
    twin = from_torch(net)
    facade = TorchOptimizer(twin, optim.AdamWConfig(), lr=0.1)
    facade.load_state_dict(theirs.state_dict())
    for place in (0, 1):
        moment: Tensor = facade.state[twin[place].weight]["momentum.moment_1"]
        assert torch.equal(moment, theirs.state[net[place].weight]["exp_avg"].T)


def test_states_that_were_loaded_without_a_module_are_refused_by_another_layout() -> None:
    net, theirs, twin = squares()
    ours = optim.AdamWConfig().init().load_record(torch_record(theirs, net))
    before = copy.deepcopy(twin)
    with pytest.raises(RecordMismatchError, match=r"load them by load_record\(record, module\)"):
        stepped(twin, ours, range(1))
    assert_same(twin, before)
    stepped(net, ours, range(1))


def test_what_can_not_be_laid_out_otherwise_is_refused_by_name() -> None:
    net, theirs, _ = squares()
    eight = optim.AdamWConfig(moment_1="blockwise8", moment_2="blockwise8")
    ours, large = eight.init(), nn.Sequential(nn.Linear(64, 64))
    stepped(large, ours, range(1))
    with pytest.raises(RecordMismatchError, match=r"'0\.weight'.* has 'momentum\.scales_"):
        eight.init().load_record(ours.into_record(), from_torch(large))
    attention = drawn("MultiheadAttention")
    other = from_torch(attention)
    adaptor = optim.AdamWConfig().init()
    stepped(other, adaptor, range(1))
    adaptor.set_state(next(it for it in params(other) if it.path == "key.weight"), None)
    with pytest.raises(RecordMismatchError, match=r"'in_proj_weight' is made of 3 .* no state of 'key\.weight'"):
        load_torch_record(torch.optim.AdamW(attention.parameters()), adaptor.into_record(), attention)
    record = torch_record(theirs, net)
    broken = Record(record.tensors, {**record.values, "layouts": {next(iter(record.values["paths"])): 3}})  # pyright: ignore
    with pytest.raises(RecordMismatchError, match="expected under 'layouts'"):
        load_torch_record(theirs, broken, net)


def lbfgs_step(module: nn.Module, optimizer: Any) -> None:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = module(torch.ones(1, D, dtype=torch.float64)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def test_one_state_of_all_parameters_does_not_cross() -> None:
    net = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D)).double()
    twin = from_torch(net)
    theirs, ours = torch.optim.LBFGS(net.parameters()), TorchLbfgs(net, optim.LbfgsConfig())
    lbfgs_step(net, theirs)
    with pytest.raises(RecordMismatchError, match="is one for all parameters, of which some lie otherwise"):
        load_torch_record(torch.optim.LBFGS(twin.parameters()), torch_record(theirs, net), twin)
    load_torch_record(torch.optim.LBFGS(net.parameters()), torch_record(theirs, net), net)
    lbfgs_step(net, ours)
    square = nn.Sequential(nn.Linear(D, D)).double()
    ours = TorchLbfgs(square, optim.LbfgsConfig())
    lbfgs_step(square, ours)
    params(square)
    other = TorchLbfgs(from_torch(square), optim.LbfgsConfig())
    with pytest.raises(RecordMismatchError, match="whose parameters lie otherwise"):
        other.load_state_dict(ours.state_dict())
    TorchLbfgs(square, optim.LbfgsConfig()).load_state_dict(ours.state_dict())


def test_tools_of_records_know_how_states_lie(tmp_path: Path) -> None:
    net = drawn("MultiheadAttention")
    ours = optim.AdamWConfig().init()
    stepped(net, ours, range(1))
    record = ours.into_record()
    renamed = rename(record, [("^", "inner.")])
    inner = nn.ModuleDict({"inner": from_torch(net)})
    follower = optim.AdamWConfig().init().load_record(renamed, inner)
    assert not follower.load_report.missing
    ours.save(tmp_path / "optimizer.mpk")
    ours.save(tmp_path / "optimizer.bin")
    assert open_record(tmp_path / "optimizer.mpk").values["layouts"] == record.values["layouts"]
    silent = open_record(tmp_path / "optimizer.bin", layout=ours.record_layout())
    assert "layouts" not in silent.values
    assert not [name for name in compare(record, silent).values if name.startswith("layouts")]
