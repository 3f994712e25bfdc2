"""Low-rank adapters: what they add, what is trained and saved, and that any module computes with them."""

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from burnlike import Autodiff, Cpu
from burnlike.errors import ConfigError, ModuleTreeError, ParamPathError
from burnlike.module import (
    Lora,
    LoraConfig,
    Module,
    Param,
    ParamGroup,
    apply_lora,
    fork,
    freeze,
    materialize,
    num_params,
    param_at,
    params,
    to_device,
    unfreeze,
    valid,
)
from burnlike.nn import LinearConfig
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import Record, init_from, load, save
from burnlike.tensor import Tensor as BurnTensor

from ..burn_layers import SimpleLinear
from ..cases import case

CONFIG = LoraConfig(rank=2, alpha=4.0)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def adapted(module: nn.Module, config: LoraConfig = CONFIG) -> nn.Module:
    """With adapters that change something."""
    apply_lora(module, config)
    with torch.no_grad():
        for param in params(module):
            if param.path.endswith(".lora.b"):
                param.tensor.normal_()
    return module


def trainable(module: nn.Module) -> list[str]:
    return [param.path for param in params(module) if param.requires_grad]


def state(module: nn.Module) -> list[tuple[str, Any, bool, int]]:
    """All that a failed change must leave alone."""
    return [(param.path, param.id, param.requires_grad, id(param.tensor)) for param in params(module)]


@case("lora/materialize")
def test_the_effective_weight_is_base_plus_scaled_product() -> None:
    model = adapted(SimpleLinear())
    weight = param_at(model, "weight")
    lora = weight.reparameterization()
    assert isinstance(lora, Lora)
    assert lora.scale == 2.0
    expected = weight.base().double() + 2.0 * (lora.a.double() @ lora.b.double())
    torch.testing.assert_close(weight.val(), expected.float())
    torch.testing.assert_close(weight.val(), weight.base() + lora.delta())


@case("lora/ids_and_count")
def test_base_and_factors_are_three_parameters() -> None:
    model = SimpleLinear()
    before = param_at(model, "weight").id
    apply_lora(model, CONFIG)
    assert [(param.path, list(param.tensor.shape)) for param in params(model)] == [
        ("weight", [6, 4]),
        ("weight.lora.a", [6, 2]),
        ("weight.lora.b", [2, 4]),
        ("bias", [6]),
    ]
    assert len({param.id for param in params(model)}) == 4
    assert param_at(model, "weight").id == before
    assert num_params(model) == 50


@case("lora/zero_delta")
def test_a_new_adapter_changes_nothing() -> None:
    model = SimpleLinear()
    before = model.weight.detach().clone()
    apply_lora(model, CONFIG)
    assert torch.equal(param_at(model, "weight").val(), before)


def test_a_is_normal_with_deviation_of_one_over_the_rank_unless_told() -> None:
    for init_std, expected in ((None, 1 / 8), (0.5, 0.5)):
        model = apply_lora(nn.Linear(4, 4000), LoraConfig(rank=8, alpha=1.0, init_std=init_std))
        a = param_at(model, "weight.lora.a").tensor
        assert abs(a.std().item() - expected) < 0.01 * expected * 3
        assert abs(a.mean().item()) < 0.01


@case("lora/param_group")
def test_only_the_group_gets_adapters_and_everything_is_frozen() -> None:
    class TwoWeights(Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.randn(4, 4))
            self.b = nn.Parameter(torch.randn(4, 4))

    model = TwoWeights().apply_lora(CONFIG.replace(param_group=ParamGroup.from_predicate("a")))
    assert isinstance(model.param("a").reparameterization(), Lora)
    assert model.param("b").reparameterization() is None
    assert not model.param("a").base().requires_grad
    assert not model.b.requires_grad
    assert trainable(model) == ["a.lora.a", "a.lora.b"]


