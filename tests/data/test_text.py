"""TextCorpus: where text comes from, how it is split, and what is refused."""

import os
import sysconfig
from pathlib import Path

import pytest
import torch

from burnlike.config import Config, DatasetConfig
from burnlike.data import TextCorpusConfig
from burnlike.data.codec import TextCodec, text_pieces, until
from burnlike.data.text import TRAINING_FILES, VALIDATION_FILES, stdlib_files
from burnlike.errors import ConfigError, DataError

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
