"""GGUF files of runs in llama.cpp itself: the same tokens of texts, and the same tokens written."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from burnlike.cli.main import main
from burnlike.models import PretrainedConfig, stream
from burnlike.train import load_run
from burnlike.train.export.exporting import export
from burnlike.train.export.source import source_of_config

from ...data.chat.samples import CHATML, SPECIAL, WORDS, turns, write_lines
from ...models.by_path.directories import saved

pytestmark = pytest.mark.llama_cpp
TEXTS = [
    *("what is 3 and 4", "Hello, World!", "  two  spaces", "line\n\nbreak\n", "naïve café", "日本語 テキスト", "🙂"),
    *("<|im_start|>user\nhi<|im_end|>", "it's 12345, we'll see", "\ttab x", " ", "a", "ÿ þ", "x = y**2  # note"),
    *("Ünïcödé", "...", "CAPS lower", "1,000.50", "don't", "end "),
]
JOB = """
data: {type: Chat, path: chat.jsonl, tokenizer: model, max_length: 64}
model: {type: LoRA, of: {type: Pretrained, path: model}, rank: 16, alpha: 32, targets: all-linear}
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: CosineAnnealing, initial_lr: 2e-2}
training: {epochs: 8, batch_size: 4}
"""
TEXT_JOB = """
data: {type: Text, path: corpus.txt, context_length: 16}
model: {type: DecoderLm, vocab_size: 256, max_sequence_length: 128, d_model: 32, n_layers: 1, n_heads: 2, d_ff: 64}
task: {type: LanguageModel}
optimizer: {type: AdamW}
lr_scheduler: {type: CosineAnnealing, initial_lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 40, batch_size: 8}
"""
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
LLAMA_3 = QWEN.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def opened(path: str | Path, **options: Any) -> Any:
    from llama_cpp import Llama

    return Llama(str(path), n_ctx=128, n_threads=1, verbose=False, **options)


def words(pattern: str | None, *, ignore_merges: bool = False) -> Tokenizer:
    """Byte-pair tokens over bytes, of words by a pattern."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, bytes_alone])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options: dict[str, Any] = {"initial_alphabet": alphabet, "special_tokens": SPECIAL, "show_progress": False}
    tokenizer.train_from_iterator([WORDS, *TEXTS] * 3, trainers.BpeTrainer(vocab_size=340, **options))
    return tokenizer


def pieces() -> Tokenizer:
    """Tokens as SentencePiece has them: every pair of tokens whose join is a token has a merge, by its rank."""
    learned = Tokenizer(models.BPE())
    learned.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    learned.train_from_iterator([WORDS] * 3, trainers.BpeTrainer(vocab_size=60, show_progress=False))
    names = sorted(learned.get_vocab(), key=lambda it: learned.get_vocab()[it])
    vocabulary = {it: at for at, it in enumerate([*SPECIAL, *(f"<0x{it:02X}>" for it in range(256)), *names])}
    merges = [
        (name[:at], name[at:])
        for name in names
        for at in range(1, len(name))
        if name[:at] in vocabulary and name[at:] in vocabulary
    ]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<s>", fuse_unk=True))
    tokenizer.normalizer = learned.normalizer
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


