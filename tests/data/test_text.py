"""Texts, tokenizers and tensors as data."""

import os
import sysconfig
from pathlib import Path

import pytest
import torch
from torch.utils.data import default_collate

from burnlike.cli.main import main
from burnlike.config import Config, DatasetConfig
from burnlike.data import DataLoader, TensorDataset, TextCorpusConfig
from burnlike.data.codec import PIECE_CHARACTERS, TextCodec, TextTokenizer, pieces_of, text_pieces, until
from burnlike.data.text import TRAINING_FILES, VALIDATION_FILES, stdlib_files
from burnlike.errors import ConfigError, DataError, ShapeError
from burnlike.train import Job

from ..train.samples import load_config

TEXT = "".join(f"line {i}: the quick brown fox\n" for i in range(400))


def corpus(**options):
    return TextCorpusConfig(**{"context_length": 8, **options}).init()


def text_of(tokens: torch.Tensor) -> str:
    return bytes(tokens.tolist()).decode()


def test_default_corpus_is_python_source_with_other_files_for_validation() -> None:
    assert not set(TRAINING_FILES) & set(VALIDATION_FILES)
    assert list(TRAINING_FILES) == sorted(TRAINING_FILES)
    assert len(stdlib_files(TRAINING_FILES)) == len(TRAINING_FILES)
    assert len(stdlib_files(VALIDATION_FILES)) == len(VALIDATION_FILES)
    found = TextCorpusConfig().init()
    assert len(found.train_tokens) > 3_000_000
    assert 200_000 < len(found.valid_tokens) < 400_000
    text = Path(sysconfig.get_path("stdlib"), "asyncio/locks.py").read_bytes()
    assert bytes(found.valid_tokens[: len(text)].tolist()) == text


def test_one_file_is_split_by_position(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    found = corpus(path=str(tmp_path / "a.txt"), validation_fraction=0.25)
    assert text_of(found.train_tokens) + text_of(found.valid_tokens) == TEXT
    assert len(found.valid_tokens) == pytest.approx(len(TEXT) / 4, abs=1)


def test_several_files_are_split_by_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    texts = {f"{'sub/' * (i % 2)}file{i:02}.txt": f"{i:02} " * 100 for i in range(20)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".hidden").write_bytes(b"\0\0")
    found = corpus(path=str(tmp_path), validation_fraction=0.2)
    train, valid = text_of(found.train_tokens), text_of(found.valid_tokens)
    kept = [name for name in sorted(texts) if texts[name] in valid]
    assert len(kept) == 4
    assert valid == "".join(texts[name] for name in kept)
    assert train == "".join(texts[name] for name in sorted(texts) if name not in kept)


def test_files_larger_than_the_share_leave_the_smallest_for_validation(tmp_path: Path) -> None:
    (tmp_path / "big").write_text("ab" * 1000)
    (tmp_path / "small").write_text("cd" * 200)
    found = corpus(path=str(tmp_path), validation_fraction=0.1)
    assert text_of(found.valid_tokens) == "cd" * 200


def test_a_text_that_is_too_short_names_the_fraction_that_helps(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TEXT)
    for fraction, part, other in ((0.5, "training", "smaller"), (0.1, "validation", "larger")):
        length = len(TEXT) * 6 // 10
        with pytest.raises(DataError, match=rf"{part} text .* a {other} data.validation_fraction"):
            corpus(path=str(tmp_path / "a"), validation_fraction=fraction, context_length=length)


def test_own_validation_path_leaves_the_training_text_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(TEXT)
    (tmp_path / "b").write_text("other text")
    found = corpus(path=str(tmp_path / "a"), validation_path=str(tmp_path / "b"))
    assert (text_of(found.train_tokens), text_of(found.valid_tokens)) == (TEXT, "other text")


def test_pattern_picks_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.bin").write_bytes(b"\0" * 100)
    assert len(corpus(path=str(tmp_path), pattern="*.txt").train_tokens) > 1000
    with pytest.raises(DataError, match=r"no file that matches data.pattern '\*.md'"):
        corpus(path=str(tmp_path), pattern="*.md")


def test_text_beyond_ascii_round_trips_through_bytes() -> None:
    codec = TextCodec()
    assert codec.decode(codec.encode("naïve 漢字 🙂")) == "naïve 漢字 🙂"
    assert codec.decode(torch.tensor([65, 0xFF])) == "A\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("stream", "pieces"),
    [
        (b"a\xc3\xa9b", ["a", "é", "b"]),
        ("🙂漢".encode(), ["🙂", "漢"]),
        (b"a\xff\xff\xff\xff\xe6\xbc\xa2", None),
        (b"a\xe6\xbc", ["a", "\N{REPLACEMENT CHARACTER}"]),
        (b"", []),
    ],
)
def test_no_character_is_cut_in_a_stream(stream: bytes, pieces: list[str] | None) -> None:
    found = [*text_pieces(stream, TextCodec().decode)]
    assert "".join(found) == stream.decode(errors="replace")
    assert pieces is None or found == pieces


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        (["ab", "cd", "ef"], ["cde"], ["ab"]),
        (["ab", "cx"], ["cde", "xy"], ["ab", "c", "x"]),
        (["a<", "b<", "/s", "> more"], ["</s>"], ["a", "<b"]),
        (["stop now"], ["now", "stop"], []),
        (["ab"], [], ["ab"]),
    ],
)
def test_a_stop_text_may_lie_across_pieces(pieces: list[str], stops: list[str], expected: list[str]) -> None:
    assert [*until(pieces, stops)] == expected


