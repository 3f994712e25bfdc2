"""Modules of torch's layers become modules of burnlike's layers, and come back as they were."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.errors import ModuleTreeError, NoCounterpartError
from burnlike.interop import from_torch, to_torch
from burnlike.interop.torch_counterparts import of_burnlike, of_torch
from burnlike.module import Param, ParamId, params


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def assert_same_state(one: nn.Module, other: nn.Module) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == second[name].dtype
        assert tensor.device == second[name].device
        assert torch.equal(tensor, second[name]), name


def classes_of(module: nn.Module) -> list[tuple[str, str]]:
    return [(path, type(part).__name__) for path, part in module.named_modules()]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, 2.0]))
        self.register_buffer("shift", torch.ones(2), persistent=False)
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, bias=False)])
        self.named = nn.ModuleDict({"last": nn.Sequential(nn.Identity(), nn.Linear(2, 3), nn.Flatten(1))})
        self.order = [self.layers[1], self.layers[0]]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.order:
            x = layer(x) * self.scale + self.shift
        return self.named["last"](x)


def test_a_layer_becomes_its_twin() -> None:
    layer = nn.Linear(3, 2).double()
    twin = from_torch(layer)
    assert type(twin) is layers.Linear
    assert torch.equal(twin.weight, layer.weight.mT)
    assert twin.weight.is_contiguous()
    x = torch.randn(5, 3, dtype=torch.float64)
    assert torch.equal(twin(x), layer(x)) or torch.allclose(twin(x), layer(x), rtol=1e-14)
    back = to_torch(twin)
    assert type(back) is nn.Linear
    assert_same_state(back, layer)


def test_the_users_classes_keep_their_forward() -> None:
    torch.manual_seed(0)
    model = Mlp().double()
    before, layout = state_of(model), classes_of(model)
    twin = from_torch(model)
    assert type(twin) is Mlp
    assert isinstance(twin.layers[0], layers.Linear)
    assert twin.order[0] is twin.layers[1]
    x = torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-14, atol=0)
    assert classes_of(model) == layout
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    theirs = {it.data_ptr() for it in (*model.parameters(), *model.buffers())}
    assert theirs.isdisjoint({it.data_ptr() for it in (*twin.parameters(), *twin.buffers())})
    back = to_torch(twin)
    assert classes_of(back) == layout
    assert_same_state(back, model)
    assert torch.equal(back(x), model(x))


def test_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    model = Mlp().double()
    twin = from_torch(model)
    x = torch.randn(4, 2, dtype=torch.float64)
    for module in (model, twin):
        module(x).square().sum().backward()
    found, expected = twin.layers[0].weight.grad, model.get_parameter("layers.0.weight").grad
    assert expected is not None
    torch.testing.assert_close(found, expected.mT, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(twin.scale.grad, model.scale.grad, rtol=1e-12, atol=1e-12)


def test_what_is_kept_of_tensors_and_modes() -> None:
    model = nn.Sequential(
        nn.Linear(2, 3).to(torch.bfloat16), nn.Sequential(nn.Linear(3, 1)), nn.Linear(2, 2, device="meta")
    )
    model[0].bias.requires_grad_(False)
    model[1].eval()
    for module in (from_torch(model), to_torch(from_torch(model))):
        assert [it.requires_grad for it in module.parameters()] == [it.requires_grad for it in model.parameters()]
        assert [it.dtype for it in module.parameters()] == [it.dtype for it in model.parameters()]
        assert [it.device for it in module.parameters()] == [it.device for it in model.parameters()]
        assert [it.training for it in module.modules()] == [it.training for it in model.modules()]


def test_no_random_number_is_drawn() -> None:
    model = Mlp()
    state = torch.get_rng_state()
    to_torch(from_torch(model))
    assert torch.equal(torch.get_rng_state(), state)


def test_ids_are_kept() -> None:
    model = Mlp()
    ids = {param.path: param.id for param in params(model)}
    twin = from_torch(model)
    assert {param.path: param.id for param in params(twin)} == ids
    assert {param.path: param.id for param in params(to_torch(twin))} == ids


def test_a_module_without_ids_gets_none() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    twin = from_torch(model)
    assert "_burnlike" not in model[0].__dict__
    assert len({param.id for param in params(twin)}) == 2


def test_labels_and_intents_are_kept() -> None:
    model: Any = layers.LinearConfig(d_input=2, d_output=2).init()
    model.weight = Param.from_tensor(torch.zeros(2, 2), name="decayed", id=ParamId(7))
    (param, _) = params(to_torch(model.valid()))
    assert (param.name, param.id, param.trainable, param.tensor.requires_grad) == ("decayed", ParamId(7), True, False)


def test_tied_layers_and_tensors_stay_tied() -> None:
    shared = nn.Linear(2, 2)
    other = nn.Linear(2, 2)
    other.weight = shared.weight
    model = nn.Sequential(shared, nn.Sequential(shared, other))
    for module in (twin := from_torch(model), to_torch(twin)):
        assert module[0] is module[1][0]
        assert module[1][1].weight is module[0].weight
        assert [param.aliases for param in params(module)] == [param.aliases for param in params(model)]
    params(model)
    ids = [param.id for param in params(from_torch(model))]
    assert ids == [param.id for param in params(model)]


class Tied(nn.Module):
    """A program that has a tensor of a layer beside the layer."""

    def __init__(self, layer: nn.Module, register: bool) -> None:
        super().__init__()
        self.layer = layer
        if register:
            self.weight = layer.weight
        else:
            self.kept = [layer.bias]


def test_a_tensor_of_a_layer_that_the_program_has_too() -> None:
    twin = from_torch(Tied(nn.Linear(2, 2), register=False))
    assert twin.kept[0] is twin.layer.bias
    with pytest.raises(NoCounterpartError, match="'weight', but burnlike has them in two layouts; untie"):
        from_torch(Tied(nn.Linear(2, 2), register=True))


def test_all_that_has_no_counterpart_is_in_one_error() -> None:
    class Scaled(nn.Linear):
        pass

    model = nn.ModuleDict({
        "fine": nn.Linear(2, 2),
        "unknown": nn.Sequential(nn.Bilinear(2, 2, 2), nn.Dropout2d()),
        "own": Scaled(2, 2),
        "lazy": nn.LazyLinear(2),
        "hooked": nn.Linear(2, 2),
        "normed": nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        "wrapped": nn.DataParallel(nn.Linear(2, 2)),
    })  # fmt: skip
    model["hooked"].register_forward_hook(lambda *args: None)
    with pytest.raises(NoCounterpartError, match="nothing was converted") as caught:
        from_torch(model)
    assert [path for path, _ in caught.value.problems] == [
        "unknown.0 (Bilinear)",
        "unknown.1 (Dropout2d)",
        "own (Scaled)",
        "lazy (LazyLinear)",
        "hooked (Linear)",
        "normed (Linear)",
        "wrapped (DataParallel)",
    ]
    for path, reason in caught.value.problems:
        assert f"  {path}: {reason}" in str(caught.value)


@pytest.mark.parametrize("convert", [from_torch, to_torch])
def test_a_buffer_that_was_added_to_a_layer_is_named(convert: Callable[[nn.Module], Any]) -> None:
    layer = nn.Linear(2, 2) if convert is from_torch else layers.LinearConfig(d_input=2, d_output=2).init()
    layer.register_buffer("mask", torch.ones(2))
    with pytest.raises(NoCounterpartError, match="Linear: 'mask' was added to it"):
        convert(layer)


def test_a_part_of_a_layer_that_is_the_users_is_refused() -> None:
    class Projection(nn.modules.linear.NonDynamicallyQuantizableLinear):
        pass

    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    layer.out_proj = Projection(4, 4)
    with pytest.raises(NoCounterpartError, match="a part of it, Projection, may compute"):
        from_torch(layer)


def test_a_layer_by_itself_names_itself() -> None:
    with pytest.raises(NoCounterpartError, match=r"(?m)^  Dropout2d: burnlike has no such layer"):
        from_torch(nn.Dropout2d())
    with pytest.raises(NoCounterpartError, match=r"(?m)^  SwiGlu: torch\.nn has no such layer"):
        to_torch(layers.SwiGluConfig(d_input=2, d_output=2).init())


def test_a_module_that_holds_itself_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model.add_module("again", model)
    with pytest.raises(ModuleTreeError, match="hold itself"):
        from_torch(model)


def test_the_copy_can_be_copied_and_pickled() -> None:
    twin = from_torch(Mlp())
    for module in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
        assert_same_state(to_torch(module), to_torch(twin))


def test_every_pair_is_of_a_class_of_burnlike() -> None:
    assert {it.__name__ for it in of_burnlike()} == {it.layer for pairs in of_torch().values() for it in pairs}


def test_code_that_torch_recorded_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(NoCounterpartError, match="Recorded: burnlike has no such layer"):
        from_torch(torch.fx.GraphModule(model, torch.fx.symbolic_trace(model).graph, "Recorded"))


def test_what_computes_with_any_layers_stays() -> None:
    averaged = from_torch(torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2)))
    assert isinstance(averaged.module, layers.Linear)
    kept = to_torch(
        nn.Sequential(layers.SoftmaxConfig(dim=1).init(), layers.LinearConfig(d_input=2, d_output=2).init())
    )
    assert [type(it) for it in kept] == [layers.Softmax, nn.Linear]
    with pytest.raises(NoCounterpartError, match=r"\(SwiGlu\): torch.nn has no such layer"):
        to_torch(nn.Sequential(layers.SwiGluConfig(d_input=2, d_output=2).init()))


def test_a_decoder_names_its_layers_without_a_counterpart() -> None:
    config = layers.DecoderLmConfig(vocab_size=8, max_sequence_length=4, d_model=8, n_layers=1, n_heads=2, d_ff=8)
    with pytest.raises(NoCounterpartError, match=r"blocks.0.attention \(CausalAttention\)"):
        to_torch(config.init())
