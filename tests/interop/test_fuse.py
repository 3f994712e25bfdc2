"""Native ops in stock models: the same results, names, hooks and ids, and all of it undone by `unfuse`."""

import copy
import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import burnlike as bl
from burnlike.errors import ModuleTreeError
from burnlike.interop import fuse, unfuse
from burnlike.interop.fused import functions
from burnlike.interop.fused.replacements import replacement
from burnlike.ops import native_status

LINEAR = importlib.import_module("burnlike.ops.linear")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = {**SIZES, "vocab_size": 64}


def tokens() -> dict[str, Tensor]:
    return {"input_ids": torch.randint(0, 64, (2, 9)), "labels": torch.randint(0, 64, (2, 9))}


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


Made = tuple[Callable[[], nn.Module], Callable[[], dict[str, Tensor]], dict[str, int]]
MODELS: dict[str, Made] = {
    "llama": (
        lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**TOKENS, num_key_value_heads=2)),
        tokens,
        {"rms_norm": 5, "swiglu": 2, "rotary": 2, "attention": 2, "cross_entropy": 1},
    ),
    "mistral": (
        lambda: transformers.MistralForCausalLM(
            transformers.MistralConfig(**TOKENS, num_key_value_heads=2, sliding_window=4)
        ),
        tokens,
        {"rms_norm": 5, "swiglu": 2, "rotary": 2, "attention": 2, "cross_entropy": 1},
    ),
    "gpt2": (
        lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=64,
                n_embd=32,
                n_layer=2,
                n_head=4,
                bos_token_id=0,
                eos_token_id=0,
                attn_pdrop=0.0,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
            )
        ),
        tokens,
        {"layer_norm": 5, "attention": 2, "bias_gelu": 2, "cross_entropy": 1},
    ),
    "bert": (
        lambda: transformers.BertForMaskedLM(
            transformers.BertConfig(**TOKENS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        ),
        tokens,
        {"layer_norm": 6, "attention": 2, "cross_entropy": 1},
    ),
    "vit": (
        lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, image_size=32, patch_size=8)),
        images,
        {"layer_norm": 5, "attention": 2},
    ),
}


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINEAR, "_MACHINE_GAINS", False)
    monkeypatch.setattr(LINEAR.half_products, "SLOW", frozenset())
    monkeypatch.setattr(functions, "_HAS_AVX512", True)


@pytest.fixture(params=MODELS)
def made(request: pytest.FixtureRequest) -> tuple[nn.Module, dict[str, Tensor], dict[str, int]]:
    torch.manual_seed(0)
    make, inputs, ops = MODELS[request.param]
    return make(), inputs(), ops


