"""Modules of torch's layers become burnlike's and come back; Burn's files and records in torch's names."""

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import Module, nn as layers
from burnlike.errors import ModuleTreeError, NoCounterpartError, RecordMismatchError
from burnlike.interop import from_torch, record_from_torch, to_torch
from burnlike.interop.torch_counterparts import of_burnlike, of_torch
from burnlike.module import Param, ParamId, params
from burnlike.record import Record
from tests.golden.contents import transposed_paths
from tests.golden.files import RecordFile, files_of
from tests.golden.folder import Golden, read_folder
from tests.golden.modules import built, types_of
from tests.golden.numbers import bits, check_close, tensor_of


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


FOLDER = Path(__file__).parents[1] / "golden"


def has_twin(golden: Golden) -> bool:
    config = golden.values.get("config")
    if not isinstance(config, Mapping) or "inputs" not in golden.values:
        return False
    return all(getattr(layers, name) in of_burnlike() for name in types_of(config))


GOLDENS = [golden for version in ("v0.21", "v0.22") for golden in read_folder(FOLDER / version) if has_twin(golden)]
FILES = [file for golden in GOLDENS for file in files_of(golden)]
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.golden.folder.name}/{file.name}")


def filled(file: RecordFile) -> nn.Module:
    module = built(file.golden.values["config"])
    file.record.load_into(module, dtype="as_saved" if file.precision == "as it is" else "module")
    return module


def inputs_of(golden: Golden) -> dict[str, Tensor]:
    found = {name: tensor_of(it) for name, it in golden.values["inputs"].items() if isinstance(it, Mapping)}
    return {name: it.long() if it.dtype == torch.int32 else it for name, it in found.items()}


def outputs_of(module: Any, golden: Golden) -> dict[str, Tensor]:
    """What torch's module computes, under Burn's names."""
    inputs = inputs_of(golden)
    x = next(iter(inputs.values()))
    if isinstance(module, nn.RNNBase):
        output, state = module(x)
        if isinstance(module, nn.GRU) and not module.bidirectional:  # of which Burn returns no state
            return {"output": output}
        states: tuple[Tensor, ...] = state if isinstance(state, tuple) else (state,)
        names = ("hidden", "cell") if len(states) > 1 else ("state",)
        states = states if module.bidirectional else tuple(it.squeeze(0) for it in states)
        return {"output": output, **dict(zip(names, states, strict=True))}
    if isinstance(module, nn.MultiheadAttention):
        named: dict[str, Any] = {}
        if "mask_attn" in inputs:
            named["attn_mask"] = inputs["mask_attn"].repeat_interleave(module.num_heads, 0)
            named["key_padding_mask"] = inputs["mask_pad"]
        query, key, value = (inputs.get(name, x) for name in ("query", "key", "value"))
        output, weights = module(query, key, value, average_attn_weights=False, **named)
        return {"context": output, "weights": weights}
    if isinstance(module, nn.TransformerDecoder):
        return {"output": module(inputs["target"], inputs["memory"])}
    if isinstance(module, nn.BatchNorm2d | nn.InstanceNorm2d):  # of rank 4, for one of rank 3
        return {"output": module(x[..., None])[..., 0]}
    if type(module).__module__.startswith("torch."):
        return {"output": module(x)}
    for layer in module.children():
        x = layer(x.flatten(1) if isinstance(layer, nn.Linear) else x)
    return {"output": x}


@each_file
def test_torch_computes_what_burn_did(file: RecordFile) -> None:
    golden = file.golden
    module = filled(file)
    theirs = to_torch(module)
    outputs = outputs_of(theirs, golden)
    expected = {name: tensor_of(it) for name, it in golden.values["outputs"].items() if not name.endswith("_after")}
    assert outputs.keys() == expected.keys()
    if file.precision == "half":
        return
    for name, tensor in expected.items():
        check_close(outputs[name], tensor, name, rtol=1e-5)
    grads = {it["path"]: tensor_of(it) for it in golden.values.get("grads", []) if it.get("values") is not None}
    if not grads or (golden.is_burn_0_21 and "transformer" in golden.name):  # of GELU's approximation
        return
    sum((weighted(outputs[name]) for name in expected), torch.zeros(())).backward()
    found = gradients(module, theirs)
    for path, tensor in grads.items():
        grad = found[path].mT if path in transposed_paths(golden.values["config"]) else found[path]
        check_close(grad, tensor, f"the gradient of {path}", rtol=1e-4)


