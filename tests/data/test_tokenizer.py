"""Byte-pair tokens: learned by the command, read by the text corpus."""

from pathlib import Path

import pytest
import torch

from burnlike.cli.main import main
from burnlike.data import TextCorpusConfig
from burnlike.data.codec import PIECE_CHARACTERS, TextTokenizer, pieces_of
from burnlike.errors import ConfigError, DataError
from burnlike.train import Job

from ..train.samples import load_config

TEXT = "".join(f"the cat number {i % 13} sat on the mat — größer 🐈\n" for i in range(300))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tokenizer(text: Path, tmp_path: Path) -> Path:
    assert main(["tokenizer", str(text), "--vocab-size", "300", "--out", str(tmp_path / "t.json")]) == 0
    return tmp_path / "t.json"


def test_the_command_learns_and_says_what(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        assert main(["tokenizer", str(text), "--vocab-size", "300", "--out", str(file)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert f"{files[0]}: 300 tokens; " in capsys.readouterr().out


def test_any_text_is_the_same_after_a_round_trip(tokenizer: Path) -> None:
    of = TextTokenizer(tokenizer)
    for text in (TEXT, "never seen: \x01 你好\n\n  \t", ""):
        assert of.decode(of.encode(text)) == text
    assert len(of.encode(TEXT)) < len(TEXT.encode()) / 2


def test_a_file_that_cuts_and_fills_up_texts_gives_the_same_tokens(tokenizer: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    other = Tokenizer.from_file(str(tokenizer))
    other.enable_truncation(2)
    other.enable_padding(length=64)
    other.save(str(tmp_path / "other.json"))
    cut, whole = TextTokenizer(tmp_path / "other.json"), TextTokenizer(tokenizer)
    text = "def f(x):\n    return x\n"
    assert torch.equal(cut.encode(text), whole.encode(text))
    assert cut.encode_all([text, "x"]) == whole.encode_all([text, "x"])


def test_the_corpus_has_tokens_that_decode_to_its_text(text: Path, tokenizer: Path) -> None:
    data = TextCorpusConfig(path=str(text), tokenizer=str(tokenizer), context_length=16).init()
    whole = data.decode(data.train_tokens) + data.decode(data.valid_tokens)
    assert whole == TEXT
    assert data.vocab_size == 300
    batch = data.batcher.batch([data.train[0], data.train[1]], torch.device("cpu"))
    assert (batch.dtype, batch.shape) == (torch.int64, (2, 17))
    assert data.fingerprint != TextCorpusConfig(path=str(text), context_length=16).init().fingerprint
    assert data.decode(data.encode("the cat")) == "the cat"


def test_pieces_end_with_lines() -> None:
    line = "x" * 999 + "\n"
    pieces = list(pieces_of(line * 250 + "end"))
    assert "".join(pieces) == line * 250 + "end"
    assert [len(it) for it in pieces] == [PIECE_CHARACTERS, PIECE_CHARACTERS, 50_003]


def test_a_model_with_fewer_tokens_is_refused_and_one_with_enough_trains(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(ConfigError, match=r"model.vocab_size: expected at least 300, .* got 256"):
        Job(load_config(tmp_path, f"data.tokenizer={tokenizer}"))
    job = Job(load_config(tmp_path, f"data.tokenizer={tokenizer}", "model.vocab_size=300"))
    assert job.learner.evaluate(job.valid_loader, 1)["loss"] == pytest.approx(torch.tensor(300.0).log().item(), rel=0.1)


def test_mistakes(tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenizer", str(text), "--vocab-size", "100"]) == 2
    assert "--vocab-size: expected at least 256" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"there is no file .*none.json; make one by `burnlike tokenizer`"):
        TextCorpusConfig(path=str(text), tokenizer=str(tmp_path / "none.json")).init()
    with pytest.raises(DataError, match="expected a tokenizer"):
        TextCorpusConfig(path=str(text), tokenizer=str(text)).init()
