"""Tokens by one native call each: logits beside those in float64, and the models that take their own way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import models
from burnlike.errors import ShapeError
from burnlike.interop import quantize_
from burnlike.models.decoder_lm import model as decoder_model, native_steps
from burnlike.models.decoder_lm.configs import DecoderLmConfig
from burnlike.module import LoraConfig
from burnlike.nn import DynamicScaling, GeluConfig, ReluConfig, SiLUConfig
from burnlike.ops import force_cpu_isa, native_status

BASE = DecoderLmConfig(
    vocab_size=37, max_sequence_length=24, d_model=40, n_layers=2, n_heads=4, d_ff=52, dropout=0.1, tied=False
)
HALVES = models.RotaryPositions(interleaved=False, rotary_dim=6)
KINDS: dict[str, DecoderLmConfig] = {
    "tied, neighbours": BASE.replace(tied=True),
    "llama": BASE.replace(positions=HALVES, n_heads_kv=2, d_head=16),
    "window and caps": BASE.replace(sliding_window=3, attention_soft_cap=2.0, logit_soft_cap=3.0, n_heads_kv=1),
    "head norms and biases": BASE.replace(query_key_norm=True, attention_bias=True, attention_output_bias=True),
    "geglu": BASE.replace(feed_forward=models.GatedPart(activation=GeluConfig(approximate=True), bias=True)),
    "gpt2": BASE.replace(
        norm="LayerNorm",
        positions=models.LearnedPositions(),
        feed_forward=models.PlainPart(),
        attention_bias=True,
        attention_output_bias=True,
        tied=True,
    ),
    "relu": BASE.replace(feed_forward=models.PlainPart(activation=ReluConfig())),
    "wide": BASE.replace(d_model=96, d_ff=700, d_head=40, feed_forward=models.GatedPart(activation=SiLUConfig())),
}
BATCH, PROMPT = 3, 4
PADDED = torch.tensor([[True, True, False, False], [False] * 4, [True] + [False] * 3])
ISAS = native_status().isas
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 3e-2}

pytestmark = pytest.mark.skipif(not native_status().loaded, reason="needs the native library")


def model_of(config: DecoderLmConfig, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    model = config.init().to(dtype).eval()
    for tensor in model.parameters():
        tensor.data.add_(0.05 * torch.randn_like(tensor))
    return model


def steps() -> int:
    return native_status().calls.get("decode_step", 0)


@torch.no_grad()
def logits_of(model: Any, tokens: Tensor, mask: Tensor | None, prompt: int = PROMPT) -> Tensor:
    """After the prompt and after each token behind it, by a reader: `[batch, tokens, vocab_size]`."""
    reader = model.reader(tokens[:, :prompt], tokens.shape[1], mask)
    parts = tokens.split([prompt] + [1] * (tokens.shape[1] - prompt), 1)
    return torch.stack([reader.next_logits(part) for part in parts], 1)


@torch.no_grad()
def expected_of(model: Any, tokens: Tensor, mask: Tensor | None) -> Tensor:
    """The same of the model in float64, all at once."""
    config: Any = model.config
    exact = config.init().double().eval()
    exact.load_state_dict({name: tensor.double() for name, tensor in model.state_dict().items()})
    whole = None if mask is None else nn.functional.pad(mask, (0, tokens.shape[1] - PROMPT))
    return exact(tokens, whole)[:, PROMPT - 1 :]


def assert_near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance * float(expected.abs().max()))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("config", KINDS.values(), ids=KINDS)
def test_logits_are_those_of_the_model(config: DecoderLmConfig, dtype: torch.dtype) -> None:
    model = model_of(config, dtype)
    tokens = torch.randint(config.vocab_size, (BATCH, 10))
    for mask in (None, PADDED):
        expected = expected_of(model, tokens, mask)
        for isa in ISAS:
            with force_cpu_isa(isa):
                before = steps()
                found = logits_of(model, tokens, mask)
                assert steps() - before == 7
            assert_near(found, expected, TOLERANCES[dtype])


def test_rows_from_one_to_32_and_any_number_of_threads_give_the_same_bits() -> None:
    model = model_of(KINDS["wide"], torch.bfloat16)
    tokens = torch.randint(37, (32, 7))
    expected = logits_of(model, tokens, None, prompt=2)  # as many tokens as native steps read
    for rows in (*range(1, 10), 16, 31):
        assert torch.equal(logits_of(model, tokens[:rows], None, prompt=2)[:, 1:], expected[:rows, 1:])
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert torch.equal(logits_of(model, tokens, None, prompt=2)[:, 1:], expected[:, 1:])
    finally:
        torch.set_num_threads(threads)


def test_tokens_are_those_of_the_model_and_changed_weights_count() -> None:
    model = model_of(BASE, torch.float32)
    prompt = torch.randint(37, (2, 3))
    for _ in range(2):
        before = steps()
        found = model.generate(prompt, 9)
        assert steps() - before == 9
        assert torch.equal(found, model.generate(prompt, 9, use_cache=False))
        assert [*models.stream(model, prompt[0], 9)] == found[0, 3:].tolist()
        model.blocks[0].linear.weight.data.mul_(-2)


@pytest.mark.parametrize(("most", "calls"), [(128, 5), (6, 6)])
@pytest.mark.parametrize("kind", ["wide", "gpt2"])
def test_weights_in_int8_are_read_as_they_are(
    kind: str, most: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_steps, "MOST_TOKENS", most)  # the prompt in one part or two, one of them padding alone
    model, plain = model_of(KINDS[kind], torch.float32), model_of(KINDS[kind], torch.float32)
    assert len(quantize_(model, "int8")) > 10
    tokens = torch.randint(37, (BATCH, 8))
    for name, own in model.named_modules():
        if type(own).__name__ == "Linear":
            plain.get_submodule(name).weight.data.copy_(own.weight)
    expected = expected_of(plain, tokens, PADDED)
    for isa in ISAS:
        with force_cpu_isa(isa):
            before = steps()
            found = logits_of(model, tokens, PADDED)
            assert steps() - before == calls
        assert_near(found, expected, TOLERANCES[torch.float32])


def test_a_long_prompt_is_read_by_the_model_whose_logits_are_of_the_last_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_steps, "MOST_READ", dict.fromkeys(native_steps.MOST_READ, BATCH * PROMPT - 1))
    model, rows = model_of(BASE, torch.float32), []
    model.head.register_forward_pre_hook(lambda module, given: rows.append(given[0].shape[1]))
    tokens = torch.randint(37, (BATCH, 6))
    assert_near(logits_of(model, tokens, PADDED), expected_of(model, tokens, PADDED), TOLERANCES[torch.float32])
    assert rows == [1] * 3


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 8)], ids=str)
def test_tokens_that_do_not_fit_are_refused_by_the_model(shape: tuple[int, ...]) -> None:
    reader = model_of(BASE, torch.float32).reader(torch.zeros(2, 1, dtype=torch.int64), 8)
    with torch.no_grad():
        reader.next_logits(reader.first)
        with pytest.raises(ShapeError, match="expected tokens"):
            reader.next_logits(torch.zeros(shape, dtype=torch.int64))


def test_a_model_elsewhere_takes_its_own_way() -> None:
    model = BASE.init("meta").eval()
    with torch.no_grad():
        assert native_steps.native_steps(model, model.new_cache(2, 8)) is None


def _hooked(model: Any) -> None:
    model.blocks[1].gate.register_forward_hook(lambda module, given, output: output * 0.5)


def _own_forward(model: Any) -> None:
    norm = model.blocks[0].norm_attention
    forward = norm.forward
    norm.forward = lambda x: forward(x) * 0.5


def _own_class(model: Any) -> None:
    class Halved(type(model.norm)):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 0.5

    model.norm.__class__ = Halved


def _adapted(model: Any) -> None:
    model.apply_lora(LoraConfig(rank=2, alpha=2.0))
    for tensor in model.parameters():
        tensor.data.add_(0.1)


OTHERS: dict[str, tuple[DecoderLmConfig, torch.dtype, Callable[[Any], None]]] = {
    "adapters": (BASE, torch.float32, _adapted),
    "hooks": (BASE, torch.float32, _hooked),
    "a forward of its own": (BASE, torch.float32, _own_forward),
    "another class": (BASE, torch.float32, _own_class),
    "float64": (BASE, torch.float64, lambda model: None),
    "experts": (BASE.replace(feed_forward=models.ExpertsPart(n_experts=2)), torch.float32, lambda model: None),
    "heads wider than the op has room for": (
        BASE.replace(d_model=2056, n_heads=2, n_layers=1),
        torch.float32,
        lambda model: None,
    ),
    "frequencies by length": (
        BASE.replace(positions=models.RotaryPositions(scaling=DynamicScaling(factor=2.0, original_length=24))),
        torch.float32,
        lambda model: None,
    ),
}


@pytest.mark.parametrize(("config", "dtype", "change"), OTHERS.values(), ids=OTHERS)
def test_other_models_take_their_own_way(
    config: DecoderLmConfig, dtype: torch.dtype, change: Callable[[Any], None]
) -> None:
    model = model_of(config, dtype)
    change(model)
    prompt, before = torch.randint(37, (2, 3)), steps()
    found = model.generate(prompt, 6)
    assert steps() == before
    assert torch.equal(found, model.generate(prompt, 6, use_cache=False))


def test_autocast_gradients_and_pieces_go_on_in_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_steps, "MOST_READ", {torch.float32: 3})  # fewer tokens than pieces of 2 have
    model = model_of(BASE, torch.float32)
    tokens = torch.randint(37, (2, 12))
    reader, expected = model.reader(tokens[:, :3], 12), model_of(BASE, torch.float32)(tokens)
    before = steps()
    with torch.no_grad():
        found = [reader.next_logits(part) for part in tokens[:, :6].split([3, 1, 1, 1], 1)]
        assert steps() - before == 3
    found.append(reader.next_logits(tokens[:, 6:7]))
    assert found[-1].requires_grad
    with torch.no_grad():
        found += [reader.next_logits(part) for part in tokens[:, 7:].split([2, 1, 1, 1], 1)]
        assert steps() - before == 6
    assert_near(torch.stack(found, 1).detach(), expected[:, [2, 3, 4, 5, 6, 8, 9, 10, 11]].double().detach(), 1e-5)


def _doubled(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach() * 2)


def _at(owner: str, name: str, make: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Replaces an attribute of a part of a model."""

    def change(model: Any) -> None:
        part = model.get_submodule(owner)
        setattr(part, name, make(getattr(part, name)))

    return change


