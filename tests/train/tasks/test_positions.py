"""Models that have so many positions are refused before a training whose texts are longer."""

from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.errors import ConfigError
from burnlike.models import DecoderLmConfig, complete
from burnlike.train.tasks.token_batches import expect_positions, most_positions

from ...data.chat.samples import tokenizer_in, write_lines

transformers = pytest.importorskip("transformers", exc_type=ImportError)

LONGEST = 20
FAMILIES: dict[str, tuple[dict[str, Any], bool]] = {
    "GPT2": ({"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": LONGEST}, True),
    "OPT": (
        {"hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 16, "num_hidden_layers": 1}
        | {"num_attention_heads": 2, "max_position_embeddings": LONGEST},
        True,
    ),
    "GPTJ": ({"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": LONGEST, "rotary_dim": 4}, True),
    "XGLM": (
        {"d_model": 16, "ffn_dim": 16, "num_layers": 1, "attention_heads": 2, "max_position_embeddings": LONGEST},
        False,
    ),
    "Llama": (
        {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        | {"max_position_embeddings": LONGEST},
        False,
    ),
}


def model_of(family: str) -> Any:
    options, _ = FAMILIES[family]
    config = getattr(transformers, f"{family}Config")(vocab_size=300, **options)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_refused_that_fails_with_so_many_tokens(family: str) -> None:
    model, is_bounded = model_of(family), FAMILIES[family][1]
    tokens = torch.randint(2, 300, (1, LONGEST + 1))
    try:
        model(input_ids=tokens, use_cache=False)
        fails = False
    except (IndexError, RuntimeError):
        fails = True
    assert fails == is_bounded
    expect_positions(model, LONGEST)
    expect_positions(model, LONGEST - 4, 4)
    if is_bounded:
        with pytest.raises(ConfigError, match=rf"data.max_length: .* at most {LONGEST} tokens, which .*, got 21;"):
            expect_positions(model, LONGEST + 1)
    else:
        expect_positions(model, LONGEST + 1)
    assert complete(model, [tokens[0]], 5).lengths.tolist() == [5]  # the last tokens that fit are read


def test_the_first_position_of_roberta_is_the_row_after_that_of_padding() -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.RobertaConfig(vocab_size=300, max_position_embeddings=LONGEST + 2, pad_token_id=1, **sizes)
    model = transformers.RobertaModel(config)
    tokens = torch.randint(2, 300, (1, LONGEST + 1))
    assert model(tokens[:, 1:]).last_hidden_state.shape == (1, LONGEST, 16)
    with pytest.raises((IndexError, RuntimeError)):
        model(tokens)
    assert most_positions(model) == LONGEST


def test_ours_have_as_many_positions_as_they_say() -> None:
    sizes = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8, "max_sequence_length": LONGEST}
    with pytest.raises(ConfigError, match=r"of at most 20 tokens, which DecoderLm reads, got 17 and 4 of an answer"):
        expect_positions(DecoderLmConfig.from_dict({"vocab_size": 9, **sizes}).init("meta"), 17, 4)


JOB = """\
data: {type: DATA, path: rows.jsonl, tokenizer: base, max_length: 30}
model: {type: LoRA, of: {type: Pretrained, path: base}, rank: 2, alpha: 4}
task: TASK
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, batch_size: 2}
"""
TEXT = "data.max_length: expected texts of at most 20 tokens, which .*GPT2LMHeadModel.* reads, got [123]."
ANSWER = f"{TEXT} and 8 of an answer \\(task.max_tokens\\)"


@pytest.mark.parametrize(
    ("data", "task", "message"),
    [
        ("Prompts", "{type: Grpo, answers: 2, max_tokens: 8, rewards: [{type: Length, most: 8, soft: 2}]}", ANSWER),
        ("Preferences", "{type: Dpo}", TEXT),
        ("Chat", "{type: LanguageModel}", TEXT),
    ],
)
def test_a_job_says_so_before_its_first_step(
    data: str,
    task: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    tokenizer_in(Path("base"))
    model_of("GPT2").save_pretrained("base")
    rows = [{"prompt": "what is it", "chosen": "it is fine", "rejected": "hello how are you"}] * 6
    rows = [{"prompt": it["prompt"], "completion": "fine thanks " * 3} for it in rows] if data == "Chat" else rows
    write_lines(Path("rows.jsonl"), rows)
    Path("job.yaml").write_text(JOB.replace("DATA", data).replace("TASK", task))
    assert main(["train", "job.yaml"]) == 2
    shown = capsys.readouterr()
    assert "index out of range" not in shown.err
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(shown.err)
    assert not Path("runs/job/metrics.jsonl").exists()