def weighted(output: Tensor) -> Tensor:
    flat = output.flatten()
    return (flat * torch.tensor([((i % 7) - 3) / 4 + 0.125 for i in range(flat.numel())])).sum()


def gradients(module: nn.Module, theirs: nn.Module) -> dict[str, Tensor]:
    """The gradients of torch's parameters by the paths of burnlike's, in burnlike's layouts."""
    state = {name: it.grad for name, it in theirs.named_parameters() if it.grad is not None}
    rest = {name: torch.zeros_like(it) for name, it in theirs.state_dict().items() if name not in state}
    return dict(record_from_torch(module, {**state, **rest}).tensors)


@each_file
def test_the_file_written_from_what_came_back_is_the_same(file: RecordFile) -> None:
    module = filled(file)
    back = from_torch(to_torch(module))
    if file.golden.name == "linear_col":  # torch has one layout, which comes back as Burn's default
        assert torch.equal(back.weight, module.get_parameter("weight"))
        return
    if file.recorder_text == "SafetensorsStore":  # burn-store writes metadata of its own, and no ids
        found = Record.from_module(back)
        for name, tensor in file.record.tensors.items():
            assert torch.equal(bits(found.tensors[name]), bits(tensor))
        return
    file.check_rewritten(Record.from_module(back), file.stored_precision())


def test_layers_of_many_families_are_tested() -> None:
    names = {golden.name for golden in GOLDENS if golden.folder.name == "v0.22"}
    assert names >= {"linear", "conv2d", "conv_transpose3d", "embedding", "batch_norm", "group_norm", "prelu", "net"}
    assert names >= {
        "rnn",
        "bigru",
        "lstm",
        "bilstm",
        "mha",
        "mha_masked",
        "transformer_encoder",
        "transformer_decoder",
    }


class TiedTables(Module):
    def __init__(self, device: str | None = None) -> None:
        super().__init__()
        self.first = layers.LinearConfig(d_input=2, d_output=2, layout="col").init(device)
        self.second = layers.LinearConfig(d_input=2, d_output=2, bias=False).init(device)
        self.second.weight = self.first.weight


def test_a_column_layout_and_tied_tensors() -> None:
    weight = torch.randn(2, 2)
    state = {"first.weight": weight, "first.bias": torch.zeros(2), "second.weight": weight}
    record = record_from_torch(TiedTables("meta"), state)
    assert record.aliases == {"second.weight": "first.weight"}
    model = TiedTables()
    record.load_into(model)
    assert torch.equal(model.first.weight, weight.mT)
    assert record_from_torch(TiedTables(), {name: state[name] for name in ("first.weight", "first.bias")}).aliases
    state["second.weight"] = torch.zeros(2, 2)
    with pytest.raises(RecordMismatchError, match=r"mismatched: second.weight: .*, tied to it, got other values"):
        record_from_torch(TiedTables(), state)


def test_whole_numbers_in_place_of_floats_do_not_fit() -> None:
    module = layers.LinearConfig(d_input=2, d_output=2, bias=False).init()
    with pytest.raises(RecordMismatchError, match=r"weight: expected float32 \[2, 2\], got int64 \[2, 2\]"):
        record_from_torch(module, {"weight": torch.zeros(2, 2, dtype=torch.int64)})


def test_what_module_is_made_of_may_be_the_users() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.linear = layers.LinearConfig(d_input=2, d_output=1, bias=False).init()
            self.register_buffer("table", torch.zeros(3), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x * self.scale)

    record = record_from_torch(Scaled(), {"scale": torch.zeros(2), "linear.weight": torch.ones(1, 2)})
    assert {name: list(it.shape) for name, it in record.tensors.items()} == {"scale": [2], "linear.weight": [2, 1]}
