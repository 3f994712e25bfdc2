"""64 tokens after a prompt of 16 of a Llama of 14 M parameters (d 384, 6 layers, 4096 words), greedy, in 1 and 8 rows.

Ours beside transformers' `generate` with the same weights: eager, and compiled with a static cache. In float32 both
give the same tokens, or the benchmark fails; in bfloat16 the note has how many are the same. In int8 ours is beside
itself in float32 (transformers multiplies no int8 on CPUs): weights of `interop.quantize_`. `beams` searches with 4,
`t5` is an encoder-decoder of these sizes, `t5_stream` streams transformers' own; `bart`, `bart_beams` and `marian` are
`complete` of transformers' own models, of these sizes. In `draft` the first block drafts 4 tokens at a time, in one
row, beside transformers' assistant and beside ours without a draft; the other blocks add little, so that most drafts
are right. `stream` is that of transformers' own model, in one row, beside its `generate`.
Names choose some of them: `python -m benchmarks.models.generate "eager float32"`.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare, main
from burnlike.interop import quantize_
from burnlike.models import (
    Beams,
    DecoderLmConfig,
    DraftModel,
    RotaryPositions,
    complete,
    record_from,
    stream,
    weight_tables,
)
from burnlike.models.pretrained import described

from .twins import llama_sizes

CONFIG = DecoderLmConfig(
    vocab_size=4096,
    max_sequence_length=256,
    d_model=384,
    n_layers=6,
    n_heads=6,
    d_ff=1024,
    positions=RotaryPositions(interleaved=False),
    tied=False,
)
PROMPT, NEW = 16, 64
BATCHES = (1, 8)
BARS = {
    "eager": 2.0,
    "stream": 2.0,
    "compiled": 1.2,
    "int8": 1.0,
    "beams": 1.5,
    "t5": 2.0,
    "t5_stream": 2.0,
    "bart": 2.0,
    "bart_beams": 1.5,
    "marian": 2.0,
    "draft": 1.0,
}
ONE_ROW_BARS = BARS | {"int8": 1.5}
"""For one row, where time goes into reading the weights."""
NAMES = [*(f"{kind} {dtype}" for kind in ("eager", "stream", "compiled") for dtype in ("float32", "bfloat16")), "int8"]
NAMES += ["beams float32", "t5 float32", "t5_stream float32", "bart float32", "bart_beams float32", "marian float32"]
NAMES += ["draft float32"]
OF_TRANSFORMERS = ("bart", "bart_beams", "marian")
BEAMS = 4
DRAFTED, LITTLE = 4, 0.005
"""Tokens of a draft, and the factor of what later blocks add."""


def models(dtype: torch.dtype) -> tuple[Any, Any]:
    """Ours and transformers', with the same weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None}
    theirs: Any = LlamaForCausalLM(LlamaConfig(**llama_sizes(CONFIG), rms_norm_eps=CONFIG.norm_epsilon, **ends))
    ours = CONFIG.init()
    record_from(weight_tables()["llama"], ours, theirs.state_dict()).load_into(ours)
    return ours.to(dtype).eval(), theirs.to(dtype).eval()


def t5_models() -> tuple[Any, Any]:
    """An encoder-decoder of ours and of transformers, with the same weights."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": CONFIG.d_model, "d_ff": CONFIG.d_ff, "d_kv": 64, "num_heads": CONFIG.n_heads}
    ends: dict[str, Any] = {"decoder_start_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    kind: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "architectures": ["T5ForConditionalGeneration"]}
    config = T5Config(vocab_size=CONFIG.vocab_size, num_layers=CONFIG.n_layers, **sizes, **ends, **kind)
    theirs: Any = T5ForConditionalGeneration(config).eval()
    description = described(json.loads(config.to_json_string()), "config.json")
    ours: Any = description.config.init()
    record_from(description.table, ours, theirs.state_dict()).load_into(ours)
    return ours.eval(), theirs


def bart_model(kind: str) -> Any:
    """A BART or a Marian of transformers, without the forced end of `BartConfig`."""
    import transformers

    torch.manual_seed(0)
    both = ("encoder", "decoder")
    sizes: dict[str, Any] = {"vocab_size": CONFIG.vocab_size, "d_model": CONFIG.d_model, "max_position_embeddings": 256}
    sizes |= {f"{it}_layers": CONFIG.n_layers for it in both} | {f"{it}_ffn_dim": CONFIG.d_ff for it in both}
    sizes |= {f"{it}_attention_heads": CONFIG.n_heads for it in both}
    ends: dict[str, Any] = {"eos_token_id": None, "forced_eos_token_id": None, "pad_token_id": 0}
    ends |= {"bos_token_id": None, "decoder_start_token_id": 2}
    if kind == "marian":
        config: Any = transformers.MarianConfig(**sizes, **ends, activation_function="swish", scale_embedding=True)
        return transformers.MarianMTModel(config).eval()
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **ends)).eval()


def draft_models(theirs: Any) -> tuple[Any, Any, Any, Any]:
    """Ours and transformers', whose first block is nearly the whole model, and both as models of this block alone."""
    from transformers import LlamaForCausalLM

    for layer in theirs.model.layers[1:]:
        for part in (layer.self_attn.o_proj, layer.mlp.down_proj):
            part.weight.mul_(LITTLE)
    config = type(theirs.config).from_dict({**theirs.config.to_dict(), "num_hidden_layers": 1})
    small: Any = LlamaForCausalLM(config).eval()
    small.load_state_dict({name: it for name, it in theirs.state_dict().items() if name in small.state_dict()})
    small.generation_config.num_assistant_tokens = DRAFTED
    small.generation_config.num_assistant_tokens_schedule = "constant"
    small.generation_config.assistant_confidence_threshold = 0.0
    ours, draft = CONFIG.init(), CONFIG.replace(n_layers=1).init()
    for one, other in ((ours, theirs), (draft, small)):
        record_from(weight_tables()["llama"], one, other.state_dict()).load_into(one)
    return ours.eval(), theirs, draft.eval(), small