def results(model: nn.Module, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    model.zero_grad()
    output = model(**inputs)
    output.loss.backward()
    return output.logits, output.loss, {name: it.grad for name, it in model.named_parameters() if it.grad is not None}


def test_a_model_of_transformers_gives_the_same_with_the_ops(made: Any) -> None:
    model, inputs, expected_ops = made
    logits, loss, gradients = results(model, inputs)
    gradients = {name: it.clone() for name, it in gradients.items()}
    state = {name: it.clone() for name, it in model.state_dict().items()}
    report = fuse(model)
    found = [op for it in report.fused for op in it.ops if op != "dropout"]  # that depends on the machine
    assert {op: found.count(op) for op in found} == expected_ops
    before = native_status().calls
    fused_logits, fused_loss, fused_gradients = results(model, inputs)
    called = {name for name, count in native_status().calls.items() if count > before.get(name, 0)}
    assert called >= expected_ops.keys() - {"attention", "bias_gelu"}  # for 16 bits, and for more values
    torch.testing.assert_close(fused_logits, logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused_loss, loss, rtol=1e-5, atol=1e-6)
    assert fused_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(fused_gradients[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
    assert list(model.state_dict()) == list(state)
    assert unfuse(model) == len(report.fused)
    again, _, _ = results(model, inputs)
    torch.testing.assert_close(again, logits, rtol=0, atol=0)
    assert all(module.forward.__func__ is type(module).forward for module in model.modules())


def test_bfloat16_under_autocast_is_near_the_stock_model(made: Any) -> None:
    model, inputs, _ = made

    def run() -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            output = model(**inputs)
        return output.logits, output.loss

    with torch.no_grad():
        exact = copy.deepcopy(model).double()(
            **{name: it.double() if it.is_floating_point() else it for name, it in inputs.items()}
        )
    logits, loss = run()
    fuse(model)
    fused_logits, fused_loss = run()
    assert (fused_logits.dtype, fused_loss.dtype) == (logits.dtype, loss.dtype)
    stock_error = (logits.double() - exact.logits).abs().mean()
    assert (fused_logits.double() - exact.logits).abs().mean() < 1.2 * stock_error + 1e-3
    torch.testing.assert_close(fused_loss, loss, rtol=1e-2, atol=1e-2)


def test_generated_tokens_are_the_same() -> None:
    torch.manual_seed(0)
    model = MODELS["llama"][0]().eval()
    prompt = torch.randint(3, 64, (2, 4))
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(prompt, **settings)
    fuse(model)
    assert torch.equal(model.generate(prompt, **settings), expected)


def test_ids_hooks_and_later_changes_of_weights_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.RMSNorm(4))
    ids = [param.id for param in bl.module.params(model)]
    seen: list[str] = []
    for module in model:
        module.register_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    fuse(model)
    assert seen == []
    x = torch.randn(2, 4)
    with torch.no_grad():
        model[1].weight.fill_(2.0)
        model[2].weight = nn.Parameter(torch.full((4,), 3.0))
    expected = F.rms_norm(F.layer_norm(model[0](x), (4,), torch.full((4,), 2.0), model[1].bias), (4,)) * 3
    seen.clear()
    torch.testing.assert_close(model(x), expected)
    assert seen == ["Linear", "LayerNorm", "RMSNorm"]
    model[2].weight = nn.Parameter(torch.full((4,), 3.0))
    assert [param.id for param in bl.module.params(model)] == ids


def test_modules_of_one_class_share_what_was_made_for_it() -> None:
    make, _, _ = MODELS["vit"]
    model = make()
    fuse(model)
    made: dict[type[nn.Module], set[int]] = {}
    for module in model.modules():
        if module.forward.__func__ is not type(module).forward:
            made.setdefault(type(module), set()).add(id(module.forward.__func__))
    assert len(made) > 1
    assert all(len(functions) == 1 for functions in made.values())


@pytest.mark.parametrize("name", ["llama", pytest.param("gpt2", marks=pytest.mark.weekly)])  # seconds each
def test_a_fused_model_compiles_whole(name: str) -> None:
    torch.manual_seed(0)
    make, inputs, _ = MODELS[name]
    model, given = make(), inputs()
    loss = model(**given).loss
    fuse(model)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(**given).loss, loss)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_linear_layers_are_fused_where_the_machine_gains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINEAR, "_MACHINE_GAINS", True)
    monkeypatch.setattr(LINEAR, "_FEWEST_PRODUCTS", 1)
    make, inputs, _ = MODELS[name]
    model, given = make(), inputs()
    logits, loss, gradients = results(model, given)
    gradients = {name: it.clone() for name, it in gradients.items()}
    layers = [it for it in model.modules() if type(it).__name__ in ("Linear", "Conv1D")]
    report = fuse(model)
    assert [it.ops for it in report.fused].count(("linear",)) == len(layers) > 8
    fused_logits, fused_loss, fused_gradients = results(model, given)
    torch.testing.assert_close(fused_logits, logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused_loss, loss, rtol=1e-5, atol=1e-6)
    for key, gradient in gradients.items():
        torch.testing.assert_close(fused_gradients[key], gradient, rtol=1e-3, atol=1e-6, msg=key)


def test_arguments_that_an_op_does_not_take_go_to_the_stock_function() -> None:
    class Model(nn.Module):
        def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
            weighted = F.cross_entropy(logits, targets, weight=torch.arange(1.0, 6.0))
            return weighted + F.cross_entropy(logits, F.one_hot(targets, 5).float())

    model, logits, targets = Model(), torch.randn(3, 5), torch.tensor([0, 4, 1])
    expected = model(logits, targets)
    assert fuse(model).fused[0].ops == ("cross_entropy",)
    torch.testing.assert_close(model(logits, targets), expected)


def test_a_forward_that_another_tool_replaced_stays() -> None:
    module = nn.LayerNorm(4)
    module.forward = lambda x: x * 7  # type: ignore[method-assign]
    assert fuse(module).kept[0].reason == "something else has replaced its forward"
    assert unfuse(module) == 0
    assert module(torch.ones(4))[0] == 7


def test_fuse_twice_is_fuse_once() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.ReLU())
    first = fuse(model)
    forward = model[0].forward
    assert fuse(model) == first
    assert model[0].forward == forward
    assert unfuse(model) == 1


def test_a_compiled_model_is_refused() -> None:
    norm = nn.LayerNorm(4)
    compiled = torch.compile(nn.Sequential(norm))
    with pytest.raises(ModuleTreeError, match=r"call fuse first, then torch\.compile"):
        fuse(compiled)
    assert "forward" not in vars(norm)
    norm.compile()
    with pytest.raises(ModuleTreeError, match="at its root"):
        fuse(norm)