def test_fingerprint_follows_the_text_not_the_file_names(tmp_path: Path) -> None:
    for name, text in (("a", TEXT), ("b", TEXT), ("c", TEXT.replace("fox", "cat"))):
        (tmp_path / name).write_text(text)
    a, b, c = (corpus(path=str(tmp_path / name)) for name in "abc")
    assert a.fingerprint == b.fingerprint == a.train.fingerprint == a.valid.fingerprint
    assert a.fingerprint != c.fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"x", "the training text has 1 bytes, expected at least 9"),
        (b"x" * 1000, "at least two different characters, got 900 times 'x'"),
        (b"ab" * 10, r"the validation text has 2 bytes, expected at least 9 .*data.context_length"),
        (b"some text\0more" * 50, "expected text, got a zero byte at offset 9"),
        (b"caf\xe9 " * 50, r"expected UTF-8 text, got byte 0xe9 at offset 3; .*convert it to UTF-8"),
    ],
)
def test_unusable_text_is_refused_with_place_and_remedy(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        corpus(path=str(path))
    assert str(path) in str(caught.value)


def test_missing_path_and_empty_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data.path: there is no file or directory .*nowhere"):
        corpus(path=str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="no file that matches"):
        corpus(path=str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(TEXT)
    path.chmod(0)
    with pytest.raises(DataError, match="can't be read: Permission denied"):
        corpus(path=str(path))


def test_a_pattern_may_not_look_into_every_directory_many_times() -> None:
    assert TextCorpusConfig(path="x", pattern="**/docs/**/*.md").pattern == "**/docs/**/*.md"
    with pytest.raises(ConfigError, match=r"pattern: expected at most 2 times `\*\*`"):
        TextCorpusConfig(path="x", pattern="**/a/**/b/**/*")


def test_only_regular_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zeros", "pipe"):
        (tmp_path / name).mkdir()
    os.symlink("/dev/zero", tmp_path / "zeros" / "a.txt")
    os.mkfifo(tmp_path / "pipe" / "a.txt")
    for path, kind in (
        ("/dev/zero", "a device"),
        (tmp_path / "zeros/a.txt", "a device"),
        (tmp_path / "pipe/a.txt", "a pipe"),
    ):
        with pytest.raises(DataError, match=f"can't be read: it is {kind}, and only regular files are read"):
            corpus(path=str(path))
        with pytest.raises(DataError, match=f"can't be read: it is {kind}"):
            corpus(path=__file__, validation_path=str(path))
    for folder in ("zeros", "pipe"):
        with pytest.raises(DataError, match="no file that matches"):
            corpus(path=str(tmp_path / folder))


def test_more_text_than_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(1 << 42)  # holes, which take no space
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(DataError, match=r"data.path: .* bytes of text, which take .* bytes are available"):
            corpus(path=str(path))


@pytest.mark.parametrize("pattern", ["/etc/*", "../*"])
def test_pattern_must_stay_below_the_directory(pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern: expected a pattern below the directory"):
        TextCorpusConfig(path="x", pattern=pattern)


def test_validation_path_needs_a_path() -> None:
    with pytest.raises(ConfigError, match="validation_path: expected `path` to be set too"):
        TextCorpusConfig(validation_path="x")


def test_yaml_picks_it_by_type() -> None:
    class Root(Config):
        data: DatasetConfig

    root = Root.from_yaml("data: {type: Text, context_length: 3}")
    assert root.data == TextCorpusConfig(context_length=3)


TOKENIZED_TEXT = "".join(f"the cat number {i % 13} sat on the mat — größer 🐈\n" for i in range(300))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TOKENIZED_TEXT)
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
    for text in (TOKENIZED_TEXT, "never seen: \x01 你好\n\n  \t", ""):
        assert of.decode(of.encode(text)) == text
    assert len(of.encode(TOKENIZED_TEXT)) < len(TOKENIZED_TEXT.encode()) / 2


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
    assert whole == TOKENIZED_TEXT
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
    assert "--vocab-size: expected at least 261" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"there is no file .*none.json; make one by `burnlike tokenizer`"):
        TextCorpusConfig(path=str(text), tokenizer=str(tmp_path / "none.json")).init()
    with pytest.raises(DataError, match="expected a tokenizer"):
        TextCorpusConfig(path=str(text), tokenizer=str(text)).init()


X, Y = torch.randn(7, 2, 3), torch.arange(7)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_items(workers: int) -> None:
    data = TensorDataset(X, Y)
    of = DataLoader(data, batch_size=3, seed=5, num_workers=workers)
    for step, (x, y) in enumerate(of):
        expected = default_collate([data[index] for index in of.indices(0, step)])
        assert torch.equal(x, expected[0])
        assert torch.equal(y, expected[1])


def test_a_dataset_of_the_users_that_makes_batches_and_fails_is_named() -> None:
    class Fails(TensorDataset):
        def batch(self, indices, device):
            raise KeyError("column")

    with pytest.raises(DataError, match="items 0, 1, 2 of Fails: KeyError: 'column'"):
        list(DataLoader(Fails(X, Y), batch_size=3))


@pytest.mark.parametrize("tensors", [(), (X, Y[:3]), (torch.tensor(1.0),)])
def test_tensors_that_do_not_fit_are_refused(tensors) -> None:
    with pytest.raises(ShapeError, match="the same number of rows"):
        TensorDataset(*tensors)