def _measure_draft(repeats: int) -> list[Comparison]:
    ours, theirs, draft, small = draft_models(models(torch.float32)[1])
    torch.manual_seed(1)
    prompt = torch.randint(0, CONFIG.vocab_size, (1, PROMPT))
    drafts = DraftModel(model=draft, n_tokens=DRAFTED)

    def drafted() -> Tensor:
        return torch.cat((prompt, torch.tensor([[*stream(ours, prompt[0], NEW, draft=drafts)]])), 1)

    mask = torch.ones_like(prompt)
    options: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0, "attention_mask": mask}
    sides = {
        "transformers": lambda: theirs.generate(prompt, assistant_model=small, **options),
        "ours without": stream_of(ours, prompt),
    }
    results = [
        compare_tokens(
            "generate draft float32", drafted, other, 1, repeats, bar=BARS["draft"], theirs_name=name, is_equal=True
        )
        for name, other in sides.items()
    ]
    print(f"{'':44} {drafts.accepted / drafts.proposed:.0%} of the drafted tokens were right", flush=True)
    return results


def ours_of(model: Any, prompt: Tensor) -> Callable[[], Tensor]:
    return lambda: model.generate(prompt, NEW)


def first_of(model: Any, prompt: Tensor) -> Tensor:
    """What transformers' `generate` gives before the new tokens: the prompt, or the start of second sequences."""
    is_pair = getattr(model.config, "is_encoder_decoder", False)
    return torch.full_like(prompt[:, :1], model.config.decoder_start_token_id) if is_pair else prompt


def completed_by(model: Any, prompt: Tensor, beams: Beams | None = None) -> Callable[[], Tensor]:
    first = first_of(model, prompt)
    return lambda: torch.cat((first, complete(model, [*prompt], NEW, beams=beams).tokens), 1)


def theirs_of(model: Any, prompt: Tensor, num_beams: int = 1) -> Callable[[], Tensor]:
    options: dict[str, Any] = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    options["num_beams"] = num_beams
    return lambda: model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)


def stream_of(model: Any, prompt: Tensor) -> Callable[[], Tensor]:
    first = first_of(model, prompt)
    return lambda: torch.cat((first, torch.tensor([[*stream(model, prompt[0], NEW)]])), 1)


def compare_tokens(
    name: str, ours: Callable[[], Tensor], theirs: Callable[[], Tensor], batch: int, repeats: int, **options: Any
) -> Comparison:
    """Both sides, with the tokens a second of each in the note."""
    found, expected = ours(), theirs()
    same = float((found[:, PROMPT:] == expected[:, PROMPT:]).double().mean())
    if options.pop("is_equal"):
        assert torch.equal(found, expected), f"{name}: only {same:.0%} of the tokens are the same"
    result = compare(f"{name}, batch {batch}", ours, theirs, repeats=repeats, **options)
    rates = [batch * NEW / ms * 1e3 for ms in (result.ours_ms, result.theirs_ms)]
    print(f"{'':44} {rates[0]:.0f} and {rates[1]:.0f} tokens/s, {same:.0%} of the tokens are the same", flush=True)
    return result


def _measure(name: str, repeats: int) -> list[Comparison]:
    kind, _, dtype = name.partition(" ")
    if kind == "draft":
        return _measure_draft(repeats)
    if kind in OF_TRANSFORMERS:
        ours = theirs = bart_model(kind)
    else:
        ours, theirs = t5_models() if kind.startswith("t5") else models(getattr(torch, dtype or "float32"))
    if kind == "compiled":
        torch.compiler.reset()
        theirs.generation_config.cache_implementation = "static"
        theirs.forward = torch.compile(theirs.forward, dynamic=False)
    results = []
    for batch in BATCHES[:1] if kind in ("stream", "t5_stream") else BATCHES:
        torch.manual_seed(1)
        prompt = torch.randint(0, CONFIG.vocab_size, (batch, PROMPT))
        options: dict[str, Any] = {"bar": (ONE_ROW_BARS if batch == 1 else BARS)[kind], "is_equal": dtype == "float32"}
        if kind == "int8":
            rounded: nn.Module = CONFIG.init()
            rounded.load_state_dict(ours.state_dict())
            quantize_(rounded, "int8")
            sides = ours_of(rounded.eval(), prompt), ours_of(ours, prompt)
            options["theirs_name"] = "ours in float32"
        else:
            beams = BEAMS if kind.endswith("beams") else 1
            if kind.endswith("stream"):
                side = stream_of(theirs, prompt)
            elif beams > 1 or ours is theirs:
                side = completed_by(ours, prompt, Beams(num_beams=beams) if beams > 1 else None)
            else:
                side = ours_of(ours, prompt)
            sides = side, theirs_of(theirs, prompt, beams)
            options["theirs_name"] = "transformers"
        results.append(compare_tokens(f"generate {name}", *sides, batch, repeats, **options))
    return results


@torch.no_grad()
def run(repeats: int, names: Sequence[str] = ()) -> list[Comparison]:
    """Measure all, or some by name."""
    chosen = [name for name in NAMES if not names or name in names]
    return [result for name in chosen for result in _measure(name, min(repeats, 9))]


if __name__ == "__main__":
    main(__doc__ or "", run, names=NAMES)
