"""Completions of several prompts: the tokens that transformers writes, and those of each row alone."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import models
from burnlike.errors import ArgumentError
from burnlike.models import complete, stop_texts, stream_several
from burnlike.models.decoder_lm.transformers_twin import twin_of

from .cases import CASES
from .test_generation import LM, model_of

PROMPTS = [torch.tensor(it) for it in ([3, 1, 4, 1, 5], [2, 6], [5, 3, 5], [1])]


def small(family: str, **options: Any) -> Any:
    """A tiny model of transformers, with weights large enough that tokens differ from place to place."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    sizes = {
        "Llama": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
        "T5": {"d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 2, "d_kv": 8, "decoder_start_token_id": 0}
        | {"tie_word_embeddings": False},
        "Bart": {
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 2,
            "max_position_embeddings": 40,
            **{f"{it}_attention_heads": 2 for it in ("encoder", "decoder")},
            **{f"{it}_ffn_dim": 24 for it in ("encoder", "decoder")},
            "decoder_start_token_id": 2,
            "forced_eos_token_id": None,
        },
        "GPTNeoX": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2},
    }
    sizes["GPT2"] = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 12}
    sizes["GPT2"] |= {"tie_word_embeddings": False, "scale_attn_by_inverse_layer_idx": True}  # our layers have no such
    sizes["Mixtral"] = {**sizes["Llama"], "num_key_value_heads": 1, "num_local_experts": 4}
    sizes = sizes[family]
    kinds = {"T5": "ForConditionalGeneration", "Bart": "ForConditionalGeneration", "GPT2": "LMHeadModel"}
    kind = f"{family}{kinds.get(family, 'ForCausalLM')}"
    torch.manual_seed(0)
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    config = getattr(transformers, f"{family}Config")(vocab_size=24, **sizes, **ends, **options)
    model = getattr(transformers, kind)(config).eval()
    for tensor in model.parameters():
        if tensor.ndim > 1:
            tensor.data.normal_(std=0.4)
    return model


def padded(prompts: list[Tensor], side: str) -> dict[str, Tensor]:
    ones = [torch.ones_like(it) for it in prompts]
    tokens, mask = (torch.nn.utils.rnn.pad_sequence(it, True, 0, side) for it in (prompts, ones))
    return {"input_ids": tokens, "attention_mask": mask}


@pytest.mark.parametrize("family", ["Llama", "GPTNeoX", "T5", "Bart", "Mixtral"])
def test_prompts_of_different_lengths_go_on_as_in_transformers(family: str) -> None:
    model = small(family)
    is_pair = model.config.is_encoder_decoder
    inputs = padded(PROMPTS, "right" if is_pair else "left")
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "num_beams": 1}
    expected = model.generate(**inputs, **options, eos_token_id=[7, 11], pad_token_id=0)
    expected = expected[:, 1 if is_pair else inputs["input_ids"].shape[1] :]
    model.config.output_router_logits = family == "Mixtral"  # with which generate of transformers fails
    completions = complete(model, PROMPTS, 8, stop_tokens=(7, 11))
    assert completions.tokens.tolist() == expected.tolist()
    assert len({*map(tuple, expected.tolist())}) > 1
    for row, length, finished in zip(expected, completions.lengths, completions.finished, strict=True):
        ends = [place for place, token in enumerate(row.tolist()) if token in (7, 11)]
        assert (int(length), bool(finished)) == ((ends[0] + 1, True) if ends else (8, False))