def _data(model: Any) -> None:
    model.head.weight.data = model.head.weight.data * 2


def _gappy(model: Any) -> None:
    """A weight that is a column of a table."""
    gamma = model.norm.gamma.detach()
    model.norm.gamma = nn.Parameter(torch.stack((gamma * 2, gamma), -1)[..., 0])


def _gappy_data(model: Any) -> None:
    model.norm.gamma.data = torch.stack((model.norm.gamma.data * 2, model.norm.gamma.data), -1)[..., 0]


def _loaded(model: Any, *, assign: bool) -> None:
    model.load_state_dict({name: it * 1.5 for name, it in model.state_dict().items()}, assign=assign)


def _only_even(model: Any) -> None:
    """A subclass with a forward of its own, as constrained decoding has."""

    class OnlyEven(type(model)):
        def forward(self, *given: Any, **keywords: Any) -> Any:
            logits = super().forward(*given, **keywords)
            return logits.masked_fill(torch.arange(logits.shape[-1]) % 2 == 1, -torch.inf)

    model.__class__ = OnlyEven


def _subclass(model: Any) -> None:
    class Named(type(model)):
        name = "of a subclass that computes the same"

    model.__class__ = Named


def _parametrized(model: Any) -> None:
    class Halved(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight / 2

    nn.utils.parametrize.register_parametrization(model.head, "weight", Halved())


def _method(model: Any) -> None:
    block = model.blocks[0]
    fed = type(block)._fed_forward
    block._fed_forward = lambda x: (fed(block, x)[0] * 2, None)


def _spectral(model: Any) -> None:
    nn.utils.parametrizations.weight_norm(model.head, "weight")


CHANGES: dict[str, tuple[Callable[[Any], None], bool]] = {
    "nothing": (lambda model: None, True),
    "values in place": (lambda model: model.head.weight.data.mul_(2), True),
    "data": (_data, True),
    "a parameter": (_at("head", "weight", _doubled), True),
    "a norm's parameter": (_at("blocks.1.norm_attention", "gamma", _doubled), True),
    "a table": (_at("embedding", "weight", _doubled), True),
    "a loaded state": (lambda model: _loaded(model, assign=False), True),
    "an assigned state": (lambda model: _loaded(model, assign=True), True),
    "a subclass alone": (_subclass, True),
    "another part of the same class": (_at("", "norm", lambda norm: _with(norm, 3.0)), True),
    "a vector with gaps": (_gappy, False),
    "data with gaps": (_gappy_data, False),
    "a hook": (_hooked, False),
    "a hook before": (lambda model: model.head.register_forward_pre_hook(lambda part, given: (given[0] * 2,)), False),
    "a forward": (_own_forward, False),
    "a method": (_method, False),
    "a class": (_own_class, False),
    "the model's class": (_only_even, False),
    "a parametrization": (_parametrized, False),
    "a normalized weight": (_spectral, False),
    "an adapter": (_adapted, False),
    "an epsilon": (_at("blocks.0.norm_attention", "epsilon", lambda it: 0.5), False),
    "a cap": (lambda model: setattr(model.blocks[0].attention, "soft_cap", 0.1), False),
    "a window": (lambda model: setattr(model.blocks[0].attention, "sliding_window", 1), False),
    "an activation": (_at("blocks.0.gate", "activation", lambda it: nn.Tanh()), False),
    "no dropout in training": (lambda model: model.blocks[0].train(), False),
}


def _with(norm: Any, factor: float) -> Any:
    new = BASE.init().norm.eval()
    new.gamma.data.copy_(norm.gamma * factor)
    return new


@pytest.mark.parametrize("when", ["before", "between tokens"])
@pytest.mark.parametrize(("change", "is_native"), CHANGES.values(), ids=CHANGES)
def test_whatever_a_program_changes_counts_as_in_forward(
    change: Callable[[Any], None], is_native: bool, when: str
) -> None:
    config = BASE.replace(feed_forward=models.GatedPart(activation=GeluConfig()), dropout=0.0)
    tokens = torch.randint(37, (2, 9))
    results = []
    for is_reader in (True, False):
        model = model_of(config, torch.float32)
        if when == "before":
            change(model)
        cache, reader = model.new_cache(2, 9), model.reader(tokens[:, :3], 9)
        found = []
        for place, part in enumerate(tokens.split([3, 1, 1, 1, 1, 1, 1], 1)):
            if place == 3 and when != "before":
                change(model)
            before = steps()
            with torch.no_grad():
                found.append(reader.next_logits(part) if is_reader else model(part, cache=cache)[:, -1])
        if is_reader:
            assert (steps() - before == 1) is is_native
        results.append(torch.stack(found))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-4 * results[1].nan_to_num(0, 0, 0).abs().max())


