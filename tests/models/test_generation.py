"""Generation: the same tokens with a cache, without it and one row at a time; how tokens are drawn; what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike import models, nn
from burnlike.errors import ArgumentError, DTypeError, ShapeError
from burnlike.models import generation, next_tokens

from .cases import CASES, LM

LMS = [case for case in CASES if case.name.startswith("DecoderLm") and case.name != "DecoderLm/vectors"]
PROMPT = torch.tensor([[3, 1, 4], [1, 5, 2]])
PADDED = torch.tensor([[True, True, False], [False] * 3])


def model_of(config: Any) -> Any:
    """Weights large enough that tokens differ from place to place."""
    torch.manual_seed(0)
    model = config.replace(max_sequence_length=12).init().double().eval()
    for tensor in model.parameters():
        tensor.data.mul_(3)
    return model


@pytest.mark.parametrize("case", LMS, ids=lambda case: case.name)
@pytest.mark.parametrize("padded", [False, True])
def test_a_cache_changes_no_token(case: Any, padded: bool) -> None:
    model = model_of(case.config)
    mask = PADDED if padded else None
    found = model.generate(PROMPT, 5, mask_pad=mask)
    assert found.shape == (2, 8)
    assert torch.equal(found[:, :3], PROMPT)
    assert torch.equal(model.generate(PROMPT, 5, mask_pad=mask, use_cache=False), found)
    alone = PROMPT[:1, 2:] if padded else PROMPT[:1]
    assert torch.equal(model.generate(alone, 5)[0], found[0, 2 if padded else 0 :])
    drawn = [
        model.generate(PROMPT, 5, temperature=1.5, use_cache=use, generator=torch.Generator().manual_seed(1))
        for use in (True, False)
    ]
    assert torch.equal(*drawn)
    assert not torch.equal(drawn[0], found)


@pytest.mark.parametrize("case", LMS, ids=lambda case: case.name)
def test_logits_with_a_cache_are_those_without(case: Any) -> None:
    model = model_of(case.config)
    tokens = torch.randint(7, (2, 6))
    expected = model(tokens)
    cache = model.new_cache(2, 8)
    found = torch.cat([model(part, cache=cache) for part in tokens.split([3, 1, 2], 1)], 1)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


DYNAMIC = LM.replace(positions=models.RotaryPositions(scaling=nn.DynamicScaling(factor=2.0, original_length=3)))


@pytest.mark.parametrize("config", [LM, DYNAMIC], ids=["tables", "dynamic"])
def test_one_compiled_graph_generates(config: Any) -> None:
    model = model_of(config)
    graphs: list[Any] = []

    def counted(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    compiled, cache = torch.compile(model, fullgraph=True, backend=counted), model.new_cache(1)
    tokens = torch.randint(7, (1, 5))
    with torch.no_grad():
        found = torch.cat([compiled(token, cache=cache) for token in tokens.split(1, 1)], 1)
        eager = model.new_cache(1)
        expected = torch.cat([model(token, cache=eager) for token in tokens.split(1, 1)], 1)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert len(graphs) == 1


@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_cache_works_in_autocast(cap: float | None) -> None:
    model = model_of(LM.replace(attention_soft_cap=cap)).float()
    tokens = torch.randint(7, (2, 6))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        cache = model.new_cache(2)
        found = torch.cat([model(part, cache=cache) for part in tokens.split([3, 1, 2], 1)], 1)
        torch.testing.assert_close(found, model(tokens), rtol=0.05, atol=0.05 * float(found.abs().max()))


def test_a_stop_token_ends_its_row_alone() -> None:
    model = model_of(LM)
    free = model.generate(PROMPT, 9)
    stop = int(free[0, 3])
    found = model.generate(PROMPT, 9, stop_tokens=(stop,), pad_token=6)
    for row in range(2):
        new = free[row, 3:].tolist()
        ended = new.index(stop) + 1 if stop in new else 9
        width = found.shape[1] - 3
        assert found[row, 3:].tolist() == (new[:ended] + [6] * 9)[:width]


@pytest.mark.parametrize("at_once", [2, 3, 8, 20])
def test_a_host_that_asks_seldom_gives_the_same_tokens(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(LM)
    free = model.generate(PROMPT, 9)
    stops = [(), (63,), (int(free[0, 3]),), tuple({int(row[5]) for row in free}), tuple({int(row[3]) for row in free})]
    expected = [model.generate(PROMPT, 9, stop_tokens=it) for it in stops]
    monkeypatch.setitem(generation._ASKS_AFTER, "cpu", at_once)
    assert [it.tolist() for it in expected] == [model.generate(PROMPT, 9, stop_tokens=it).tolist() for it in stops]
    assert len({it.shape[1] for it in expected}) > 1


def test_training_mode_comes_back() -> None:
    model = LM.replace(dropout=0.5).init().train()
    model.norm.eval()
    assert torch.equal(model.generate(PROMPT, 2), model.generate(PROMPT, 2))
    assert model.training
    assert not model.norm.training


LOGITS = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().repeat(20000, 1)


def shares(drawn: Tensor) -> Tensor:
    return torch.bincount(drawn, minlength=4) / len(drawn)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 0.5}, [1 / 30, 4 / 30, 9 / 30, 16 / 30]),
        ({"top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.65}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.71}, [0, 2 / 9, 3 / 9, 4 / 9]),
        ({"top_p": 0.01}, [0, 0, 0, 1]),
        ({"temperature": 0.0}, [0, 0, 0, 1]),
        ({"temperature": 1e-40}, [0, 0, 0, 1]),
        ({"temperature": 0.5, "top_k": 3, "top_p": 0.9}, [0, 4 / 29, 9 / 29, 16 / 29]),
    ],
    ids=str,
)
def test_tokens_are_drawn_by_their_probabilities(options: dict[str, Any], expected: list[float]) -> None:
    drawn = next_tokens(LOGITS, **options, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(shares(drawn), torch.tensor(expected, dtype=torch.float32), rtol=0, atol=0.015)
    assert torch.equal(shares(drawn) > 0, torch.tensor(expected) > 0)


def test_what_can_not_be_generated_is_refused() -> None:
    model = LM.init()
    with pytest.raises(ArgumentError, match=r"at most 6 tokens together .*got a prompt of 3 and max_new_tokens of 9"):
        model.generate(PROMPT, 9)
    with pytest.raises(ArgumentError, match=r"sequence >= 1\], got \[2, 0\]"):
        model.generate(PROMPT[:, :0], 9)
    with pytest.raises(ArgumentError, match="max_new_tokens: expected 0 or more, got -1"):
        model.generate(PROMPT, -1)
    with pytest.raises(ShapeError, match=r"tokens: expected \[batch, sequence\], got \[3\]"):
        model.generate(PROMPT[0], 1)
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'temprature'"):
        model.generate(PROMPT, 1, temprature=1.0)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ArgumentError, match="expected padding on the left"):
        model.generate(PROMPT, 1, mask_pad=PADDED.flip(1))
    with pytest.raises(ArgumentError, match=r"temperature: expected a finite number, 0 or more, got -1\.0"):
        model.generate(PROMPT, 1, temperature=-1.0)
    with pytest.raises(ArgumentError, match="top_k: expected 1 or more, got 0"):
        model.generate(PROMPT, 1, temperature=1.0, top_k=0)
    with pytest.raises(ArgumentError, match=r"top_p: expected more than 0 and at most 1, got 1\.5"):
        model.generate(PROMPT, 1, temperature=1.0, top_p=1.5)
    with pytest.raises(ArgumentError, match="top_k: expected 1 or more, got 0"):
        next_tokens(LOGITS, top_k=0)


def test_a_model_without_logits_of_each_token_is_refused() -> None:
    classifier = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(8, 3))
    with pytest.raises(ArgumentError, match=r"expected a language model, with logits .*, got \[1, 3\]"):
        next(models.stream(classifier, torch.tensor([1, 2]), 3))


def test_a_wrong_mask_or_cache_is_refused_before_anything_is_written() -> None:
    model, cache = LM.init(), LM.init().new_cache(2, 4)
    for use_cache in (True, False):
        with pytest.raises(DTypeError, match="mask_pad: expected bool"):
            model.generate(PROMPT, 1, mask_pad=PADDED.long(), use_cache=use_cache)
    with pytest.raises(DTypeError, match="mask_pad: expected bool"):
        model(PROMPT, PADDED.long(), cache=cache)
    assert int(cache.layers[0].filled) == 0
    with pytest.raises(ArgumentError, match=r"cache: expected a cache of \d blocks, from new_cache, got one of 9"):
        model(PROMPT, cache=LM.replace(n_layers=9).init().new_cache(2, 4))
    with pytest.raises(ArgumentError, match="length: expected 1 to 6, got 7"):
        model.new_cache(2, 7)
    cache = model.new_cache(2, 4)
    model(PROMPT, cache=cache)
    with pytest.raises(ShapeError, match=r"expected tokens \[2, sequence <= 1\] where 3 are cached, got \[2, 3\]"):
        model(PROMPT, cache=cache)


def test_a_stream_is_what_generate_gives() -> None:
    for case in (it for it in CASES if it.name in ("DecoderLm/llama", "DecoderLm/gpt2", "LstmLm")):
        model = model_of(case.config) if hasattr(case.config, "max_sequence_length") else case.model()
        expected = model.generate(PROMPT[:1], 6, stop_tokens=(2,))[0, 3:].tolist()
        model.train()
        assert [*models.stream(model, PROMPT[0], 6, stop_tokens=(2,))] == expected
        assert model.training
        drawn = [
            [*models.stream(model, PROMPT[0], 6, temperature=1.5, generator=torch.Generator().manual_seed(seed))]
            for seed in (1, 1)
        ]
        assert drawn[0] == drawn[1]
    model = next(it for it in CASES if it.name == "EncoderDecoder").model()
    assert [*models.stream(model, PROMPT[0], 5)] == model.generate(PROMPT[:1], 5)[0, 1:].tolist()


def test_a_stream_goes_on_where_the_longest_sequence_is_full() -> None:
    model = model_of(LM)
    tokens = PROMPT[0]
    for _ in range(12):
        tokens = torch.cat((tokens, model(tokens[None, -12:])[:, -1].argmax(-1)))
    assert [*models.stream(model, PROMPT[0], 12)] == tokens[3:].tolist()
    shorter = PROMPT[0]
    for _ in range(9):
        shorter = torch.cat((shorter, model(shorter[None, -4:])[:, -1].argmax(-1)))
    assert [*models.stream(model, PROMPT[0], 9, context_length=4)] == shorter[3:].tolist()
    started = models.stream(model.train(), PROMPT[0], 9)
    next(started)
    assert torch.is_grad_enabled()
    started.close()
    assert model.training
