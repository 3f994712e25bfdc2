"""Fused modules run their own code: its names are live, and the module that is called computes."""

import copy
import importlib
import inspect
import io
import pickle
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import CrossEntropyLoss as Loss
from torch.nn.functional import cross_entropy

from burnlike.interop import fuse, unfuse
from burnlike.interop.fused import functions
from burnlike.ops import native_status

LINEAR = importlib.import_module("burnlike.ops.linear")
TEMPERATURE, CALLS = 1.0, 0
HERE = sys.modules[__name__]


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LINEAR, "_MACHINE_GAINS", False)
    monkeypatch.setattr(LINEAR.half_products, "SLOW", frozenset())
    monkeypatch.setattr(functions, "_HAS_AVX512", True)


class NanoNorm(nn.Module):
    """A layer norm with an optional bias, as small GPTs write it."""

    def __init__(self, size: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class NanoAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.projection = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(x).split(32, 2))
        context = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projection(context.transpose(1, 2).flatten(2))


class NanoGpt(nn.Module):
    """A GPT as people write it by hand, whose forward gives the loss too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.norms = nn.ModuleList(NanoNorm(32, bias) for bias in (True, False))
        self.attention = NanoAttention()
        self.head = nn.Linear(32, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.embedding(tokens)
        x = x + self.attention(self.norms[0](x))
        logits = self.head(self.norms[1](x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, 64), targets.view(-1), ignore_index=-1)


def test_the_code_of_a_model_written_by_hand_calls_the_ops() -> None:
    torch.manual_seed(0)
    model, inputs = NanoGpt(), torch.randint(0, 64, (2, 2, 9)).unbind()
    logits, loss = model(*inputs)
    report = fuse(model)
    assert {it.path: it.ops for it in report.fused} == {
        "": ("cross_entropy",),
        "norms.0": ("layer_norm",),
        "norms.1": ("layer_norm",),
        "attention": ("attention",),
    }
    fused_logits, fused_loss = model(*inputs)
    torch.testing.assert_close(fused_logits, logits)
    torch.testing.assert_close(fused_loss, loss)
    assert inspect.signature(model.forward) == inspect.signature(NanoGpt().forward)
    assert F.cross_entropy.__module__ == "torch.nn.functional"  # nobody else's functions changed


def test_copies_and_pickles_are_fused_modules_of_their_own() -> None:
    model = NanoGpt()
    fuse(model)
    inputs = torch.randint(0, 64, (2, 2, 9)).unbind()
    expected = model(*inputs)[1]
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
        torch.testing.assert_close(other(*inputs)[1], expected)
        with torch.no_grad():
            other.norms[1].weight.zero_()
        assert other(*inputs)[0].abs().max() == 0
        assert model(*inputs)[0].abs().max() > 0
        assert unfuse(other) == 4


def scaled(logits: Tensor) -> Tensor:
    return logits / TEMPERATURE


class Head(nn.Module):
    """Reads and writes names of its module, and calls the loss by one of its own names."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return cross_entropy(scaled(self.linear(x)), targets) + loss_of(x, targets)


def loss_of(x: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(x * TEMPERATURE, targets % 8)


def head() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return Head(), (torch.randn(4, 8), torch.randint(16, (4,)))


def calls() -> int:
    return native_status().calls.get("cross_entropy", 0)


def test_names_of_the_module_are_looked_up_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = head()
    assert fuse(model).fused[0].ops == ("cross_entropy",)
    before, count = calls(), CALLS
    model(*inputs)
    assert (calls() - before, CALLS - count) == (2, 1)
    monkeypatch.setattr(HERE, "TEMPERATURE", 0.1)
    got = model(*inputs)
    unfuse(model)
    torch.testing.assert_close(got, model(*inputs))
    assert CALLS - count == 3


@pytest.mark.parametrize(
    ("place", "name"), [(HERE, "scaled"), (HERE, "loss_of"), (HERE, "cross_entropy"), (F, "cross_entropy")]
)
def test_functions_that_are_patched_later_are_called(place: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = head()
    fuse(model)
    monkeypatch.setattr(place, name, lambda *arguments, **keywords: 3 * arguments[0])
    got = model(*inputs)
    unfuse(model)
    torch.testing.assert_close(got, model(*inputs))


class Criteria(nn.Module):
    """Asks what its losses are, before and while it calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.function = F.cross_entropy
        self.seen: list[nn.Module] = []

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        made = Loss(ignore_index=0)
        is_known = isinstance(self.criterion, nn.CrossEntropyLoss) and self.function is F.cross_entropy
        self.seen.append(made)
        return made(x, y) + (self.criterion(x, y) if is_known else 1000)


def test_the_class_and_the_functions_of_torch_stay_what_they_are() -> None:
    model, inputs = Criteria(), (torch.randn(3, 4), torch.tensor([0, 1, 2]))
    expected = model(*inputs)
    report = fuse(model)
    assert ("criterion", ("cross_entropy",)) in [(it.path, it.ops) for it in report.fused]
    assert type(model.criterion) is nn.CrossEntropyLoss
    before = calls()
    torch.testing.assert_close(model(*inputs), expected)
    assert calls() - before == 2
    for made in model.seen:
        assert (isinstance(made, Loss), repr(made)) == (True, "CrossEntropyLoss()")
        assert pickle.loads(pickle.dumps(made)).ignore_index == 0


def test_a_loss_that_was_given_another_forward_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = Criteria(), (torch.randn(3, 4), torch.tensor([0, 1, 2]))
    fuse(model)
    monkeypatch.setattr(nn.CrossEntropyLoss, "forward", lambda self, x, y: x.sum() * self.ignore_index)
    torch.testing.assert_close(model(*inputs), inputs[0].sum() * -100)


def test_a_loss_that_a_forward_makes_calls_what_is_patched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (x, y) = Criteria(), (torch.randn(3, 4), torch.tensor([0, 1, 2]))
    fuse(model)
    model.function = lambda *_: x  # then the loss that its forward makes is the only one
    monkeypatch.setattr(F, "cross_entropy", lambda *_, **__: torch.tensor(42.0))
    assert model(x, y) == 1042


class EachFunction(nn.Module):
    """Calls what native ops stand for, as the code of a model does."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = F.gelu(F.layer_norm(x, (8,)), approximate="tanh") + F.rms_norm(x, (8,)) + F.dropout(x, 0.0)
        x = F.linear(F.scaled_dot_product_attention(x[None], x[None], x[None])[0], x)
        return (
            F.cross_entropy(x, y)
            + Loss(label_smoothing=0.1)(x, y)
            + nn.CrossEntropyLoss()(F.batch_norm(x, None, None, training=True), y)
        )


@pytest.mark.parametrize("before", ["nothing", "a call"])
def test_a_model_that_calls_each_function_compiles_whole(before: str) -> None:
    """Its losses are modules that its forward makes, which torch.compile traces too."""
    torch.compiler.reset()
    model, inputs = EachFunction(), (torch.randn(9, 8), torch.randint(0, 9, (9,)))
    expected = model(*inputs)
    fuse(model)
    if before == "a call":
        model(*inputs)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs), expected)