def test_a_patched_class_is_left_to_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = model_of(BASE, torch.float32), torch.randint(37, (2, 5))
    reader, before = model.reader(tokens[:, :3], 5), steps()
    with torch.no_grad():
        reader.next_logits(tokens[:, :3])
        kind = type(model.norm)
        forward = kind.forward
        monkeypatch.setattr(kind, "forward", lambda part, x: forward(part, x) * 2)
        found = reader.next_logits(tokens[:, 3:4])
        assert steps() - before == 1
        monkeypatch.undo()
        assert not torch.allclose(found, model(tokens[:, :4])[:, -1])


@pytest.mark.parametrize("is_padded", [False, True])
def test_a_prompt_that_is_there_several_times_is_read_once(is_padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 24, "max_sequence_length": 40, "d_model": 16, "n_heads": 2, "d_ff": 24}
    model = DecoderLmConfig(n_layers=2, **sizes).init().eval()
    prompts = torch.randint(24, (2, 9))
    mask = torch.arange(9).expand(2, 9) < torch.tensor([[0], [3]]) if is_padded else None
    alone = model.generate(prompts, 6, mask_pad=mask)
    read: list[int] = []
    embed = model.embedding.forward
    monkeypatch.setattr(type(model.embedding), "forward", lambda _, x: read.append(x.numel()) or embed(x))
    for native in (True, False):
        read.clear()
        if not native:
            monkeypatch.setattr(decoder_model, "native_prompt", lambda *_: None)
            monkeypatch.setattr(decoder_model, "native_steps", lambda *_: None)
        repeated = None if mask is None else mask.repeat_interleave(3, 0)
        found = model.generate(prompts.repeat_interleave(3, 0), 6, mask_pad=repeated)
        assert read[0] == 18
        assert torch.equal(found, alone.repeat_interleave(3, 0))


@pytest.mark.parametrize("rows", [1, 3])
def test_native_steps_give_the_logits_after_every_token(rows: int) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 24, "max_sequence_length": 40, "d_model": 16, "n_heads": 2, "d_ff": 24}
    model = DecoderLmConfig(n_layers=2, logit_soft_cap=3.0, **sizes).init().eval()
    tokens = torch.randint(24, (rows, 20))
    expected = model(tokens)
    with torch.no_grad():
        reader = model.reader(tokens[:, :6], 20)
        assert reader.every_logits is not None
        assert reader.rewind is not None
        first = reader.next_logits(tokens[:, :6])
        reader.every_logits(tokens[:, 6:9].flip(1))  # forgotten again
        reader.rewind(3)
        found = torch.cat((first[:, None], reader.every_logits(tokens[:, 6:])), 1)
    torch.testing.assert_close(found, expected[:, 5:], rtol=1e-4, atol=1e-5)