def test_a_model_on_meta_is_fused_without_its_values() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4))
    assert len(fuse(model).fused) == 2
    assert model(torch.ones(2, 4, device="meta")).shape == (2, 4)


def test_the_report_counts_classes() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4))
    assert str(fuse(model)) == (
        "fused 2 of 3 modules\n  LayerNorm  2  layer_norm\nkept as they are\n  Linear     1  torch's own kernel"
    )
    assert math.isclose(len(fuse(nn.Sequential()).fused), 0)


def test_a_loss_is_told_by_its_property_and_not_by_where_the_class_is_written() -> None:
    class Own(transformers.LlamaForCausalLM):
        """A program's model, with the loss of transformers."""

    class OwnLoss(transformers.LlamaForCausalLM):
        @property
        def loss_function(self) -> Any:
            return lambda *arguments, **keywords: super().loss_function(*arguments, **keywords)

    config = transformers.LlamaConfig(**TOKENS, num_key_value_heads=2)
    for kind, is_fused in ((Own, True), (OwnLoss, False)):
        model = kind(config)
        assert any(it.path == "" and "cross_entropy" in it.ops for it in fuse(model).fused) == is_fused
        unfuse(model)
        assert "_loss_function" not in vars(model)


class DropConnect(nn.Module):
    """Values that are another draw at each read."""

    def forward(self, weight: Tensor) -> Tensor:
        return F.dropout(weight, 0.5)


PARAMETRIZED: dict[str, tuple[Callable[[], Any], Callable[[], Tensor]]] = {
    "linear": (lambda: nn.Linear(8, 8), lambda: torch.randn(4, 8)),
    "convolution": (lambda: nn.Conv2d(8, 8, 3), lambda: torch.randn(2, 8, 5, 5)),
    "layer_norm": (lambda: nn.LayerNorm(8), lambda: torch.randn(4, 8)),
    "rms_norm": (lambda: transformers.models.llama.modeling_llama.LlamaRMSNorm(8), lambda: torch.randn(4, 8)),
    "conv1d": (lambda: transformers.pytorch_utils.Conv1D(8, 8), lambda: torch.randn(4, 8)),
}


@pytest.mark.parametrize(
    "slow", [frozenset[torch.dtype](), frozenset((torch.bfloat16, torch.float16))], ids=["", "slow"]
)
@pytest.mark.parametrize("fused_first", [True, False], ids=["fused first", "parametrized first"])
@pytest.mark.parametrize("kind", ["spectral norm", "draws"])
@pytest.mark.parametrize("name", PARAMETRIZED)
def test_a_parametrized_weight_is_read_once_in_each_call(
    name: str, kind: str, fused_first: bool, slow: frozenset[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LINEAR.half_products, "SLOW", slow)
    monkeypatch.setattr(LINEAR, "_MACHINE_GAINS", True)
    make, inputs = PARAMETRIZED[name]
    torch.manual_seed(0)
    layers, x, found = [make(), make()], inputs(), []
    layers[1].load_state_dict(layers[0].state_dict())
    report = fuse(layers[1]) if fused_first else None
    for layer in layers:
        torch.manual_seed(1)
        if kind == "draws":
            parametrize.register_parametrization(layer, "weight", DropConnect())
        else:
            parametrizations.spectral_norm(layer)
        with torch.no_grad():
            layer.parametrizations.weight.original.mul_(torch.rand_like(layer.parametrizations.weight.original))
    if report is None:
        before = torch.get_rng_state()
        report = fuse(layers[1])
        assert "parametrize" in report.kept[0].reason
        assert torch.equal(torch.get_rng_state(), before)
    for layer in layers:
        torch.manual_seed(2)
        results = [layer(x) for _ in range(2)]
        found.append(
            [*results, *torch.autograd.grad(sum(results).square().sum(), [*layer.parameters()]), torch.rand(1)]
        )
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)
    assert type(layers[1]).__name__ == f"Parametrized{type(make()).__name__}"
    assert unfuse(layers[1]) == len(report.fused)


def test_a_weight_that_the_class_computes_is_read_once_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINEAR, "_MACHINE_GAINS", True)
    reads: list[nn.Module] = []

    class Centered(nn.Linear):
        @property
        def weight(self) -> Tensor:
            reads.append(self)
            return self.raw - self.raw.mean()

        @weight.setter
        def weight(self, value: nn.Parameter) -> None:
            self.raw = value

    layer, x = Centered(8, 8), torch.randn(4, 8)
    expected = layer(x)
    fuse(layer)
    reads.clear()
    torch.testing.assert_close(layer(x), expected)
    # Kept with torch's class: other tests have a machine without gain.
    vars(nn.Linear)["forward"].by_key.pop(replacement, None)
    assert len(reads) == 1