def test_a_part_of_the_rotation_that_is_patched_later_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama import modeling_llama

    config = transformers.LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    model, ids = transformers.LlamaModel(config).eval(), torch.arange(12).view(2, 6)
    assert ("attention", "rotary") in [it.ops for it in fuse(model).fused]
    monkeypatch.setattr(modeling_llama, "rotate_half", lambda x: x * 2)
    got = model(ids).last_hidden_state
    unfuse(model)
    torch.testing.assert_close(got, model(ids).last_hidden_state)


def test_an_attention_function_that_is_registered_later_is_called() -> None:
    transformers = pytest.importorskip("transformers")
    from transformers import AttentionInterface, LlamaConfig

    config = LlamaConfig(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = transformers.LlamaModel(config).eval()
    fuse(model)
    seen: list[int] = []

    def attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *_: Any, **keywords: Any) -> Any:
        seen.append(1)
        return value.transpose(1, 2), None

    AttentionInterface.register("of_this_test", attention)
    model.set_attn_implementation("of_this_test")
    model(torch.ones(1, 3, dtype=torch.int64))
    assert seen == [1]


def _with_own_weight(module: Any) -> Any:
    return module._replicate_for_data_parallel()


@pytest.mark.parametrize("other_of", [copy.copy, copy.deepcopy, _with_own_weight], ids=["copy", "deepcopy", "replica"])
@pytest.mark.parametrize("make", [lambda: nn.LayerNorm(8), lambda: TypeAsRmsNorm()], ids=["code", "layer"])
def test_a_copy_computes_with_its_own_weight(make: Any, other_of: Any) -> None:
    module = make()
    assert fuse(module).fused
    x = torch.randn(2, 8)
    expected = 3 * module(x)
    other = other_of(module)
    other._parameters = {}
    other.weight, other.bias = torch.full((8,), 3.0), torch.zeros(8)
    torch.testing.assert_close(other(x), expected)
    torch.testing.assert_close(other.forward(x), expected)
    assert unfuse(module) == 1


class TypeAsRmsNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-5

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        return (self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps))).type_as(x)


class Derived(TypeAsRmsNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(super().forward(x), (8,))


def test_modules_of_other_classes_and_those_that_are_not_fused_run_stock_code() -> None:
    x, plain, derived = torch.randn(2, 8), TypeAsRmsNorm(), Derived()
    expected = derived(x)
    stock = TypeAsRmsNorm.forward
    fuse(TypeAsRmsNorm())
    fuse(derived)
    assert TypeAsRmsNorm.forward is stock
    assert plain.forward.__func__ is stock
    assert plain.forward == plain.forward
    torch.testing.assert_close(derived(x), expected)


def test_a_class_whose_forward_is_assigned_later_runs_that(monkeypatch: pytest.MonkeyPatch) -> None:
    module = TypeAsRmsNorm()
    fuse(module)
    monkeypatch.setattr(TypeAsRmsNorm, "forward", lambda self, x: x * 7)
    assert torch.equal(module(torch.ones(8)), torch.full((8,), 7.0))


def test_torch_jit_compiles_the_stock_code_of_a_fused_model() -> None:
    model = nn.Sequential(nn.LayerNorm(8), TypeAsRmsNorm(), nn.CrossEntropyLoss())[:2]
    x = torch.randn(2, 8)
    expected = model(x)
    assert len(fuse(model).fused) == 2
    torch.testing.assert_close(torch.jit.script(model)(x), expected)


@pytest.mark.parametrize("at_root", [False, True])
def test_modules_beside_fused_ones_compile_whole(at_root: bool) -> None:
    torch.compiler.reset()
    fused, stock = TypeAsRmsNorm(), TypeAsRmsNorm()
    fuse(fused)
    model = fused if at_root else nn.Sequential(fused, stock)
    x = torch.randn(2, 8)
    expected = model(x)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), expected)


def test_the_second_report_is_the_first() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=16, **sizes))
    first = fuse(model)
    assert fuse(model) == first
    assert unfuse(model) == len(first.fused)
    assert fuse(model) == first
