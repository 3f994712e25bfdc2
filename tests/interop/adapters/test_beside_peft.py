"""What trains adapters beside peft, in float64: rates of LoRA+, biases, and first values."""

import copy
import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from peft.optimizers import create_loraplus_optimizer
from torch import Tensor, nn

from burnlike.errors import ArgumentError, ModuleTreeError, RecordFormatError
from burnlike.interop import load_adapter, merge_adapters, save_adapter
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters, first_factors
from burnlike.interop.adapters.layers import select, select_experts
from burnlike.models import LoRAConfig, PretrainedConfig
from burnlike.module import ParamGroup
from burnlike.module.adapters.layers import adapters_off
from burnlike.optim import AdamWConfig, GradientsParams, OptimizerGroupConfig
from burnlike.record import open_record
from burnlike.train import LanguageModelConfig

from ...models.by_path.directories import SIZES, VOCABULARY, saved

X = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
pytestmark = pytest.mark.filterwarnings("ignore")  # of peft


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4)).double()


def trained_by_peft(**options: Any) -> Any:
    return peft.get_peft_model(network(), peft.LoraConfig(r=2, lora_alpha=6, target_modules=["0"], **options))


def stepped(model: Any, take: Any) -> None:
    for _ in range(3):
        model(X).square().sum().backward()
        take()


def test_groups_of_an_optimizer_are_the_rates_of_lora_plus(tmp_path: Path) -> None:
    theirs = trained_by_peft()
    theirs.save_pretrained(str(tmp_path))
    ours = network()
    load_adapter(ours, tmp_path)
    options = {"lr": 0.01, "loraplus_lr_ratio": 8.0, "loraplus_weight_decay": 0.1, "eps": 1e-5}
    optimizer = create_loraplus_optimizer(theirs, torch.optim.AdamW, **options)
    b = OptimizerGroupConfig(params=ParamGroup.from_regex(r"\.lora\.b$"), lr_factor=8.0)
    mine = AdamWConfig(weight_decay=0.1, epsilon=1e-5, groups=(b,)).init()

    def step() -> None:
        mine.step(0.01, ours, GradientsParams.from_module(ours))
        ours.zero_grad()

    stepped(ours, step)
    stepped(theirs, lambda: (optimizer.step(), optimizer.zero_grad()))
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-11, atol=0)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("bias", ["none", "lora_only", "all"])
def test_biases_are_read_trained_and_written_as_by_peft(tmp_path: Path, bias: str, dora: bool) -> None:
    theirs = trained_by_peft(bias=bias, use_dora=dora)
    stepped(theirs, lambda: None)
    with torch.no_grad():
        for it in theirs.parameters():
            it.add_(0.1 * it.grad if it.requires_grad else 0.0)
    theirs.save_pretrained(str(tmp_path / "theirs"))
    ours = network()
    load_adapter(ours, tmp_path / "theirs")
    names = {"none": [], "lora_only": ["0.bias"], "all": ["0.bias", "1.bias", "3.bias"]}[bias]
    assert [name for name, it in ours.named_parameters() if it.requires_grad and name.endswith("bias")] == names
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-12, atol=0)
    theirs.zero_grad()
    for one in (theirs, ours):
        one(X).square().sum().backward()
    for name in names:
        wrapped = f"base_model.model.{name}".replace(".0.bias", ".0.base_layer.bias")
        expected = theirs.get_parameter(wrapped).grad
        torch.testing.assert_close(ours.get_parameter(name).grad, expected, rtol=1e-12, atol=1e-13)
    save_adapter(ours, tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / "adapter_config.json").read_text())["bias"] == bias
    again = peft.PeftModel.from_pretrained(network(), tmp_path / "ours")
    torch.testing.assert_close(again(X), theirs(X), rtol=1e-12, atol=0)
    torch.testing.assert_close(merge_adapters(copy.deepcopy(ours))(X), theirs(X), rtol=1e-12, atol=0)
    load_adapter(ours, tmp_path / "theirs")  # the same adapters, which it has