@case("lora/valid_folds")
def test_valid_keeps_adapters_and_materialize_folds_them() -> None:
    model = adapted(network())
    x = torch.randn(2, 4)
    expected = model(x).detach()
    view = valid(model)
    assert [param.path for param in params(view)] == [param.path for param in params(model)]
    assert torch.equal(view(x), expected)
    assert not view(x).requires_grad
    with torch.no_grad():
        param_at(model, "0.weight.lora.b").tensor.normal_()
    assert torch.equal(view(x), model(x))  # one memory

    expected = model(x).detach()
    assert materialize(view) is view
    assert [param.path for param in params(view)] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    torch.testing.assert_close(view(x), expected)
    assert "0.weight.lora.a" in trainable(model)
    assert torch.equal(model(x), expected)


def test_train_tracks_the_factors_and_not_the_base() -> None:
    model = Module()
    model.layer = SimpleLinear()
    view = model.apply_lora(CONFIG).valid()
    assert trainable(view) == []
    assert trainable(view.train()) == ["layer.weight.lora.a", "layer.weight.lora.b"]
    assert trainable(unfreeze(view)) == [param.path for param in params(view)]


def test_folded_weights_keep_id_mappers_and_the_trainability_of_their_base() -> None:
    model = network()
    before = [(param.path, param.id) for param in params(model)]
    param_at(model, "0.weight").with_name("first").load_mapper(torch.neg).save_mapper(torch.neg)
    unfreeze(adapted(model), ParamGroup.from_path("2.weight"))
    effective = [model[0].weight.detach(), model[2].weight.detach()]
    materialize(model)
    assert [(param.path, param.id) for param in params(model)] == before
    assert trainable(model) == ["2.weight"]
    assert param_at(model, "0.weight").name == "first"
    assert torch.equal(model[0].weight, effective[0])
    assert torch.equal(model[2].weight, effective[1])
    assert model[2].weight.is_leaf
    assert type(model[0]) is nn.Linear
    assert list(model.state_dict()) == list(network().state_dict())


