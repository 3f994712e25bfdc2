"""The encoder-decoder: what its positions see, its cache, its options. Its numbers are compared to transformers'."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.errors import ConfigError, ShapeError
from burnlike.models import EncoderDecoderConfig
from burnlike.models.completions import complete
from burnlike.models.encoder_decoder.native_steps import encoded
from burnlike.nn import GeluConfig
from burnlike.ops import force_cpu_isa, native_status

CONFIG = EncoderDecoderConfig(
    vocab_size=11, d_model=8, n_layers=2, n_heads=2, d_head=3, d_ff=12, n_buckets=8, max_distance=6
)
needs_native = pytest.mark.skipif(not native_status().loaded, reason="needs the native library")
MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def built(config: EncoderDecoderConfig = CONFIG) -> Any:
    torch.manual_seed(0)
    return config.init().double().eval()


def test_a_position_sees_the_first_sequence_and_its_own_past() -> None:
    model, tokens, decoder_tokens = built(), torch.randint(11, (1, 5)), torch.randint(11, (1, 6))
    before = model(tokens, decoder_tokens)
    changed = decoder_tokens.clone()
    changed[0, 3] = (changed[0, 3] + 1) % 11
    differs = (model(tokens, changed) - before).abs().amax(-1)[0] > 0
    assert differs.tolist() == [False] * 3 + [True] * 3
    tokens[0, 4] = (tokens[0, 4] + 1) % 11
    assert ((model(tokens, decoder_tokens) - before).abs().amax(-1) > 0).all()


def test_padding_of_the_first_sequence_changes_nothing() -> None:
    model, tokens, decoder_tokens = built(), torch.randint(11, (2, 5)), torch.randint(11, (2, 4))
    found = model(tokens, decoder_tokens, MASK)
    torch.testing.assert_close(found[:1], model(tokens[:1, :3], decoder_tokens[:1]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1:], model(tokens[1:], decoder_tokens[1:]), rtol=1e-12, atol=1e-12)


def test_token_by_token_with_a_cache_is_the_whole() -> None:
    model, tokens, decoder_tokens = built(), torch.randint(11, (2, 5)), torch.randint(11, (2, 9))
    memory, cache = model.encode(tokens, MASK), model.new_cache()
    parts = [model.decode(part, memory, MASK, cache) for part in decoder_tokens.split([3, 1, 1, 2, 2], 1)]
    assert cache.length == 9
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens, decoder_tokens, MASK), rtol=1e-12, atol=1e-12)


def test_it_generates_what_whole_sequences_say() -> None:
    model, tokens = built().train(), torch.randint(11, (2, 5))
    found = model.generate(tokens, 8, attention_mask=MASK, start_token=3)
    assert model.training
    model.eval()
    expected = torch.full((2, 1), 3)
    for _ in range(8):
        expected = torch.cat((expected, model(tokens, expected, MASK)[:, -1:].argmax(-1)), 1)
    assert torch.equal(found, expected)
    drawn = [model.generate(tokens, 8, temperature=3.0, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], found)


def test_the_tied_head_is_the_scaled_embedding() -> None:
    model, tokens, decoder_tokens = built(), torch.randint(11, (1, 5)), torch.randint(11, (1, 4))
    separate = built(CONFIG.replace(tied_head=False))
    separate.load_state_dict({**model.state_dict(), "head.weight": model.embedding.weight.mT / 8**0.5})
    expected = separate(tokens, decoder_tokens)
    torch.testing.assert_close(model(tokens, decoder_tokens), expected, rtol=1e-12, atol=1e-12)


def test_the_gated_feed_forward_is_its_formula() -> None:
    layer = built(CONFIG.replace(gated=True, activation=GeluConfig())).encoder.layers[0].feed_forward
    x = torch.randn(3, 8, dtype=torch.float64)
    gate, value = x @ layer.linear_gate.weight, x @ layer.linear_value.weight
    gelu = gate * (1 + torch.erf(gate / 2**0.5)) / 2
    torch.testing.assert_close(layer(x), (gelu * value) @ layer.linear_outer.weight, rtol=1e-12, atol=1e-12)


def test_dropout_acts_in_training_only() -> None:
    model, tokens = built().train(), torch.randint(11, (1, 5))
    assert not torch.equal(model(tokens, tokens), model(tokens, tokens))


def test_wrong_shapes_are_named() -> None:
    model, tokens = built(), torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(ShapeError, match=r"EncoderDecoder: tokens: expected \[batch, sequence\], got \[5\]"):
        model(tokens[0], tokens)
    with pytest.raises(ShapeError, match=r"EncoderDecoder: decoder_tokens: expected \[2, length\], got \[1, 5\]"):
        model(tokens, tokens[:1])
    with pytest.raises(ShapeError, match=r"EncoderDecoder: attention_mask: expected \[2, 5\], got \[2, 4\]"):
        model(tokens, tokens, MASK[:, :4])
    with pytest.raises(ShapeError, match=r"EncoderDecoder: memory: expected \[batch, sequence, 8\], got \[2, 5, 7\]"):
        model.decode(tokens, torch.zeros(2, 5, 7))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_buckets": 5}, r"n_buckets.*expected an even number from 4 on, got 5"),
        ({"n_buckets": 2}, r"n_buckets.*expected an even number from 4 on, got 2"),
        ({"max_distance": 4}, r"max_distance.*expected more than n_buckets / 2 \(4\)"),
    ],
)
def test_buckets_that_can_not_be_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CONFIG.replace(**options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_what_is_hidden_stays_hidden_beside_large_scores(dtype: torch.dtype) -> None:
    """Scores are not divided by anything, so large weights make them as large as a type allows."""
    torch.manual_seed(0)
    config = EncoderDecoderConfig(vocab_size=7, d_model=8, n_layers=1, n_heads=2, d_head=4, d_ff=12)
    model = config.init().to(dtype).eval()
    large = 20.0 if dtype == torch.float16 else 300.0
    for name, parameter in model.named_parameters():
        if "query" in name or "key" in name:
            parameter.data = large * torch.randn_like(parameter)
    tokens, mask = torch.randint(7, (3, 5)), torch.tensor([[1, 1, 1, 0, 0]] * 2 + [[0] * 5])
    with torch.no_grad():
        logits = model(tokens, tokens, mask)
        assert logits.isfinite().all()
        later, hidden = tokens.clone(), tokens.clone()
        later[:, 3:], hidden[:2, 3:] = (tokens[:, 3:] + 1) % 7, (tokens[:2, 3:] + 1) % 7
        assert torch.equal(model(tokens, later, mask)[:, :3], logits[:, :3])
        assert torch.equal(model(hidden, tokens, mask), logits)


NATIVE: dict[str, tuple[EncoderDecoderConfig, torch.dtype]] = {
    "tied": (CONFIG, torch.float32),
    "gated": (CONFIG.replace(gated=True, activation=GeluConfig(approximate=True), tied_head=False), torch.float32),
    "wide": (CONFIG.replace(d_model=96, d_ff=600, d_head=40, n_decoder_layers=3), torch.float32),
    "bfloat16": (CONFIG.replace(d_model=32), torch.bfloat16),
}


def native_calls() -> int:
    return native_status().calls.get("decode_step", 0)


def logits_of(reader: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.stack([reader.next_logits(part) for part in tokens.split(1, 1)], 1)


@needs_native
@pytest.mark.parametrize("isa", native_status().isas)
@pytest.mark.parametrize(("config", "dtype"), NATIVE.values(), ids=NATIVE)
def test_native_steps_give_the_logits_of_the_model(config: EncoderDecoderConfig, dtype: torch.dtype, isa: str) -> None:
    model = built(config).to(dtype)
    tokens, decoder_tokens = torch.randint(11, (2, 5)), torch.randint(11, (2, 70))  # more than the first slots
    expected = copy.deepcopy(model).double()(tokens, decoder_tokens, MASK).detach()
    before = native_calls()
    with force_cpu_isa(isa):
        logits = logits_of(model.reader(tokens, attention_mask=MASK), decoder_tokens)
    assert native_calls() - before == 70
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(logits.double(), expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))


@needs_native
def test_rows_go_on_with_the_tokens_of_others() -> None:
    model, tokens, decoder_tokens = built().float(), torch.randint(11, (1, 5)), torch.randint(11, (3, 6))
    rows, tokens = torch.tensor([2, 0, 0]), tokens.expand(3, -1)
    for mask in (None, torch.tensor([[0, 1, 1, 1, 1]] * 3)):
        reader, before = model.reader(tokens, attention_mask=mask), native_calls()
        logits_of(reader, decoder_tokens[:, :4])
        reader.reorder(rows)
        logits = logits_of(reader, decoder_tokens[:, 4:])
        assert native_calls() - before == (6 if mask is None else 0)  # padding on the left is left to the layers
        whole = torch.cat((decoder_tokens[rows, :4], decoder_tokens[:, 4:]), 1)
        torch.testing.assert_close(logits, model(tokens, whole, mask)[:, 4:], rtol=1e-5, atol=1e-5)


def test_the_memory_of_equal_rows_side_by_side_is_computed_once() -> None:
    tokens = torch.tensor([[1, 0], [1, 0], [1, 0], [2, 3], [1, 0]])
    mask = torch.tensor([[1, 0], [1, 0], [1, 1], [1, 1], [1, 0]])
    read: list[tuple[torch.Tensor, ...]] = []

    def encode(rows: torch.Tensor, shown: torch.Tensor | None) -> torch.Tensor:
        assert shown is not None
        read.append((rows, shown))
        return 10.0 * rows + shown

    assert torch.equal(encoded(encode, tokens, mask), 10.0 * tokens + mask)
    assert [it.tolist() for it in read[0]] == [tokens[1:].tolist(), mask[1:].tolist()]


@needs_native
def test_prompts_of_different_lengths_have_native_steps_together() -> None:
    model, prompts, before = built().float(), [torch.randint(11, (length,)) for length in (5, 2, 4)], native_calls()
    together = complete(model, prompts, 6, temperature=0.0).tokens
    assert native_calls() - before == 6
    for row, prompt in zip(together, prompts, strict=True):
        assert torch.equal(row, model.double().generate(prompt[None], 6, temperature=0.0)[0, 1:])


CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "a weight in place": (lambda it: it.decoder.layers[0].attention.query.weight.data.mul_(2), True),
    "the bias in place": (lambda it: it.decoder.position_bias.weight.data.add_(torch.arange(16.0).view(8, 2)), True),
    "another weight": (lambda it: setattr(it.embedding, "weight", nn.Parameter(it.embedding.weight * 2)), True),
    "a hook": (lambda it: it.decoder.norm.register_forward_hook(lambda part, given, output: output * 0.5), False),
    "a mode": (lambda it: it.decoder.layers[1].dropout.train(), False),
}


@needs_native
@pytest.mark.parametrize(("change", "is_native"), CHANGES.values(), ids=CHANGES)
def test_what_a_program_changes_counts_from_the_next_token_on(change: Callable[[Any], Any], is_native: bool) -> None:
    tokens, decoder_tokens = torch.randint(11, (2, 5)), torch.randint(11, (2, 6))
    results = []
    for native in (True, False):
        model = built(CONFIG.replace(dropout=0.0)).float()
        memory, cache, reader = model.encode(tokens, MASK), model.new_cache(), model.reader(tokens, attention_mask=MASK)
        parts, before = [], native_calls()
        for place, part in enumerate(decoder_tokens.split(1, 1)):
            if place == 3:
                change(model)
            with torch.no_grad():
                logits = reader.next_logits(part) if native else model.decode(part, memory, MASK, cache)[:, -1]
            parts.append(logits)
        assert native_calls() - before == ((6 if is_native else 3) if native else 0)
        results.append(torch.stack(parts))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