TOKENIZERS = {
    "LlamaForCausalLM": lambda: words(LLAMA_3, ignore_merges=True),
    "MistralForCausalLM": pieces,
    "Qwen2ForCausalLM": lambda: words(QWEN),
    "Qwen3ForCausalLM": lambda: words(None),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_llama_cpp_reads_and_writes_the_tokens_of_a_fine_tuned_model(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_key_value_heads": 1, "intermediate_size": 64, "head_dim": 16}
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1, "max_position_embeddings": 128}
    saved(Path("model"), getattr(transformers, name), vocab_size=352, **sizes, **ends)
    made = PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name](), bos_token="<s>", eos_token="</s>")
    made.chat_template = CHATML
    made.save_pretrained("model")
    sums = [turns(f"what is {one} and {other}", f"it is {one + other}") for one in range(4) for other in range(4)]
    write_lines(Path("chat.jsonl"), [{"messages": it} for it in sums * 4])
    Path("chat.yaml").write_text(JOB)
    assert main(["train", "chat.yaml"]) == 0
    assert main(["export", "chat", "--to", "gguf", "--dtype", "float16"]) == 0
    run = load_run("runs/chat")
    codec, model = run.config.data.codec(run.facts, run.directory), opened("runs/chat/exports/model.gguf")
    for text in TEXTS:
        expected = codec.template.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert model.tokenize(text.encode(), add_bos=False, special=True) == expected, text
    for messages in sums[:6]:
        prompt = codec.chat(messages[:1])
        ours = [*stream(run.model.eval(), prompt, 12, stop_tokens=tuple(codec.stop_tokens))]
        assert len(ours) > 2
        theirs: list[int] = []
        for token in model.generate(prompt.tolist(), temp=0.0, repeat_penalty=1.0):
            theirs.append(token)
            if token in codec.stop_tokens or len(theirs) == 12:
                break
        assert theirs == ours
        answer = model.create_chat_completion(messages[:1], temperature=0.0, max_tokens=12, repeat_penalty=1.0)
        expected = codec.decode(torch.tensor(ours))
        assert answer["choices"][0]["message"]["content"].strip() == expected.strip()  # type: ignore[index]


LLAMA_3_SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3_SCALING |= {"original_max_position_embeddings": 16, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
        ("Llama", {"rope_parameters": LLAMA_3_SCALING}),
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
        ("Mistral", {"head_dim": 8, "sliding_window": None}),
        ("Qwen2", {}),
        ("Qwen3", {"head_dim": 8}),
    ],
)
def test_logits_are_those_of_transformers(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    options = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, **options}
    place = saved(tmp_path / "model", getattr(transformers, f"{name}ForCausalLM"), **options)
    export(source_of_config(PretrainedConfig(path=str(place)), None), "gguf", tmp_path / "model.gguf")
    tokens = torch.randint(40, (1, 30), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = transformers.AutoModelForCausalLM.from_pretrained(place)(tokens).logits[0]
    float32 = 0
    model = opened(tmp_path / "model.gguf", logits_all=True, type_k=float32, type_v=float32)
    model.eval(tokens[0].tolist())
    torch.testing.assert_close(torch.from_numpy(model.scores[:30]).float(), expected, rtol=1e-3, atol=2e-3)


def test_bytes_are_the_tokens_of_a_model_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text("the cat sat on the mat and the dog sat on the log. " * 80)
    Path("lm.yaml").write_text(TEXT_JOB)
    assert main(["train", "lm.yaml"]) == 0
    assert main(["export", "lm", "--to", "gguf", "--dtype", "float16"]) == 0
    model, run = opened("runs/lm/exports/model.gguf"), load_run("runs/lm")
    for text in TEXTS:
        assert model.tokenize(text.encode(), add_bos=False, special=True) == [*text.encode()]
    written = model("the ca", temperature=0.0, max_tokens=30, repeat_penalty=1.0)["choices"][0]["text"]
    ours = bytes(stream(run.model.eval(), torch.tensor([*b"the ca"]), 30)).decode()
    assert written == ours


def test_rows_of_4_bits_are_as_near_as_those_of_llama_cpp() -> None:
    import ctypes

    import gguf
    import llama_cpp

    from burnlike.train.export.gguf_file import q4_k

    library = ctypes.CDLL(str(Path(str(llama_cpp.__file__)).parent / "lib" / "libggml-base.so"))
    weight = torch.randn(64, 512, generator=torch.Generator().manual_seed(1))
    theirs = torch.zeros(64, 288, dtype=torch.uint8)
    places = [ctypes.c_void_p(it.data_ptr()) for it in (weight, theirs)]
    counts = [ctypes.c_int64(it) for it in (0, 64, 512)]
    library.ggml_quantize_chunk(int(gguf.GGMLQuantizationType.Q4_K), *places, *counts, None)
    errors = [
        float((torch.from_numpy(gguf.dequantize(it, gguf.GGMLQuantizationType.Q4_K)) - weight).square().mean())
        for it in (q4_k(weight), theirs.numpy())
    ]
    assert errors[0] < 1.02 * errors[1]
