"""Encoder-decoders of transformers in BART's layout write by native steps what their own `generate` writes."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import ArgumentError
from burnlike.models import DraftModel, complete, stream
from burnlike.models.encoder_decoder.bart_steps import BartSteps
from burnlike.models.generation import reader_of
from burnlike.ops import force_cpu_isa, native_status

from .test_completions import PROMPTS, padded

transformers = pytest.importorskip("transformers", exc_type=ImportError)
needs_native = pytest.mark.skipif(not native_status().cpu.loaded, reason="needs the native library")
PROOF = 2
"""Tokens by which steps are proven."""
SIZES: dict[str, Any] = {
    "vocab_size": 24,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "max_position_embeddings": 40,
    **{f"{it}_attention_heads": 2 for it in ("encoder", "decoder")},
    **{f"{it}_ffn_dim": 24 for it in ("encoder", "decoder")},
    **dict.fromkeys(("bos_token_id", "eos_token_id", "forced_eos_token_id")),
    "pad_token_id": 0,
    "decoder_start_token_id": 2,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "Bart": {},
    "PLBart": {"scale_embedding": True},
    "MBart": {"activation_function": "relu"},
    "Marian": {"activation_function": "swish", "scale_embedding": True},
    "Pegasus": {"activation_function": "gelu_new", "scale_embedding": True},
    "Blenderbot": {"encoder_no_repeat_ngram_size": 0},
}


def small(family: str = "Bart", **options: Any) -> Any:
    """A tiny model with values in all of its parameters, so large that tokens differ from place to place."""
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **FAMILIES[family], **options})
    kind = "MarianMTModel" if family == "Marian" else f"{family}ForConditionalGeneration"
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).eval()
    for name, tensor in model.named_parameters():
        tensor.data.normal_(mean=float("norm" in name and "weight" in name), std=0.4)
    model.final_logits_bias.normal_(std=0.5)
    return model


def steps() -> int:
    return native_status().calls.get("decode_step", 0)


def expected_of(model: Any, new: int = 12, **options: Any) -> list[list[int]]:
    options = {"do_sample": False, "num_beams": 1, **options}
    return model.generate(**padded(PROMPTS, "right"), max_new_tokens=new, **options)[:, 1:].tolist()


@needs_native
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_generate(family: str, dtype: torch.dtype) -> None:
    model, before = small(family).to(dtype), steps()
    expected = expected_of(model)
    assert complete(model, PROMPTS, 12).tokens.tolist() == expected
    assert steps() - before == (0 if dtype == torch.float64 else 12 + PROOF)
    assert len({*map(tuple, expected)}) > 1


@needs_native
@pytest.mark.parametrize("isa", native_status().isas)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_model_in_float64(family: str, isa: str) -> None:
    model = small(family)
    inputs, decoder_tokens = padded(PROMPTS, "right"), torch.randint(24, (4, 30))
    with torch.no_grad():
        expected = deepcopy(model).double()(**inputs, decoder_input_ids=decoder_tokens).logits
        with force_cpu_isa(isa):
            reader = reader_of(model, inputs["input_ids"], 30, mask_pad=inputs["attention_mask"] == 0)
            logits = torch.stack([reader.next_logits(it) for it in decoder_tokens.split(1, 1)], 1)
    torch.testing.assert_close(logits.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@needs_native
@pytest.mark.parametrize("family", ["Bart", "MBart"])
def test_bits_are_those_of_any_number_of_threads(family: str) -> None:
    model, decoder_tokens = small(family, d_model=256, decoder_ffn_dim=320), torch.randint(24, (3, 9))
    results, threads = [], torch.get_num_threads()
    try:
        with torch.no_grad():
            memory = model.get_encoder()(decoder_tokens)[0]
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                native = BartSteps.begin(model, memory, None)
                assert native is not None
                columns = [native.next_logits(it) for it in decoder_tokens.split(1, 1)]
                results.append(torch.stack([it for it in columns if it is not None]))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], it) for it in results[1:])
    assert results[0].shape == (9, 3, 24)


@needs_native
def test_a_decoder_has_a_vocabulary_of_its_own() -> None:
    options = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    model, before = small("Marian", decoder_vocab_size=30, **options), steps()
    assert complete(model, PROMPTS, 12).tokens.tolist() == expected_of(model)
    assert steps() - before == 12 + PROOF


@needs_native
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_in_bfloat16_are_nearer_than_those_of_the_model(family: str) -> None:
    model, decoder_tokens, before = small(family).bfloat16(), torch.randint(24, (4, 30)), steps()
    tokens = torch.randint(24, (4, 9))
    with torch.no_grad():
        expected, theirs = (
            it(tokens, decoder_input_ids=decoder_tokens).logits.double() for it in (deepcopy(model).double(), model)
        )
        reader = reader_of(model, tokens, 30)
        logits = torch.stack([reader.next_logits(it) for it in decoder_tokens.split(1, 1)], 1).double()
    assert steps() - before == 30 + PROOF
    assert (logits - expected).square().mean() < (theirs - expected).square().mean()


@needs_native
def test_draws_and_forced_tokens_are_those_of_the_model() -> None:
    model = small()
    processors = [transformers.ForcedBOSTokenLogitsProcessor(5), transformers.ForcedEOSTokenLogitsProcessor(9, 7)]
    expected = expected_of(model, 8, forced_bos_token_id=5, forced_eos_token_id=7, eos_token_id=7)
    forced = transformers.LogitsProcessorList(processors)
    assert complete(model, PROMPTS, 8, logits_processor=forced, stop_tokens=(7,)).tokens.tolist() == expected
    results = []
    for change in (lambda _: None, lambda it: it.register_forward_hook(lambda *_: None)):
        before, _ = steps(), change(model)
        generator = torch.Generator().manual_seed(3)
        options: dict[str, Any] = {"temperature": 1.5, "top_p": 0.9, "n_samples": 3, "generator": generator}
        results.append(complete(model, PROMPTS, 8, **options).tokens.tolist())
        assert (steps() > before) == (len(results) == 1)
    assert results[0] == results[1]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "an activation": lambda it: setattr(it.model.decoder.layers[1], "activation_fn", nn.Tanh()),
    "a scale": lambda it: setattr(it.model.decoder.layers[0].self_attn, "scaling", 1.0),
    "a scale of the memory": lambda it: setattr(it.model.decoder.layers[1].encoder_attn, "scaling", 2.0),
    "an offset": lambda it: setattr(it.model.decoder.embed_positions, "offset", 3),
    "a hook": lambda it: it.model.decoder.layers[0].register_forward_hook(lambda part, given, output: output * 0.5),
    "a weight": lambda it: setattr(it.model.decoder.layers[0].fc1, "weight", nn.Parameter(torch.ones(24, 16))),
    "a norm": lambda it: setattr(it.model.decoder.layers[0].final_layer_norm, "eps", 0.5),
}


@needs_native
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_model_writes_its_own_tokens(change: Callable[[Any], Any]) -> None:
    model = small()
    change(model)
    assert complete(model, PROMPTS, 12).tokens.tolist() == expected_of(model)


@needs_native
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_changes_between_two_tokens_reads_all_again(change: Callable[[Any], Any]) -> None:
    model, tokens, before = small(), PROMPTS[0][None].expand(3, -1), steps()
    reader, decoder_tokens, rows = reader_of(model, tokens, 6), torch.randint(24, (3, 6)), torch.tensor([2, 0, 0])
    with torch.no_grad():
        for column in decoder_tokens[:, :4].split(1, 1):
            reader.next_logits(column)
        assert reader.reorder is not None
        reader.reorder(rows)
        change(model)
        logits = torch.stack([reader.next_logits(it) for it in decoder_tokens[:, 4:].split(1, 1)], 1)
        whole = torch.cat((decoder_tokens[rows, :4], decoder_tokens[:, 4:]), 1)
        expected: Tensor = model(tokens, decoder_input_ids=whole).logits[:, 4:]
    assert steps() - before == 4 + PROOF
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


@needs_native
def test_weights_in_place_count_from_the_next_token_on() -> None:
    model, before = small(), steps()
    reader = reader_of(model, PROMPTS[0][None], 4)
    with torch.no_grad():
        reader.next_logits(torch.tensor([[2]]))
        weight = model.model.decoder.layers[1].fc2.weight  # behind all keys and values
        weight.data = weight.data * 2
        logits = reader.next_logits(torch.tensor([[3]]))
        expected = model(PROMPTS[0][None], decoder_input_ids=torch.tensor([[2, 3]])).logits[:, 1]
    assert steps() - before == 2 + PROOF
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["Bart", "Marian"])
def test_a_draft_is_refused(family: str) -> None:
    with pytest.raises(ArgumentError, match="draft: expected models whose reader can go back, got"):
        next(stream(small(family), PROMPTS[0], 4, draft=DraftModel(model=small(family))))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("family", ["Bart", "Marian"])
def test_sequences_longer_than_the_table_of_positions_are_refused(family: str, dtype: torch.dtype) -> None:
    model = small(family, max_position_embeddings=8).to(dtype)
    prompt = torch.arange(3, 11)
    assert complete(model, [prompt], 8).lengths.tolist() == [8]
    for prompts, new, got in (([prompt], 9, "8 and a text of 9"), ([torch.arange(3, 12)], 2, "9 and a text of 1")):
        with pytest.raises(ArgumentError, match=f"expected at most 8 tokens in each sequence, got a prompt of {got}"):
            complete(model, prompts, new)
