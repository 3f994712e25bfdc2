"""`burnlike generate` and `burnlike export`, of a run: from its directory alone."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.models import Beams, complete, stream
from burnlike.train import TrainConfig, load_run
from burnlike.train.export.source import source_of_run

from ..train.samples import write_config
from .commands import said

SHORT = ("--set", "training.epochs=1", "--set", "training.steps_per_epoch=8", "--run-dir", "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run of the small language model; its text is gone."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", write_config(place).name, *SHORT]) == 0
        Path("corpus.txt").rename("moved.txt")
    return place


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_text_goes_on_as_the_model_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run("run")
    codec = run.config.data.codec(run.facts, run.directory)
    added = [*stream(run.model, codec.encode("the "), 40, context_length=codec.context_length)]
    expected = codec.decode(torch.tensor(added))
    options = ("--temperature", "0", "--max-tokens", "40", "--prompt")
    assert said(capsys, "generate", "run", *options, "the ") == f"{expected}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("the "))
    assert said(capsys, "generate", "run", *options, "-") == f"{expected}\n"
    stop = expected[5:8]
    assert said(capsys, "generate", "run", "--stop", stop, *options, "the ") == f"{expected.partition(stop)[0]}\n"
    drawn = [
        said(capsys, "generate", "run", *options, "the ", "--temperature", "2", "--seed", seed)
        for seed in ("1", "1", "2")
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    short = ("generate", "run", "--temperature", "0", "--max-tokens", "10", "--prompt", "the ")
    assert said(capsys, *short, "--draft", "run") == said(capsys, *short)
    drafted = said(capsys, "generate", "run", "--temperature", "0", "--prompt", "the ", "--draft", "run")
    assert drafted == f"{codec.decode(torch.tensor(added[:12]))}\n"  # as many as the model takes
    sampling: Any = {"repetition_penalty": 1.5, "no_repeat_ngram": 2}
    penalized = [*stream(run.model, codec.encode("the "), 40, context_length=codec.context_length, **sampling)]
    flags = ("--repetition-penalty", "1.5", "--no-repeat-ngram", "2")
    shown = said(capsys, "generate", "run", *flags, *options, "the ")
    assert shown == f"{codec.decode(torch.tensor(penalized))}\n" != f"{expected}\n"


def test_several_prompts_are_rows(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    run = load_run("run")
    codec = run.config.data.codec(run.facts, run.directory)
    begins = ["the ", "a", "of it "]
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": it}) + "\n" for it in begins))
    (folder / "prompts.txt").write_text("".join(f"{it.strip()}\n" for it in begins))

    def text_of(begin: str, **sampling: Any) -> str:
        added = [*stream(run.model, codec.encode(begin), 9, context_length=codec.context_length, **sampling)]
        return codec.decode(torch.tensor(added))

    options = ("generate", "run", "--temperature", "0", "--max-tokens", "9", "--prompts")
    lines = said(capsys, *options, "prompts.jsonl").splitlines()
    expected = [text_of(it) for it in begins]
    assert [json.loads(line) for line in lines] == [
        {"name": f"prompts.jsonl:{number}", "text": text, "finished": False} for number, text in enumerate(expected, 1)
    ]
    stop = expected[1][2:5]
    flags = ("--stop", stop, "--logit-bias", f"{ord(expected[0][0])}=-100", "--batch-size", "2")
    assert said(capsys, *options, "prompts.txt", *flags, "--out", "out.jsonl") == "3 texts are in out.jsonl\n"
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    for row, begin in zip(rows, begins, strict=True):
        text = text_of(begin.strip(), logit_bias={ord(expected[0][0]): -100.0})
        assert (row["text"], row["finished"]) == (text.partition(stop)[0], stop in text)
    assert main([*options, "prompts.txt", "--out", "out.jsonl"]) == 2
    assert "out.jsonl: is there already and stays as it is" in capsys.readouterr().err


def test_several_texts_of_a_prompt_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run("run")
    codec = run.config.data.codec(run.facts, run.directory)
    options = ("generate", "run", "--prompt", "the ", "--max-tokens", "6", "--samples", "3")
    seeded = (*options, "--temperature", "2", "--seed")
    drawn = [said(capsys, *seeded, seed) for seed in ("1", "1", "2")]
    assert drawn[0] == drawn[1] != drawn[2]
    rows = [json.loads(line) for line in drawn[0].splitlines()]
    assert [(row["name"], row["sample"]) for row in rows] == [("--prompt", number) for number in range(3)]
    assert len({row["text"] for row in rows}) > 1
    flags = ("--num-beams", "4", "--length-penalty", "0.5", "--early-stopping", "never")
    searched = [json.loads(line)["text"] for line in said(capsys, *options, *flags).splitlines()]
    beams = Beams(num_beams=4, length_penalty=0.5, early_stopping="never")
    prompt, context = codec.encode("the "), {"context_length": codec.context_length}
    expected = complete(run.model, [prompt], 6, n_samples=3, beams=beams, **context).tokens
    assert searched == [codec.decode(it) for it in expected]


def test_predict_goes_on_with_each_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    run = load_run("run")
    codec = run.config.data.codec(run.facts, run.directory)
    (folder / "begin.txt").write_text("the \n\na\n")
    options = ("predict", "run", "begin.txt", "--set", "task.sample_length=7", "--out")
    said(capsys, *options, "texts.jsonl", "--force")
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == ["begin.txt:1", "begin.txt:3"]
    for row, begin in zip(rows, ("the ", "a"), strict=True):
        tokens = codec.encode(begin)
        added = [*stream(run.model, tokens, 7, context_length=codec.context_length)]
        assert row["text"] == codec.decode(torch.tensor([*tokens.tolist(), *added]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --prompt TEXT"),
        (["--prompt", ""], "--prompt: expected a text of at least one character"),
        (["--prompt", "x", "--chat"], "plain text has no chat template"),
        (["--prompt", "x", "--system", "y"], "--system is for --chat"),
        (["--prompt", "x", "--top-p", "0"], "--top-p: expected more than 0"),
        (["--prompt", "x", "--no-repeat-ngram", "0"], "--no-repeat-ngram: expected 1 or more, got 0"),
        (["--prompt", "x", "--max-tokens", "0"], "--max-tokens: expected at least 1"),
        (["--prompts", "config.yaml", "--prompt", "x"], "expected --prompt TEXT or --prompts FILE, got both"),
        (["--samples", "2"], "expected --prompt TEXT (or - for standard input), or --prompts FILE"),
        (["--prompt", "x", "--samples", "0"], "--samples: expected at least 1, got 0"),
        (["--prompt", "x", "--samples", "2", "--temperature", "0"], "--samples: expected a --temperature above 0"),
        (["--prompt", "x", "--samples", "3", "--num-beams", "2"], "--samples: expected at most the 2 of num_beams"),
        (["--prompt", "x", "--num-beams", "2", "--temperature", "1"], "--temperature: expected 0 with num_beams"),
        (["--prompt", "x", "--length-penalty", "2"], "--length-penalty: expected --num-beams N with it"),
        (["--prompt", "x", "--out", "texts.jsonl"], "--out texts.jsonl: expected FILE.jsonl or FILE.csv, with"),
        (["--prompt", "x", "--samples", "2", "--draft", "run"], "--draft is for one text"),
        (["--prompt", "x", "--draft", "nowhere"], "there is no run at nowhere"),
        (["--prompt", "x", "--draft", "run", "--max-tokens", "16"], "at most 16 tokens together, got a prompt of 1"),
        (["--prompts", "nothing.txt"], "nothing.txt"),
        (["--prompt", "x", "--logit-bias", "999=1"], "logit_bias: expected tokens of 0 to"),
        (["--prompt", "x", "--step", "3"], "has no checkpoint of step 3"),
    ],
)
def test_what_can_not_be_generated_is_said(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "run", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_bias_says_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["generate", "run", "--prompt", "x", "--logit-bias", "7"])
    assert "--logit-bias: expected TOKEN=X, such as 50=-inf, got '7'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_a_program_of_a_run_takes_tensors_of_any_origin(capsys: pytest.CaptureFixture[str]) -> None:
    Path("moved.txt").rename("corpus.txt")  # the example is of the data then, of which batches are views
    try:
        lines = said(capsys, "export", "run", "--to", "pt2", "--best").splitlines()
    finally:
        Path("corpus.txt").rename("moved.txt")
    assert lines[0] == "example   2 items of the validation data"
    extra = {"burnlike.json": ""}
    program = torch.export.load("run/exports/model.pt2", extra_files=extra).module()
    run = load_run("run", best=True)
    tokens = torch.randint(256, (3, 5))
    torch.testing.assert_close(program(tokens), run.model(tokens))
    metadata = json.loads(extra["burnlike.json"])
    assert (metadata["step"], metadata["model"]) == ("8", "DecoderLm")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_without_its_data_a_run_is_exported_with_random_values(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "export", "run", "--to", "pt2", "--out", "other.pt2", "--dtype", "float16").splitlines()
    assert lines[0].startswith("example   random values, as the data of the run can't be read (")
    assert torch.export.load("other.pt2").module()(torch.randint(256, (3, 5)))[0].dtype == torch.float16


def test_both_kinds_of_normalize_are_named_in_exports() -> None:
    run = load_run("run")
    kinds = [{"type": it, "mean": [0.5], "std": [0.25]} for it in ("Normalize", "torchvision.Normalize")]
    run.config = TrainConfig.from_dict({**run.config.to_dict(), "transforms": [*kinds, {"type": "torchvision.RGB"}]})
    assert source_of_run(run).normalize == [((0.5,), (0.25,))] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["run", "--to", "hf", "--quantize", "int8"], "--quantize int8: int8 is for onnx and pt2"),
        (["run", "--to", "onnx", "--dtype", "bfloat16"], "onnxruntime computes in float32 and float16"),
        (["run", "--to", "onnx", "--with-normalize"], "the run's transforms have no Normalize"),
        (["small.yaml", "--to", "onnx"], "give the weights of this model by --record FILE"),
        (["run", "--to", "onnx", "--record", "x"], "--record is for the YAML of a model"),
        (["nowhere", "--to", "onnx"], "there is no run at nowhere"),
    ],
)
def test_what_can_not_be_exported_is_said_and_nothing_is_written(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(map(str, Path().rglob("*")))
    assert main(["export", *options]) == 2
    assert message in capsys.readouterr().err
    assert sorted(map(str, Path().rglob("*"))) == before


@pytest.mark.slow
def test_transformers_continues_a_text_as_the_run_does(capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    Path("moved.txt").rename("corpus.txt")
    try:
        assert main(["tokenizer", "corpus.txt", "--vocab-size", "300", "--out", "words.json"]) == 0
        changes = ("--set", "data.tokenizer=words.json", "--set", "model.vocab_size=300", "--run-dir", "words")
        assert main(["train", "small.yaml", *SHORT[:-2], *changes]) == 0
    finally:
        Path("corpus.txt").rename("moved.txt")
    assert main(["export", "words", "--to", "hf", "--out", "hf"]) == 0
    capsys.readouterr()
    model, tokenizer = AutoModelForCausalLM.from_pretrained("hf"), AutoTokenizer.from_pretrained("hf")
    answer = model.generate(**tokenizer("the ", return_tensors="pt"), do_sample=False, max_new_tokens=12)[0]
    written = said(capsys, "generate", "words", "--temperature", "0", "--max-tokens", "12", "--prompt", "the ")
    assert f"the {written}" == f"{tokenizer.decode(answer)}\n"
    assert main(["generate", "run", "--prompt", "the ", "--draft", "words"]) == 2
    assert "--draft words: expected a run of the same 256 tokens, got one of 300" in capsys.readouterr().err


@pytest.mark.parametrize("characters", [17, 1000])
def test_another_text_is_measured_whole(characters: int, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.txt").write_text(Path("moved.txt").read_text()[:characters])
    found = json.loads(said(capsys, "evaluate", "run", "--data", "other.txt", "--json"))
    tokens = torch.tensor([*Path("other.txt").read_bytes()])
    windows = tokens[: (characters - 1) // 16 * 16 + 1].unfold(0, 17, 16)
    logits = load_run("run").model(windows[:, :-1]).flatten(0, 1)
    assert (found["split"], found["items"]) == ("all", len(windows))
    expected = torch.nn.functional.cross_entropy(logits, windows[:, 1:].flatten()).item()
    assert found["values"]["loss"] == pytest.approx(expected, rel=1e-5)