def test_biases_that_a_model_freezes_are_not_read_into_it(tmp_path: Path) -> None:
    trained_by_peft(bias="all").save_pretrained(str(tmp_path))
    model = network()
    add_adapters(model, dict.fromkeys(select(model, ("0",)).values(), AdapterOptions(2, 6)), bias="lora_only")
    with pytest.raises(ModuleTreeError, match=r"trains '1\.bias', which the model freezes: set its bias to all"):
        load_adapter(model, tmp_path)
    model[3].bias.requires_grad_(True)
    with pytest.raises(ModuleTreeError, match=r"'0\.bias' is trained, and others"):
        save_adapter(model, tmp_path / "other")


def weight_and_layer() -> tuple[Tensor, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 10))
    weight = model[0].weight.detach().clone()
    config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=["0"])
    return weight, peft.get_peft_model(model, config).base_model.model[0]


@pytest.mark.parametrize("start", ["pissa", "olora", "pissa_niter_2"])
def test_starts_of_weights_are_those_of_peft(start: str) -> None:
    weight, layer = weight_and_layer()
    torch.manual_seed(1)
    layer.olora_init("default") if start == "olora" else layer.pissa_init("default", start)
    torch.manual_seed(1)
    down, up = first_factors(start, weight, 4, 3.0)
    torch.testing.assert_close(down, layer.lora_A.default.weight.detach(), rtol=0, atol=1e-6)
    torch.testing.assert_close(up, layer.lora_B.default.weight.detach(), rtol=0, atol=1e-6)
    torch.testing.assert_close(weight - 3 * up @ down, layer.base_layer.weight.detach(), rtol=0, atol=1e-6)


def test_orthogonal_matrices_are_those_of_peft_and_multiply_to_0() -> None:
    weight, layer = weight_and_layer()
    torch.manual_seed(1)
    layer.orthogonal_init("default")
    torch.manual_seed(1)
    down, up = first_factors("orthogonal", weight, 4, 3.0)
    assert torch.equal(down, layer.lora_A.default.weight)
    assert torch.equal(up, layer.lora_B.default.weight)
    assert (up @ down).abs().max() < 1e-7
    with pytest.raises(ArgumentError, match="expected an even rank for orthogonal, got 3"):
        first_factors("orthogonal", weight, 3, 3.0)


@pytest.mark.parametrize("start", ["gaussian", "orthogonal", "pissa", "olora", "pissa_niter_2"])
@pytest.mark.parametrize("options", [{}, {"dora": True}, {"rslora": True}])
def test_no_start_changes_what_a_model_computes(start: str, options: Any, tmp_path: Path) -> None:
    base, model = network(), network()
    add_adapters(model, dict.fromkeys(select(model, ("0", "3")).values(), AdapterOptions(2, 6, start=start, **options)))
    torch.testing.assert_close(model(X), base(X), rtol=1e-12, atol=1e-13)
    is_residual = start not in ("gaussian", "orthogonal")
    assert torch.equal(model[0].parametrizations.weight.original, base[0].weight) != is_residual
    assert (model[0].parametrizations.weight[0].delta() != 0).any() == is_residual or start == "orthogonal"
    if not is_residual:
        return
    with pytest.raises(ModuleTreeError, match="would add them to another base"):
        save_adapter(model, tmp_path)
    if not options.get("dora"):
        with pytest.raises(ModuleTreeError, match="computes as before its training only where"):
            adapters_off(model)
    torch.testing.assert_close(merge_adapters(model)(X), base(X), rtol=1e-12, atol=1e-13)


def test_a_start_that_a_layer_does_not_have_changes_nothing() -> None:
    model = network()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ArgumentError, match=r"'3': start: pissa has at most rank 4 of a weight \[4, 8\], got 5"):
        add_adapters(model, dict.fromkeys(select(model, ("0", "3")).values(), AdapterOptions(5, 6, start="pissa")))
    model[3] = nn.Linear(6, 8).double()
    model[3].weight = model[0].weight
    with pytest.raises(ArgumentError, match="'0' shares its weight with another layer, which olora would change"):
        add_adapters(model, dict.fromkeys(select(model, ("0",)).values(), AdapterOptions(2, 6, start="olora")))
    assert all(torch.equal(it, before[name]) for name, it in model.state_dict().items() if not name.startswith("3"))