@pytest.mark.parametrize("name", ["DecoderLm/llama", "DecoderLm/gpt2", "LstmLm", "EncoderDecoder"])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_each_row_is_what_it_is_alone(name: str, batch_size: int | None) -> None:
    case = next(it for it in CASES if it.name == name)
    model = model_of(case.config) if name.startswith("DecoderLm") else case.model()
    prompts = [it % 7 for it in PROMPTS]
    completions = complete(model, prompts, 5, n_samples=3, batch_size=batch_size, stop_tokens=(2,), pad_token=6)
    assert len(completions.tokens) == 12
    for row in range(12):
        alone = [*models.stream(model, prompts[row // 3], 5, stop_tokens=(2,))]
        assert completions.tokens[row, : completions.lengths[row]].tolist() == alone
        assert (completions.tokens[row, completions.lengths[row] :] == 6).all()
        assert bool(completions.finished[row]) == (2 in alone)


@pytest.mark.parametrize("name", ["DecoderLm/llama", "LstmLm", "Llama"])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_several_texts_come_token_by_token(name: str, batch_size: int | None) -> None:
    model = small(name) if name == "Llama" else next(it for it in CASES if it.name == name).model()
    model.train()
    prompts = [it % 7 for it in PROMPTS]
    options: Any = {"n_samples": 2, "batch_size": batch_size, "temperature": 1.5, "stop_tokens": (2, 3)}
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    completions = complete(model, prompts, 6, generator=generators[0], **options)
    pieces = [*stream_several(model, prompts, 6, generator=generators[1], **options)]
    texts = [[token for row, token in pieces if row == number] for number in range(8)]
    rows = zip(completions.tokens, completions.lengths, strict=True)
    assert texts == [row[:length].tolist() for row, length in rows]
    assert len({row for row, _ in pieces[:2]}) == 2  # one token of each, not one text after the other
    stopped = stream_several(model, prompts, 6, **options)
    next(stopped)
    stopped.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert model.training


@pytest.mark.parametrize(("name", "context_length"), [("", None), ("GPT2", None), ("GPT2", 6)])
def test_a_full_sequence_goes_on_as_in_a_stream(name: str, context_length: int | None) -> None:
    model = small(name) if name == "GPT2" else model_of(LM)
    prompts = [it % 7 for it in (*PROMPTS, torch.arange(14), torch.arange(5) + 2)]
    for added in (2, 15):
        completions = complete(model, prompts, added, context_length=context_length)
        for row, prompt in enumerate(prompts):
            alone = [*models.stream(model, prompt, added, context_length=context_length)]
            assert completions.tokens[row].tolist() == alone


def test_samples_of_a_prompt_have_the_probabilities_of_the_model() -> None:
    model = model_of(LM).float()
    prompts = [PROMPTS[2] % 7, PROMPTS[3] % 7]
    generator = torch.Generator().manual_seed(0)
    tokens = complete(model, prompts, 1, n_samples=4000, batch_size=8000, temperature=2.0, generator=generator).tokens
    for row, prompt in enumerate(prompts):
        shares = torch.bincount(tokens[4000 * row : 4000 * row + 4000, 0], minlength=7) / 4000
        torch.testing.assert_close(shares, (model(prompt[None])[0, -1] / 2).softmax(-1), rtol=0, atol=0.035)


def test_a_stop_text_ends_a_row_across_tokens() -> None:
    model = models.DecoderLmConfig(
        vocab_size=256, max_sequence_length=64, d_model=16, n_layers=1, n_heads=2, d_ff=32
    ).init()
    for tensor in model.parameters():
        tensor.data.mul_(20)

    def decode(tokens: Tensor) -> str:
        return bytes(tokens.tolist()).decode("latin-1")

    free = complete(model, PROMPTS, 20).tokens
    stop = decode(free[0, 7:10])
    completions = complete(model, PROMPTS, 20, stop_when=stop_texts(decode, ["never there", stop]))
    for row, length, finished in zip(free, completions.lengths, completions.finished, strict=True):
        text = decode(row)
        end = text.find(stop) + len(stop) if stop in text else 20
        assert (int(length), bool(finished)) == (end, stop in text)
    assert [*models.stream(model, PROMPTS[0], 20, stop_when=stop_texts(decode, [stop]))] == free[
        0, : completions.lengths[0]
    ].tolist()


def test_a_module_without_a_config_completes_prompts_of_any_lengths() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(12, 4), nn.Linear(4, 12))  # the next token follows from the last one
    prompts, beams = [torch.tensor([3, 1]), torch.tensor([7])], models.Beams(num_beams=1)
    alone = [[*models.stream(model, prompt, 4)] for prompt in prompts]
    assert complete(model, prompts, 4).tokens.tolist() == alone
    assert complete(model, prompts, 4, beams=beams).tokens.tolist() == alone


def test_a_grammar_may_leave_nothing_to_a_text_that_has_ended() -> None:
    high = torch.tensor(1e4)

    def until_3(tokens: Tensor, logits: Tensor) -> Tensor:  # which ends the first text at once
        logits = logits.index_fill(-1, torch.tensor([3]), -torch.inf).index_put(
            (torch.tensor([0]), torch.tensor([3])), high
        )
        return logits.masked_fill((tokens[:, 2:] == 3).any(1)[:, None], -torch.inf)

    prompts = [torch.tensor([1, 2]), torch.tensor([4, 5])]
    completions = complete(LM.init(), prompts, 4, temperature=1.0, stop_tokens=(3,), logits_processor=until_3)
    assert (completions.lengths.tolist(), completions.tokens[0].tolist()) == ([1, 4], [3, 0, 0, 0])


def test_the_rows_of_a_tensor_are_prompts() -> None:
    model, prompts = LM.init(), torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(complete(model, prompts, 3).tokens, complete(model, [*prompts], 3).tokens)  # pyright: ignore[reportArgumentType]


def test_what_can_not_be_completed_is_refused() -> None:
    model = LM.init()
    with pytest.raises(ArgumentError, match=r"expected prompts of one dimension, .* got \[\[2\], \[0\]\]"):
        complete(model, [torch.tensor([1, 2]), torch.tensor([])], 2)
    with pytest.raises(ArgumentError, match="n_samples: expected 1 or more, got 0"):
        complete(model, PROMPTS[:1], 2, n_samples=0)
    with pytest.raises(ArgumentError, match="max_new_tokens: expected 1 or more with num_beams, got 0"):
        complete(model, PROMPTS[:1], 0, beams=models.Beams(num_beams=2))
    with pytest.raises(ArgumentError, match="expected texts of at least one character"):
        stop_texts(str, ["a", ""])


CHARACTERS = '{}":n0123456789 abcdefgh'
"""The texts of the 24 tokens of a tiny model."""


class OneObject:
    """A grammar of JSON, `{"n": 12}`, with the call that transformers and libraries of grammars have."""

    ENDINGS = ("", "}", "0}", " 0}", ": 0}", '": 0}', 'n": 0}', '"n": 0}')

    def __init__(self, prompt_length: int) -> None:
        self.begin = prompt_length

    @staticmethod
    def is_whole(text: str) -> bool:
        return re.fullmatch(r'\{"n": (0|[1-9][0-9]{0,2})\}', text) is not None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        allowed = torch.full_like(scores, -torch.inf)
        for row, tokens in enumerate(input_ids[:, self.begin :].tolist()):
            text = "".join(CHARACTERS[it] for it in tokens)
            fitting = [
                number
                for number, more in enumerate(CHARACTERS)
                if any(self.is_whole(text + more + end) for end in self.ENDINGS)
            ]
            allowed[row, fitting or [0]] = 0  # of a row that has ended
        return scores + allowed


def test_a_grammar_steers_texts_as_in_transformers() -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    model, prompts = small("Llama"), [torch.tensor(it) for it in ([3, 1, 4], [2, 6, 1])]
    end = CHARACTERS.index("}")
    grammar = transformers.LogitsProcessorList([OneObject(3)])
    expected = model.generate(
        **padded(prompts, "left"), max_new_tokens=10, do_sample=False, logits_processor=grammar, eos_token_id=end
    )
    completions = complete(model, prompts, 10, logits_processor=OneObject(3), stop_tokens=(end,))
    assert completions.tokens.tolist() == expected[:, 3:].tolist()
    drawn = complete(
        model, prompts, 10, n_samples=5, logits_processor=OneObject(3), stop_tokens=(end,), temperature=3.0
    )
    texts = [
        "".join(CHARACTERS[it] for it in row[:length].tolist())
        for row, length in zip(drawn.tokens, drawn.lengths, strict=True)
    ]
    assert all(isinstance(json.loads(it)["n"], int) for it in texts)
    assert len({*texts}) > 2


SEARCHES: list[dict[str, Any]] = [
    {"num_beams": 3},
    {"num_beams": 4, "length_penalty": 2.0},
    {"num_beams": 4, "length_penalty": -1.0, "early_stopping": True},
    {"num_beams": 3, "length_penalty": 0.5, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": 0.0, "early_stopping": "never"},
]


@pytest.mark.parametrize("family", ["Llama", "T5", "Bart"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("penalties", [{}, {"repetition_penalty": 1.5, "no_repeat_ngram": 2}], ids=["", "penalties"])
def test_beams_find_the_texts_of_transformers(family: str, search: dict[str, Any], penalties: dict[str, Any]) -> None:
    model = small(family)
    is_pair = model.config.is_encoder_decoder
    stops, kept, beams = (7, 11, 15), 2, models.Beams(**search)
    completions = complete(model, PROMPTS, 9, n_samples=kept, beams=beams, stop_tokens=stops, **penalties)
    assert completions.scores is not None
    theirs: dict[str, Any] = {"max_new_tokens": 9, "do_sample": False, "num_return_sequences": kept, **search}
    theirs |= {"no_repeat_ngram_size" if name == "no_repeat_ngram" else name: it for name, it in penalties.items()}
    theirs |= {"eos_token_id": [*stops], "pad_token_id": 0, "return_dict_in_generate": True, "output_scores": True}
    for number, prompt in enumerate(PROMPTS):
        output = model.generate(prompt[None], **theirs)
        expected = output.sequences[:, 1 if is_pair else len(prompt) :]
        rows = slice(number * kept, number * kept + kept)
        for row, text in enumerate(expected, rows.start):
            length = int(completions.lengths[row])
            assert completions.tokens[row, :length].tolist() == text[:length].tolist()
            assert {*text[length:].tolist()} <= {7}  # transformers fills with the first end where pad_token_id is 0
        torch.testing.assert_close(completions.scores[rows], output.sequences_scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["DecoderLm/llama", "LstmLm", "EncoderDecoder"])
def test_beams_of_our_models_are_the_likeliest_texts(name: str) -> None:
    case = next(it for it in CASES if it.name == name)
    model = model_of(case.config).float() if name.startswith("DecoderLm") else case.model().float()
    vocab, prompt = 7, PROMPTS[2] % 7
    every = torch.cartesian_prod(*[torch.arange(vocab)] * 3)
    if name == "EncoderDecoder":
        starts = torch.zeros(len(every), 1, dtype=torch.int64)
        logits = model(prompt.expand(len(every), -1), torch.cat((starts, every[:, :-1]), 1))
    else:
        logits = model(torch.cat((prompt.expand(len(every), -1), every[:, :-1]), 1))
        logits = (logits if isinstance(logits, Tensor) else logits.logits)[:, len(prompt) - 1 :]
    sums = logits[..., :vocab].double().log_softmax(-1).gather(-1, every[..., None]).sum((1, 2))
    best = sums.topk(3)
    beams = models.Beams(num_beams=vocab**2)  # all texts of two tokens go on
    completions = complete(model, [prompt], 3, n_samples=3, beams=beams)
    assert completions.tokens.tolist() == every[best.indices].tolist()
    assert completions.scores is not None
    torch.testing.assert_close(completions.scores.double(), best.values / 3, rtol=1e-4, atol=1e-4)


def test_one_beam_is_the_likeliest_token_each_time() -> None:
    model, beams = small("Llama"), models.Beams(num_beams=1, early_stopping=True)
    one, other = (complete(model, PROMPTS, 9, stop_tokens=(7, 11), beams=it) for it in (None, beams))
    assert one.tokens.tolist() == other.tokens.tolist()


def test_what_beams_do_not_have_is_refused() -> None:
    model = LM.init()
    with pytest.raises(ArgumentError, match="temperature: expected 0 with num_beams"):
        complete(model, PROMPTS[:1], 2, beams=models.Beams(num_beams=2), temperature=0.5)
    with pytest.raises(ArgumentError, match="n_samples: expected at most the 2 of num_beams, got 3"):
        complete(model, PROMPTS[:1], 2, beams=models.Beams(num_beams=2), n_samples=3)
    with pytest.raises(ArgumentError, match="early_stopping: expected True, False or 'never', got 'soon'"):
        models.Beams(num_beams=2, early_stopping="soon")  # pyright: ignore[reportArgumentType]


def test_penalties_see_no_padding() -> None:
    model = model_of(LM)
    prompts = [it % 7 for it in PROMPTS]
    options: dict[str, Any] = {"repetition_penalty": 3.0, "no_repeat_ngram": 2, "presence_penalty": 1.0}
    completions = complete(model, prompts, 6, **options)
    for row, prompt in enumerate(prompts):
        assert completions.tokens[row].tolist() == [*models.stream(model, prompt, 6, **options)]


@pytest.mark.parametrize("gated", [False, True])
def test_a_t5_of_transformers_writes_by_our_layers_over_its_memory(gated: bool) -> None:
    model = small("T5", feed_forward_proj="gated-gelu" if gated else "relu")
    expected = model.generate(**padded(PROMPTS, "right"), max_new_tokens=8, do_sample=False, num_beams=1)[:, 1:]
    assert isinstance(twin_of(model, 1), models.EncoderDecoder)
    assert complete(model, PROMPTS, 8).tokens.tolist() == expected.tolist()
    hook = model.decoder.register_forward_pre_hook(lambda *_: None)
    assert twin_of(model, 1) is None  # what is changed computes itself
    assert complete(model, PROMPTS, 8).tokens.tolist() == expected.tolist()
    hook.remove()
    assert twin_of(model.bfloat16(), 1) is None