def test_only_the_factors_get_gradients_and_move() -> None:
    model = adapted(network())
    before = {param.path: param.tensor.detach().clone() for param in params(model)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    changed = {param.path for param in params(model) if not torch.equal(param.tensor, before[param.path])}
    assert changed == {f"{layer}.weight.lora.{factor}" for layer in (0, 2) for factor in "ab"}


def test_the_optimizer_of_burnlike_keeps_states_of_the_factors_alone() -> None:
    model = adapted(network())
    backend = Autodiff(Cpu())
    optimizer = AdamWConfig().init()
    for _ in range(2):
        loss = BurnTensor(model(torch.randn(8, 4)).square().sum().reshape(1), backend)
        model = optimizer.step(0.1, model, GradientsParams.from_grads(loss.backward(), model))
    kept = {name.partition(".")[0] for name in optimizer.to_record().tensors}
    assert kept == {str(param.id) for param in params(model) if ".lora." in param.path}


def test_gradients_of_the_factors_are_those_of_the_formula() -> None:
    model = adapted(nn.Linear(3, 5, dtype=torch.float64))
    base, a, b = (param_at(model, path).tensor for path in ("weight", "weight.lora.a", "weight.lora.b"))
    x = torch.randn(4, 3, dtype=torch.float64)

    def output(a: Tensor, b: Tensor) -> Tensor:
        names = {"parametrizations.weight.0.a": a, "parametrizations.weight.0.b": b}
        return functional_call(model, names, (x,))

    torch.testing.assert_close(output(a, b), x @ (base + 2 * a @ b).T + model.bias)
    assert torch.autograd.gradcheck(output, (a.detach().requires_grad_(), b.detach().requires_grad_()))


@pytest.mark.parametrize(
    ("base", "dtype", "expected"),
    [
        (torch.bfloat16, None, torch.bfloat16),
        (torch.float64, None, torch.float64),
        (torch.bfloat16, "float32", torch.float32),
        (torch.float8_e4m3fn, None, torch.float32),
    ],
)
def test_the_factors_dtype_is_that_of_the_effective_weight(
    base: torch.dtype, dtype: Any, expected: torch.dtype
) -> None:
    holder = Module()
    holder.weight = nn.Parameter(torch.ones(4, 3).to(base), requires_grad=False)
    adapted(holder, CONFIG.replace(dtype=dtype))
    assert {param.tensor.dtype for param in params(holder)[1:]} == {expected}
    assert holder.weight.dtype == expected
    lora = holder.param("weight").reparameterization()
    effective = torch.ones(4, 3) + 2.0 * (lora.a.float() @ lora.b.float())
    torch.testing.assert_close(holder.weight.float(), effective, rtol=0, atol=0.05 if expected.itemsize == 2 else 1e-6)
    assert holder.materialize().weight.dtype == expected


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, indices: Tensor) -> Tensor:
        return self.head(self.embedding(indices))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def float_input() -> Tensor:
    return torch.randn(2, 5, 4)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], list[str]]] = {
    "linear": (lambda: nn.Linear(4, 3), float_input, ["weight"]),
    "row linear": (lambda: LinearConfig(d_input=4, d_output=3).init(), float_input, ["weight"]),
    "embedding": (lambda: nn.Embedding(7, 4), lambda: torch.arange(7), ["weight"]),
    "tied": (Tied, lambda: torch.arange(7), ["embedding.weight"]),
    "attention": (Attention, float_input, ["attention.in_proj_weight", "attention.out_proj.weight"]),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        float_input,
        ["self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"],
    ),
    "recurrent": (Recurrent, float_input, ["lstm.weight_ih_l0", "lstm.weight_hh_l0"]),
    "conv": (
        lambda: nn.Sequential(nn.Conv1d(5, 2, 3), nn.Flatten(), nn.Linear(4, 3)),
        float_input,
        ["2.weight"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_every_layer_computes_with_the_effective_weight(name: str, training: bool) -> None:
    make, make_input, expected = MODELS[name]
    model = make().train(training)
    plain, x = copy.deepcopy(model), make_input()
    output = model(x).detach()
    apply_lora(model, CONFIG)
    assert [
        param.path for param in params(model) if param.reparameterization() is not None and "lora" not in param.path
    ] == expected
    torch.testing.assert_close(model(x).detach(), output)

    torch.nn.init.normal_(param_at(model, f"{expected[-1]}.lora.b").tensor)
    assert not torch.allclose(model(x), output)
    with torch.no_grad():
        for path in expected:
            param_at(plain, path).tensor.copy_(param_at(model, path).val())
    torch.testing.assert_close(model(x), plain(x))
    model(x).sum().backward()
    assert {param.path for param in params(model) if param.tensor.grad is not None} == set(trainable(model))
    assert len(trainable(model)) == 2 * len(expected)

    copied = copy.deepcopy(model)
    torch.testing.assert_close(copied(x), plain(x))
    torch.testing.assert_close(materialize(valid(model)).train(training)(x), plain(x))
    torch.testing.assert_close(materialize(copied)(x), plain(x))


def test_compiled_in_one_graph() -> None:
    model = adapted(network())
    x = torch.randn(2, 4)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    with torch.no_grad():
        param_at(model, "0.weight.lora.b").tensor.normal_()
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert param_at(compiled, "0.weight.lora.a").tensor.grad is not None


def test_applied_to_a_compiled_module_and_folded_in_it() -> None:
    model = network()
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(2, 4)
    compiled(x)
    assert adapted(compiled) is compiled
    torch.testing.assert_close(compiled(x), model(x))
    expected = model(x).detach()
    materialize(compiled)
    torch.testing.assert_close(compiled(x), expected)


def test_under_autocast() -> None:
    model = adapted(network())
    x = torch.randn(2, 4)
    expected = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.1)
    output.float().sum().backward()
    assert param_at(model, "0.weight.lora.a").tensor.grad.dtype == torch.float32


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_ddp_reduces_the_gradients_of_the_factors(one_rank: None) -> None:
    model = adapted(network())
    wrapped = DistributedDataParallel(model)
    reduced: list[Tensor] = []

    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        reduced.extend(bucket.parameters())
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    wrapped.register_comm_hook(None, hook)
    wrapped(torch.randn(2, 4)).sum().backward()
    assert {id(tensor) for tensor in reduced} == {id(p.tensor) for p in params(model) if ".lora." in p.path}
    assert [param.path for param in params(wrapped)] == [param.path for param in params(model)]


def test_not_changed_under_ddp(one_rank: None) -> None:
    wrapped = DistributedDataParallel(network())
    before = state(wrapped)
    with pytest.raises(ModuleTreeError, match=r"wrapped by DistributedDataParallel.*before wrapping"):
        apply_lora(wrapped, CONFIG)
    assert state(wrapped) == before

    wrapped = DistributedDataParallel(adapted(network()))
    with pytest.raises(ModuleTreeError, match=r"materialize\(valid\(module\)\)"):
        materialize(wrapped)
    x = torch.randn(2, 4)
    torch.testing.assert_close(materialize(valid(wrapped))(x), wrapped(x).detach())


def test_sharded_with_its_adapters_but_not_changed_then(one_rank: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    plain = adapted(network())
    model = copy.deepcopy(plain)
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    x = torch.randn(2, 4)
    torch.testing.assert_close(model(x), plain(x))
    model(x).sum().backward()
    assert [param.path for param in params(model)] == [param.path for param in params(plain)]
    assert {param.path for param in params(model) if param.tensor.grad is not None} == set(trainable(plain))
    for change in (materialize, lambda module: apply_lora(module, CONFIG)):
        with pytest.raises(ModuleTreeError, match="Sequential is sharded by fully_shard"):
            change(model)
    with pytest.raises(ModuleTreeError, match=r"'weight' is sharded \(DTensor\)|sharded by fully_shard"):
        apply_lora(fully_shard(nn.Sequential(nn.Linear(2, 2)), mesh=mesh)[0], CONFIG)


def test_moving_and_forking_take_the_factors_along() -> None:
    model = adapted(network())
    forked = fork(model, "cpu")
    assert [(param.path, param.id) for param in params(forked)] == [(param.path, param.id) for param in params(model)]
    x = torch.randn(2, 4)
    torch.testing.assert_close(forked(x), model(x))
    with torch.no_grad():
        param_at(forked, "0.weight.lora.a").tensor.zero_()
    assert not torch.allclose(forked(x), model(x))
    assert {param.tensor.device.type for param in params(to_device(model, "meta"))} == {"meta"}


def test_records_hold_base_and_factors_by_path(tmp_path: Any) -> None:
    model, target = adapted(network()), apply_lora(network(), CONFIG)
    x = torch.randn(2, 4)
    save(model, tmp_path / "lora.safetensors")
    report = load(target, tmp_path / "lora.safetensors")
    assert report.applied[:3] == ["0.weight", "0.weight.lora.a", "0.weight.lora.b"]
    assert torch.equal(target(x), model(x))
    assert [param.id for param in params(target)] == [param.id for param in params(model)]
    assert trainable(target) == trainable(model)


def test_a_record_of_the_base_alone_or_of_the_factors_alone() -> None:
    base, model = network(), adapted(network())
    x = torch.randn(2, 4)
    factors = Record.from_module(model, ParamGroup.from_predicate(".lora."))
    assert sorted(factors.tensors) == [f"{layer}.weight.lora.{factor}" for layer in (0, 2) for factor in "ab"]
    target = apply_lora(network(), CONFIG)
    report = Record.from_module(base).load_into(target, strict=False)
    assert report.missing == sorted(factors.tensors)
    assert torch.equal(target(x), base(x))
    assert factors.load_into(target, strict=False).unexpected == []
    for param in params(target):
        source = model if ".lora." in param.path else base
        assert torch.equal(param.tensor, param_at(source, param.path).tensor)


def test_a_module_takes_part_of_its_record_by_method() -> None:
    model = SimpleLinear().apply_lora(CONFIG)
    assert list(model.into_record(ParamGroup.from_predicate(".lora.")).tensors) == ["weight.lora.a", "weight.lora.b"]
    with pytest.raises(ParamPathError, match=r"no parameter 'weight\.lora\.c'; did you mean"):
        model.into_record(ParamGroup.from_path("weight.lora.c"))


def test_built_from_a_record_without_initializing() -> None:
    model = adapted(network())
    x = torch.randn(2, 4)
    made = init_from(lambda: apply_lora(network(), CONFIG), Record.from_module(model))
    assert torch.equal(made(x), model(x))
    assert trainable(made) == trainable(model)


def test_a_lazy_base_stays_lazy_until_it_is_used() -> None:
    calls = []

    class Model(Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Param.uninitialized(lambda device: calls.append(1) or torch.ones(3, 2), [3, 2])

    model = Model().apply_lora(CONFIG)
    assert not calls
    assert not model.param("weight").is_initialized()
    assert torch.equal(model.weight, torch.ones(3, 2))
    assert calls == [1]
    assert trainable(model) == ["weight.lora.a", "weight.lora.b"]


def test_a_second_call_adapts_more_and_leaves_the_first_adapters_trainable() -> None:
    model = network()
    apply_lora(model, CONFIG.replace(param_group=ParamGroup.from_path("0.weight")))
    apply_lora(model, CONFIG.replace(rank=1, param_group=ParamGroup.from_path("2.weight")))
    assert trainable(model) == [f"{layer}.weight.lora.{factor}" for layer in (0, 2) for factor in "ab"]
    assert param_at(model, "2.weight.lora.a").tensor.shape == (3, 1)


def test_ranks_above_the_dimensions_are_allowed_as_in_burn() -> None:
    model = apply_lora(nn.Linear(4, 1), LoraConfig(rank=8, alpha=8.0))
    assert param_at(model, "weight.lora.a").tensor.shape == (1, 8)


@pytest.mark.parametrize(
    ("make", "group", "error", "message"),
    [
        (
            network,
            ParamGroup.from_predicate("bias"),
            ModuleTreeError,
            r"Sequential gets an adapter.*'0\.weight', '2\.weight'",
        ),
        (
            lambda: nn.Conv2d(1, 1, 2),
            ParamGroup.all(),
            ModuleTreeError,
            "Conv2d gets an adapter.*of rank 2 there are none",
        ),
        (
            network,
            ParamGroup.from_path("0.wieght"),
            ParamPathError,
            r"no parameter '0\.wieght'; did you mean '0\.weight'",
        ),
        (
            lambda: adapted(network()),
            ParamGroup.all(),
            ModuleTreeError,
            r"'0\.weight' is reparameterized already, by Lora",
        ),
        (lambda: adapted(network()), ParamGroup.from_predicate(".lora."), ModuleTreeError, "gets an adapter"),
        (
            lambda: nn.utils.parametrizations.orthogonal(nn.Linear(2, 2)),
            ParamGroup.all(),
            ModuleTreeError,
            r"'parametrizations\.weight\.original' belongs to a parametrization of torch",
        ),
    ],
)
def test_what_can_not_be_adapted_is_left_as_it_was(
    make: Callable[[], nn.Module], group: ParamGroup, error: type[Exception], message: str
) -> None:
    model = make()
    before = state(model)
    with pytest.raises(error, match=message):
        apply_lora(model, CONFIG.replace(param_group=group))
    assert state(model) == before


@pytest.mark.parametrize("field", [{"rank": 0}, {"alpha": 0.0}, {"init_std": -1.0}, {"dtype": "int8"}])
def test_settings_out_of_range_are_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(field))):
        LoraConfig(**{"rank": 2, "alpha": 4.0, **field})


def test_the_config_is_read_from_yaml_without_torch() -> None:
    text = "rank: 8\nalpha: 16\nparam_group:\n  match: [{type: Predicates, predicates: [attention]}]\n"
    config = LoraConfig.from_yaml(text)
    assert LoraConfig.from_yaml(config.to_yaml()) == config
    assert config.param_group == ParamGroup.from_predicate("attention")
    program = "import sys, burnlike.module.groups.param_group; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_freezing_everything_again_freezes_the_factors() -> None:
    assert trainable(freeze(adapted(network()))) == []


def test_the_class_goes_by_its_own_name() -> None:
    model = adapted(SimpleLinear())
    assert repr(model).startswith("SimpleLinear {")
    with pytest.raises(ParamPathError, match=r"^SimpleLinear has no parameter"):
        param_at(model, "nothing")
    assert "Parametrized" not in repr(adapted(network()))