@pytest.mark.parametrize("start", ["pissa", "olora"])
def test_what_peft_converted_as_it_saved_it_is_read(tmp_path: Path, start: str) -> None:
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["0"], init_lora_weights=start)
    theirs = peft.get_peft_model(network().float(), config)
    theirs.peft_config["default"].init_lora_weights = True
    theirs.save_pretrained(str(tmp_path / "first"))
    theirs.peft_config["default"].init_lora_weights = start
    optimizer = torch.optim.SGD((it for it in theirs.parameters() if it.requires_grad), lr=0.01)
    theirs(X.float()).square().sum().backward()
    optimizer.step()
    theirs.save_pretrained(str(tmp_path / "raw"))
    ours = network().float()
    with pytest.raises(RecordFormatError, match=f"'{start}' changes the weights of the base: let peft convert"):
        load_adapter(ours, tmp_path / "raw")
    theirs.save_pretrained(str(tmp_path / "out"), path_initial_model_for_weight_conversion=str(tmp_path / "first"))
    load_adapter(ours, tmp_path / "out")
    torch.testing.assert_close(ours(X.float()), theirs(X.float()), rtol=1e-4, atol=1e-5)


class Convolutions(nn.Module):
    """Two convolutions; the kernel of the first is larger than 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.two = nn.Conv2d(3, 6, (3, 2), stride=2, padding=1, **options)
        self.one = nn.Conv1d(6, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.one(self.two(x).tanh().flatten(2))


def test_adapters_of_convolutions_are_those_of_peft(tmp_path: Path) -> None:
    def make() -> Any:
        torch.manual_seed(0)
        return Convolutions().double()

    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["one", "two"], init_lora_weights=False)
    theirs, ours = peft.get_peft_model(make(), config), make()
    theirs.save_pretrained(str(tmp_path / "theirs"))
    load_adapter(ours, tmp_path / "theirs")
    for one in (theirs, ours):
        one(x).square().sum().backward()
    expected = theirs(x)
    torch.testing.assert_close(ours(x), expected, rtol=1e-12, atol=1e-13)
    lora = ours.two.parametrizations.weight[0]
    wrapped = theirs.base_model.model.two
    grad = wrapped.lora_A.default.weight.grad.flatten(1)
    torch.testing.assert_close(lora.a.grad.mT, grad, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(lora.b.grad.mT, wrapped.lora_B.default.weight.grad[..., 0, 0], rtol=1e-10, atol=1e-11)
    save_adapter(ours, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(make(), tmp_path / "ours")
    torch.testing.assert_close(again(x), expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(merge_adapters(ours)(x), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("options", "made", "message"),
    [
        ({"groups": 3}, {}, "has groups, dilation or a padding mode"),
        ({"dilation": 2}, {}, "has groups, dilation or a padding mode"),
        ({"padding_mode": "circular"}, {}, "has groups, dilation or a padding mode"),
        ({}, {"dora": True}, "takes LoRA alone, with the start default"),
        ({}, {"start": "pissa"}, "takes LoRA alone, with the start default"),
        ({}, {"dropout": 0.1}, "reads its weight itself, and takes no dropout"),
    ],
)
def test_convolutions_that_take_no_adapter_are_named(options: Any, made: Any, message: str) -> None:
    model = Convolutions(**options)
    with pytest.raises(ArgumentError, match=f"'two' {message}"):
        add_adapters(model, dict.fromkeys(select(model, ("two",)).values(), AdapterOptions(2, 6, **made)))
    assert not any(it.requires_grad is False for it in model.parameters())


def test_all_linear_means_no_convolutions() -> None:
    model = nn.Sequential(nn.Conv1d(3, 4, 1), nn.Flatten(), nn.Linear(8, 2))
    assert [*select(model, "all-linear")] == ["2"]


MIXTRAL: dict[str, Any] = {"num_local_experts": 3, "num_experts_per_tok": 2, "num_key_value_heads": 1}


def test_all_linear_of_a_mixture_says_what_it_leaves_out(tmp_path: Path) -> None:
    saved(tmp_path / "base", transformers.MixtralForCausalLM, **MIXTRAL)
    model = LoRAConfig(of=PretrainedConfig(path=str(tmp_path / "base")), rank=2).init("cpu")
    (line,) = (it for it in vars(model)["burnlike_origin"] if it.startswith("adapters"))
    assert "; none of the experts' gate_up_proj, down_proj (target_parameters): " in line


def mixture(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "gpt_oss":  # whose experts have [d_input, d_output]
        config: Any = transformers.GptOssConfig(vocab_size=VOCABULARY, head_dim=8, **SIZES, **MIXTRAL)
        model: Any = transformers.GptOssForCausalLM(config)
    else:
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(vocab_size=VOCABULARY, **SIZES, **MIXTRAL))
    with torch.no_grad():
        for it in model.parameters():
            it.copy_(0.3 * torch.randn_like(it))
    model.set_experts_implementation("eager")  # the others have no float64
    return model.double()


@pytest.mark.parametrize("kind", ["mixtral", "gpt_oss"])
@pytest.mark.parametrize("ends", [["gate_up_proj"], ["experts.gate_up_proj", "experts.down_proj"]])
def test_adapters_of_experts_are_those_of_peft(tmp_path: Path, kind: str, ends: list[str]) -> None:
    tokens = torch.arange(12)[None] % VOCABULARY
    options = {"target_modules": ["q_proj"], "target_parameters": ends, "rank_pattern": {}, "init_lora_weights": False}
    theirs, ours = peft.get_peft_model(mixture(kind), peft.LoraConfig(r=2, lora_alpha=6, **options)), mixture(kind)
    before = ours(tokens).logits
    theirs.save_pretrained(str(tmp_path / "theirs"))
    load_adapter(ours, tmp_path / "theirs")
    expected = theirs(tokens).logits
    torch.testing.assert_close(ours(tokens).logits, expected, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(before, expected)
    save_adapter(ours, tmp_path / "ours")
    names = [open_record(tmp_path / each / "adapter_model.safetensors").tensors.keys() for each in ("theirs", "ours")]
    assert {*names[0]} == {*names[1]}
    again = peft.PeftModel.from_pretrained(mixture(kind), tmp_path / "ours")
    torch.testing.assert_close(again(tokens).logits, expected, rtol=1e-9, atol=1e-10)
    for one in (theirs, ours):
        one(tokens).logits.square().sum().backward()
    grads = [{it.grad.norm().item() for it in one.parameters() if it.requires_grad} for one in (theirs, ours)]
    assert sorted(grads[0]) == pytest.approx(sorted(grads[1]), rel=1e-8)
    torch.testing.assert_close(merge_adapters(ours)(tokens).logits, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_of_experts_are_trained_in_fused_models_of_any_type(tmp_path: Path, dtype: Any) -> None:
    saved(tmp_path / "base", transformers.MixtralForCausalLM, **MIXTRAL)
    tokens, found = torch.arange(12)[None] % VOCABULARY, []
    for is_fused in (False, True):
        of = PretrainedConfig(path=str(tmp_path / "base"), dtype=dtype, fuse=is_fused)
        model = LoRAConfig(of=of, rank=2, targets=(), target_parameters=("gate_up_proj", "down_proj")).init("cpu")
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for it in (it for it in model.parameters() if it.requires_grad):
                it.copy_(0.3 * torch.randn(it.shape, generator=generator))
        found.append(LanguageModelConfig().init().train_step(model, tokens).loss)
        found[-1].backward()
        trained = [it for it in model.parameters() if it.requires_grad]
        assert len(trained) == 8
        assert all(it.grad.norm() > 0 for it in trained)
        with torch.no_grad():
            assert merge_adapters(model)(tokens).logits.dtype == getattr(torch, dtype)
    torch.testing.assert_close(*found, rtol=1e-5 if dtype == "float32" else 2e-2, atol=0)


def test_experts_that_are_no_tensor_or_take_more_than_lora_are_named() -> None:
    model = mixture("mixtral")
    with pytest.raises(ModuleTreeError, match=r"no weights of experts 'w1'; there are gate_up_proj, down_proj"):
        select_experts(model, ["w1"])
    layers = select_experts(model, ["down_proj"]).values()
    for options in ({"dora": True}, {"start": "pissa"}):
        with pytest.raises(ArgumentError, match="takes LoRA alone, with the start default"):
            add_adapters(model, dict.fromkeys(layers, AdapterOptions(2, 6, **options)))
    with pytest.raises(ArgumentError, match="dropout"):
        add_adapters(model, dict.fromkeys(layers, AdapterOptions(2, 6, 0.1)))
    assert all(it.requires_grad for it in model.parameters())
