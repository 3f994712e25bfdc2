"""Streams of texts and chats: their order, how they go on, and what is refused."""

import fcntl
import gzip
import json
import os
import pickle
import random
import shutil
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from burnlike.cli.main import main
from burnlike.data import ChatConfig, DataLoader, StreamConfig
from burnlike.data.sources import parquet
from burnlike.data.streams import stream as tokenized
from burnlike.data.streams.files import made
from burnlike.data.streams.parts import STRETCH, BlockOrder, Interleave
from burnlike.errors import ConfigError, DataError

from ..chat.samples import CHATML, conversations, tokenizer, tokenizer_in, write_lines as write_rows
from .samples import loader, stream, text_of, write_lines, write_parquet


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def joined(numbers: range) -> bytes:
    return "".join(text_of(it) + "\n\n" for it in numbers).encode()


def numbers_of(data: Any, **options: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in loader(data, **options)]


@pytest.mark.parametrize("kind", ["lines", "mark", "gzip", "parquet"])
def test_windows_go_through_the_text_of_all_shards(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        folder, numbers = write_parquet(tmp_path / "data"), range(1000, 1100)
    else:
        folder, numbers = write_lines(tmp_path / "data"), range(120)
    if kind == "gzip":
        for path in folder.iterdir():
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    if kind == "mark":
        for path in folder.iterdir():
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert stream(folder, columns=["n"]).valid[0] == {"n": 0}
    data = stream(folder, context_length=10)
    tokens = joined(numbers)
    windows = [*(data.valid[it] for it in range(1)), *(data.train[it] for it in range(len(data.train)))]
    assert [bytes(it.tolist()) for it in windows] == [tokens[it : it + 11] for it in range(0, len(tokens) - 10, 10)]
    assert data.decode(windows[0]) == tokens[:11].decode()


@pytest.mark.parametrize("kind", [".npy", ".bin", "lists"])
def test_windows_go_through_tokens_that_others_have_made(kind: str, tmp_path: Path) -> None:
    tokens = numpy.arange(1, 101)
    for number, part in enumerate((tokens[:37], tokens[37:])):
        if kind == "lists":
            rows = [{"ids": part[it : it + 9].tolist()} for it in range(0, len(part), 9)]
            (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(it) + "\n" for it in rows))
        elif kind == ".npy":
            numpy.save(tmp_path / f"{number}.npy", part.astype("int32"))
        else:
            part.astype("<u2").tofile(tmp_path / f"{number}.bin")
    data = stream(tmp_path, context_length=5, **({"tokens": "ids"} if kind == "lists" else {}))
    assert data.train[7].tolist() == [41, 42, 43, 44, 45, 46]
    assert data.train[6].tolist() == [36, 37, 38, 39, 40, 41]
    data.expect_vocabulary(80)
    with pytest.raises(DataError, match=r"expected tokens in 0\.\.79 .*got 80 as token 42"):
        data.train[14]


def test_an_index_of_megatron_says_the_type_of_its_tokens(tmp_path: Path) -> None:
    numpy.arange(50, dtype="<i4").tofile(tmp_path / "a.bin")
    index = tmp_path / "a.idx"
    index.write_bytes(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([4]) + bytes(16))
    assert stream(tmp_path, context_length=5).train[1].tolist() == [10, 11, 12, 13, 14, 15]
    index.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"a.idx: expected an index of Megatron-LM"):
        stream(tmp_path)


def test_what_another_process_makes_is_left_to_it_or_waited_for(tmp_path: Path) -> None:
    path = made("things", "fact", lambda it: (it / "a").touch())
    assert path is not None
    shutil.rmtree(path)
    with path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process is making it
        assert made("things", "fact", lambda _: None, waits=False) is None
    assert made("things", "fact", lambda it: (it / "a").touch(), waits=False) == path


def test_packed_documents_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "abc"}\n{"text": "defgh"}\n{"text": "ij"}\n')
    data = stream(tmp_path, context_length=6, packing=True, separator=".")
    first, second = data.valid[0], data.train[0]
    assert bytes(first["input_ids"].tolist()) == b"abc.de"
    assert first["position_ids"].tolist() == [0, 1, 2, 3, 0, 1]
    assert first["labels"].tolist() == [-100, *b"bc.", -100, ord("e")]
    assert bytes(second["input_ids"].tolist()) == b"efgh.i"
    assert second["position_ids"].tolist() == [0, 1, 2, 3, 4, 0]
    assert second["labels"].tolist() == [-100, *b"fgh.", -100]
    assert loader(data, batch_size=1).dataset.batch([0], torch.device("cpu"))["labels"].shape == (1, 6)


def test_a_pass_has_every_row_once_and_no_row_of_validation(tmp_path: Path) -> None:
    data = stream(write_lines(tmp_path / "a"), write_parquet(tmp_path / "b"), columns=["n"], validation_items=5)
    seen = [it for batch in numbers_of(data) for it in batch]
    assert sorted(seen) == [*range(5, 120), *range(1005, 1100)]
    assert seen != sorted(seen)
    assert sorted(data.valid[it]["n"].item() for it in range(10)) == [*range(5), *range(1000, 1005)]


def test_weights_say_how_much_of_a_training_each_source_is(tmp_path: Path) -> None:
    data = stream((write_lines(tmp_path / "a"), 3), (write_parquet(tmp_path / "b"), 1), columns=["n"])
    seen = torch.tensor(numbers_of(data, batch_size=20, steps_per_epoch=30)).flatten()
    assert (seen < 1000).sum() == pytest.approx(450, abs=1)
    counts = torch.bincount(seen[seen < 1000], minlength=120)[1:]
    assert set(counts.tolist()) <= {3, 4}, "every row has come before any comes again"


@pytest.mark.parametrize("packing", [True, False])
def test_goes_on_in_the_middle_with_other_workers_and_processes(packing: bool, tmp_path: Path) -> None:
    sources = (write_lines(tmp_path / "a"), 0.7), (write_parquet(tmp_path / "b"), 0.3)
    options = {"context_length": 16, "packing": packing, "validation_items": 2}
    whole = loader(stream(*sources, **options), batch_size=4)
    batches = [*whole, *whole]
    stopped = loader(stream(*sources, **options), batch_size=4, num_workers=2)
    for number, _ in enumerate(stopped, start=1):
        if number == 5:
            break
    state = stopped.state_dict()
    ranks = [loader(stream(*sources, **options), batch_size=2, rank=it, world_size=2) for it in range(2)]
    for it in ranks:
        it.load_state_dict(state)
    rest = [torch.cat([flat(it) for it in parts]) for parts in zip(*map(list, ranks), strict=True)]
    assert [it.tolist() for it in rest] == [flat(it).tolist() for it in batches[5 : len(whole)]]


def flat(batch: Any) -> torch.Tensor:
    return batch if isinstance(batch, torch.Tensor) else torch.stack([*batch.values()], dim=1)


def test_columns_become_tensors_and_text(tmp_path: Path) -> None:
    table = pa.table({"x": [0.5, 1.5, 2.5], "v": [[1, 2], [3, 4], [5, 6]], "s": ["a", "b", "c"], "y": [0, 1, 2]})
    large = pa.table({"x": [1e300], "v": [[1, 2]], "s": pa.array(["a"]).dictionary_encode(), "y": [0]})
    for name, rows in (("a", table), ("b", large)):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    data = stream(tmp_path, columns=["x", "v", "s"])
    with pytest.raises(DataError, match=r"b.parquet: row 1: 'x': expected a number up to 3.4e\+38"):
        _ = data.train[2]
    batch = data.train.batch([0, 1], torch.device("cpu"))
    assert batch["x"].tolist() == [1.5, 2.5]
    assert batch["x"].dtype == torch.float32
    assert batch["v"].tolist() == [[3, 4], [5, 6]]
    assert batch["s"] == ["b", "c"]
    assert data.train[0]["v"].tolist() == [3, 4]
    inputs, targets = stream(tmp_path, columns=["v", "y"]).train.batch([1], torch.device("cpu"))
    assert (inputs.tolist(), targets.tolist()) == ([[5, 6]], [2])


def write_values(folder: Path, *values: Any) -> Path:
    """JSON lines of one column; the first row is for validation."""
    folder.mkdir()
    (folder / "a.jsonl").write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    return folder


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 1, 2, 0.5, 3], torch.float32),
        ([[], [1], [2], [0.5], [3]], torch.float32),
        ([0, 16777217, 2**62], torch.int64),  # ids stay what they are
        ([True, False, True], torch.bool),
        ([0.5, 16777218, 3.40282347e38], torch.float32),
    ],
)
def test_a_column_of_lines_has_one_type_in_all_batches(values: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    data = stream(write_values(tmp_path / "data", *values), columns=["x"])
    expected = torch.tensor(values[1:], dtype=dtype)
    for size in (1, 2):
        batches = [batch["x"] for batch in DataLoader(data.train, batch_size=size, num_workers=size - 1)]
        assert {batch.dtype for batch in batches} == {dtype}
        assert torch.equal(torch.cat(batches), expected)
    assert torch.equal(torch.stack([data.train[index]["x"] for index in range(len(expected))]), expected)
    assert data.valid[0]["x"].dtype == dtype


def test_sources_and_validation_have_the_type_that_all_of_them_have(tmp_path: Path) -> None:
    for name, values in (("ints", [1, 2]), ("floats", [0.5, 1.5])):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": values}), tmp_path / name / "a.parquet")
    lines = write_values(tmp_path / "lines", 7)
    options = {"validation_items": None, "validation_path": str(tmp_path / "floats")}
    data = stream(lines, tmp_path / "ints", columns=["x"], **options)
    batches = [batch["x"].tolist() for batch in loader(data, seed=None, batch_size=2)]
    assert batches == [[7.0, 1.0], [2.0]]
    assert data.train[0]["x"].dtype == torch.float32


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 1e300], r"a.jsonl:2: 'x': expected a number up to 3.4e\+38, the largest of float32, got 1e\+300"),
        ([[0.5], [1, -1e39]], r"got -1e\+39"),
        ([0.5, 16777217], r"a.jsonl:2: 'x': expected whole numbers up to 16,777,216, .*, got 16777217"),
        ([*[0] * 1024, 0.5], r"a.jsonl:1025: 'x': expected whole numbers, the type .* first 1,024 lines.*, got 0.5"),
        (["a", 3], r"a.jsonl:2: 'x': expected text, .*, got 3"),
        ([3, "a"], r"a.jsonl:2: 'x': expected whole numbers, .*, got 'a'"),
        ([[1, 2], [1, None]], r"a.jsonl:2: 'x': expected whole numbers, .*, got null"),
        ([1, True], r"expected whole numbers, .*, got true"),
        ([{"a": 1}, {"a": 2}], r"column 'x': expected text, numbers or lists of numbers, got \{"),
    ],
)
def test_values_of_another_type_than_their_column_are_named(values: Any, message: str, tmp_path: Path) -> None:
    data = stream(write_values(tmp_path / "data", *values), columns=["x"])
    with pytest.raises(DataError, match=message):
        _ = [*DataLoader(data.train, batch_size=len(values))]


def test_text_becomes_tokens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_lines(tmp_path / "data")
    before = stream(folder).train[3]
    monkeypatch.setattr(tokenized, "_write", lambda *_: pytest.fail("tokens were made again"))
    assert torch.equal(stream(folder).train[3], before)


def damage(folder: Path) -> Path:
    write_lines(folder)
    path = folder / "part-1.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[6] = lines[6][:20] + "\n"
    path.write_text("".join([*lines[:3], "\n", *lines[3:]]))
    return path


def test_a_damaged_line_is_named_before_a_training_or_left_out_and_counted(tmp_path: Path) -> None:
    path = damage(tmp_path / "data")
    data = stream(path.parent, context_length=10)
    with pytest.raises(DataError, match=rf"{path}:8: expected one JSON object a line.* on_bad_item='skip'"):
        loader(data)
    assert loader(data, on_bad_item="skip").skipped == 1
    text = b"".join(bytes(data.train[it][:-1].tolist()) for it in range(len(data.train)))
    assert b"document 45" in text
    assert b"document 46" not in text


def test_a_damaged_row_is_named_when_it_is_read_or_left_out_and_counted(tmp_path: Path) -> None:
    path = damage(tmp_path / "data")
    data = stream(path.parent, columns=["n"])
    with pytest.raises(DataError, match=rf"{path}:8: expected one JSON object a line"):
        numbers_of(data)
    skipping = loader(data, on_bad_item="skip", num_workers=1)
    seen = sorted(it for batch in skipping for it in batch["n"].tolist())
    assert seen == [it for it in range(1, 120) if it != 46]
    assert skipping.skipped == 1


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('{"txt": "a"}', "expected the key 'text'; did you mean 'txt'"),
        ('{"text": 5}', "expected text in 'text', got int '5'"),
        ("[1]", "expected a JSON object, got list"),
        ('{"text": null}', "expected text in 'text', got none"),
    ],
)
def test_rows_without_text_are_named(row: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "long enough for some windows"}\n' + row + "\n")
    with pytest.raises(DataError, match=rf"a.jsonl:2: {expected}"):
        loader(stream(tmp_path, context_length=5))


def test_a_shard_that_has_changed_or_is_gone_is_named_when_a_run_goes_on(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "data")
    state = loader(stream(folder, columns=["n"])).state_dict()
    path = folder / "part-1.jsonl"
    text = path.read_text()
    path.write_text(text.replace("document 41", "document XX"))
    with pytest.raises(DataError, match=rf"one of other data.*changed are {path}"):
        loader(stream(folder, columns=["n"])).load_state_dict(state)
    path.unlink()
    with pytest.raises(DataError, match="there were 3 shards, and there are 2"):
        loader(stream(folder, columns=["n"])).load_state_dict(state)
    path.write_text(text)
    loader(stream(folder.rename(tmp_path / "moved"), columns=["n"])).load_state_dict(state)


@pytest.mark.parametrize("kind", ["lines", "parquet"])
def test_a_shard_that_changes_while_it_is_read_is_an_error(kind: str, tmp_path: Path) -> None:
    folder = (write_lines if kind == "lines" else write_parquet)(tmp_path / "data", 1)
    data = stream(folder, columns=["n"])
    (path,) = folder.iterdir()
    content = path.read_bytes()
    data.train[3]  # and it stays open
    for change in (
        lambda: path.write_bytes(content + b"\n"),
        lambda: path.write_bytes(content),  # in place, and of the same size
        lambda: os.replace(shutil.copy(path, tmp_path / "copy"), path),
    ):
        change()
        for data_set in (data, pickle.loads(pickle.dumps(data))):  # as a worker has it
            with pytest.raises(DataError, match=rf"{path} has changed since it was first read"):
                data_set.train[3]
    path.unlink()
    with pytest.raises(DataError, match=rf"{path} can't be read"):
        data.train[3]


def test_a_shard_that_changes_while_its_tokens_are_made_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "data", 1) / "part-0.jsonl"
    good, status, write = path.read_bytes(), path.stat(), tokenized._write
    expected = stream(path).train[3]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))

    def changed(*arguments: Any) -> None:
        path.write_bytes(good.replace(b"document", b"DOCUMENT"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        write(*arguments)

    monkeypatch.setattr(tokenized, "_write", changed)
    with pytest.raises(DataError, match=rf"{path} has changed since it was first read"):
        stream(path)
    monkeypatch.setattr(tokenized, "_write", write)
    path.write_bytes(good)
    assert torch.equal(stream(path).train[3], expected)


@pytest.mark.parametrize("options", [{}, {"columns": ["n"]}], ids=["tokens", "lines"])
def test_a_damaged_cache_is_made_anew_with_a_line_that_says_so(
    options: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_lines(tmp_path / "data", 1)
    expected = [*loader(stream(folder, **options))]
    files = [
        it for it in (tmp_path / "cache").rglob("*") if it.is_file() and it.suffix != ".lock" and it.stat().st_size
    ]
    assert len(files) >= 2
    for file in files:
        content = file.read_bytes()
        for damage in (b"", content[: len(content) // 16 * 8], bytes([*content[:1]]) + b"\xff" * 9, None):
            file.unlink()
            if damage is not None:
                file.write_bytes(damage)
            capsys.readouterr()
            assert repr([*loader(stream(folder, **options))]) == repr(expected)
            assert (file.read_bytes(), capsys.readouterr().err.count("is damaged; it is made anew")) == (content, 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl.zst", b"x", "unpack it first: zstd -d"),
        ("a.csv", b"x", "expected .jsonl, .jsonl.gz, .parquet, .npy or .bin"),
        ("a.parquet", b"PAR1 and no more", "expected a whole Parquet file"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "abc"}\n' * 9)[:-9], "is damaged or ends in the middle"),
        ("a.jsonl", b"", "expected at least 129 tokens for one window, got 0"),
        ("a.bin", b"123", r"expected numbers of 2 bytes \(uint16\), got 3 bytes"),
        ("a.npy", b"\x93NUMPY\x01", "can't be read as tokens"),
        ("_SUCCESS", b"", "has no file that matches"),
    ],
    ids=lambda it: it if isinstance(it, str) and it.startswith("a.") else "",
)
def test_shards_that_are_none_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        stream(tmp_path)


@pytest.mark.parametrize("options", [{}, {"columns": ["n"]}], ids=["text", "columns"])
def test_a_flipped_bit_of_a_parquet_file_is_a_data_error_or_changes_no_number_of_rows(
    options: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["abc def"] * 100, "n": range(100)}), path)
    content = path.read_bytes()
    wrong = []
    for bit in random.Random(1).sample(range(8 * len(content)), 60):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            data = stream(path, context_length=5, **options)
            rows = sum(len(batch["n"]) for batch in loader(data)) if options else 99
        except DataError as error:
            wrong.append(str(error))
        else:
            assert rows == 99
    assert len(wrong) > 15


def test_pages_with_checksums_are_compared_with_them(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pa.table({"text": ["abc def"] * 100}), path, **options)
    path.write_bytes(path.read_bytes().replace(b"abc", b"abC", 50))
    with pytest.raises(DataError, match=r"can't be read.*CRC"):
        stream(path)


@pytest.mark.parametrize("values", [[7] * 200_000, ["a" * 1000] * 20_000], ids=["numbers", "text"])
def test_a_row_group_that_takes_too_much_memory_is_refused(
    values: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": values}), path)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(parquet, "_LARGEST_GROUP", 1 << 20)
    data = stream(path, columns=["n"])
    with pytest.raises(DataError, match=r"row group 0 takes more than 1 MiB of memory; write .* smaller row groups"):
        data.train[0]


def test_other_wrong_sources_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a")
    numpy.save(tmp_path / "tokens.npy", numpy.arange(300))
    with pytest.raises(DataError, match=r"has tokens .* and rows"):
        stream(tmp_path)
    with pytest.raises(
        DataError, match=r"no row of 3 shards can be read; the first: .*:1: expected the key 'txt'; did"
    ):
        stream(tmp_path / "a", text="txt")
    with pytest.raises(DataError, match=r"there is no column 'x'|expected the key 'x'"):
        stream(tmp_path / "a", columns=["x"]).train[0]
    with pytest.raises(DataError, match=r"data.packing keeps documents apart"):
        stream(tmp_path / "tokens.npy", packing=True)
    with pytest.raises(DataError, match=r"has 120 items, expected more than the 120 of data.validation_items"):
        stream(tmp_path / "a", columns=["n"], validation_items=120)
    (tmp_path / "a" / "part-0.jsonl").rename(tmp_path / "b.jsonl.gz")
    with pytest.raises(DataError, match=r"gunzip"):
        stream(tmp_path / "b.jsonl.gz", columns=["n"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"validation_items": None}, "expected either validation_path, or validation_items"),
        ({"sources": [{"path": "a", "weight": 1.0}, {"path": "b"}]}, "sources.1.weight: expected a weight"),
        ({"columns": ["n"], "packing": True}, "packing: expected none beside `columns`"),
        ({"sources": []}, "sources"),
        ({"sources": [{"path": "a", "weight": 0}]}, "sources.0.weight: expected a number > 0"),
        ({"sources": [{"path": "a", "pattern": "../*"}]}, "sources.0.pattern: expected a pattern below"),
    ],
)
def test_wrong_configs_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StreamConfig.from_dict({"sources": [{"path": "a"}], "validation_items": 1, **change})


def test_validation_is_of_files_of_its_own(tmp_path: Path) -> None:
    options = {"validation_path": str(write_parquet(tmp_path / "b")), "validation_items": None}
    data = stream(write_lines(tmp_path / "a"), columns=["n"], **options)
    assert (len(data.train), len(data.valid)) == (120, 100)


def options(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "data").mkdir()
    for shard in range(2):
        rows = [{"messages": it} for it in conversations(40)[shard * 20 : shard * 20 + 20]]
        write_rows(folder / "data" / f"{shard}.jsonl", rows)
    sources = [{"path": str(folder / "data")}]
    common = {"sources": sources, "tokenizer": str(tokenizer_in(folder / "tokenizer")), "validation_items": 1}
    return {**common, "context_length": 64, "chat": {}, **more}


def expected(folder: Path) -> list[tuple[list[int], list[int]]]:
    """The conversations as `type: Chat` has them."""
    config = {"path": str(folder / "data"), "tokenizer": str(folder / "tokenizer"), "max_length": 64}
    data = ChatConfig.from_dict(config).init()
    items = [data.train[it] for it in range(len(data.train))] + [data.valid[it] for it in range(len(data.valid))]
    return sorted((it["input_ids"].tolist(), it["labels"].tolist()) for it in items)


def test_conversations_are_those_of_chat(tmp_path: Path) -> None:
    data = StreamConfig.from_dict(options(tmp_path)).init()
    items = [data.train[it] for it in range(len(data.train))] + [data.valid[0]]
    assert sorted((it["input_ids"].tolist(), it["labels"].tolist()) for it in items) == expected(tmp_path)
    batch = next(iter(DataLoader(data.train, data.batcher, batch_size=3, seed=1)))
    assert batch["attention_mask"].sum(1).max() == batch["input_ids"].shape[1]


def test_a_conversation_in_several_rows_is_that_of_chat(tmp_path: Path) -> None:
    config = options(tmp_path)
    tokenizer_in(tmp_path / "tokenizer", "{{ messages | length }}" + CHATML)
    data = StreamConfig.from_dict(config).init()
    items = [data.train[it] for it in range(len(data.train))] + [data.valid[0]]
    assert len(items) > 40  # of which some rows are too long to keep an answer
    assert sorted((it["input_ids"].tolist(), it["labels"].tolist()) for it in items) == expected(tmp_path)


@pytest.mark.parametrize(
    ("most", "on_long", "said"),
    [(40, "truncate", "14 truncated, 1 without"), (40, "drop", "15 without"), (96, "drop", "1 without")],
)
def test_conversations_that_are_cut_or_left_out_are_counted(most: int, on_long: str, said: str, tmp_path: Path) -> None:
    config = options(tmp_path, context_length=most, chat={"on_long": on_long})
    with (tmp_path / "data" / "1.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "how are you"}]}\n')
    data = StreamConfig.from_dict(config).init()
    assert data.said == [f"examples  {said} an answer, or too long"]
    assert data.said[0] in data.describe()


def test_packed_conversations_are_whole_and_each_comes_once(tmp_path: Path) -> None:
    data = StreamConfig.from_dict(options(tmp_path, packing=True)).init()
    found = []
    for item in (*(data.train[it] for it in range(len(data.train))), data.valid[0]):
        begins = (item["position_ids"] == 0).nonzero().flatten().tolist()
        for begin, end in zip(begins, [*begins[1:], len(item["input_ids"])], strict=True):
            found.append((item["input_ids"][begin:end].tolist(), item["labels"][begin:end].tolist()))
    assert sorted(found) == expected(tmp_path)
    batch = next(iter(DataLoader(data.train, data.batcher, batch_size=3, seed=1)))
    assert sorted(batch) == ["input_ids", "labels", "position_ids"]
    assert {it.shape for it in batch.values()} == {(3, 64)}


def test_text_has_the_tokens_of_a_directory_and_its_end_after_each(tmp_path: Path) -> None:
    config = options(tmp_path, chat=None, context_length=8)
    write_rows(tmp_path / "data" / "0.jsonl", [{"text": "hello how are you"}, {"text": "fine thanks and how is it"}])
    (tmp_path / "data" / "1.jsonl").unlink()
    data = StreamConfig.from_dict(config).init()
    known = tokenizer()
    tokens = [
        it
        for text in ("hello how are you", "fine thanks and how is it")
        for it in [*known(text)["input_ids"], known.eos_token_id]
    ]
    assert torch.equal(data.valid[0], torch.tensor(tokens[:9]))
    assert data.vocab_size == len(known)


def test_rows_that_are_no_conversations_are_named(tmp_path: Path) -> None:
    config = options(tmp_path)
    path = tmp_path / "data" / "1.jsonl"
    path.write_text(path.read_text() + '{"messages": [{"role": "user"}]}\n')
    data = StreamConfig.from_dict(config).init()
    with pytest.raises(DataError, match=rf"{path}:21: messages\[0\]"):
        DataLoader(data.train, data.batcher, batch_size=3)
    assert DataLoader(data.train, data.batcher, batch_size=3, on_bad_item="skip").skipped == 1


def test_the_command_shows_what_has_no_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = StreamConfig.from_dict(options(tmp_path, packing=True)).to_yaml()
    (tmp_path / "a.yaml").write_text(RUN.format(data="\n".join(f"  {it}" for it in config.splitlines())))
    assert main(["data", str(tmp_path / "a.yaml"), "--first", "1"]) == 0
    said = capsys.readouterr().out
    assert "windows of 64 tokens to train on" in said
    assert "]]it is" in said


RUN = """\
data:
{data}
model: {{type: DecoderLm, vocab_size: 300, max_sequence_length: 64, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24}}
optimizer: {{type: AdamW}}
lr_scheduler: {{type: ConstantLr, lr: 1e-3}}
training: {{epochs: 1, batch_size: 4}}
"""


def order(window_bytes: int = 40) -> BlockOrder:
    """103 items from 7 on, in blocks of 10, of which 4 are mixed at a time."""
    edges = torch.tensor([*range(7, 110, 10), 110])
    return BlockOrder(edges, edges.diff(), window_bytes)


def test_a_pass_is_a_permutation_and_another_for_each_pass_and_seed() -> None:
    first = order().take(3, 0, 0, 103)
    assert sorted(first.tolist()) == [*range(7, 110)]
    others = [order().take(seed, number, 0, 103) for seed, number in ((3, 1), (4, 0))]
    assert all(not torch.equal(it, first) and sorted(it.tolist()) == [*range(7, 110)] for it in others)


@pytest.mark.parametrize("start", [0, 1, 39, 40, 77, 102])
def test_an_order_is_the_same_from_whatever_position_it_is_asked_for(start: int) -> None:
    whole, fresh = order().take(3, 2, 0, 103), order()
    assert torch.equal(fresh.take(3, 2, start, 103), whole[start:])
    pieces = [fresh.take(3, 2, it, min(it + 7, 103)) for it in range(0, 103, 7)]
    assert torch.equal(torch.cat(pieces), whole)
    assert torch.equal(pickle.loads(pickle.dumps(fresh)).take(3, 2, start, 103), whole[start:])


def test_neighbours_in_a_pass_come_from_few_blocks() -> None:
    taken = order().take(3, 0, 0, 103)
    blocks = (taken - 7) // 10
    assert len(set(blocks[:40].tolist())) <= 5
    assert len(set(order(10**6).take(3, 0, 0, 103)[:40].sub(7).div(10, rounding_mode="floor").tolist())) > 7


def test_without_a_seed_the_order_is_that_of_the_items() -> None:
    assert order().take(None, 5, 2, 6).tolist() == [9, 10, 11, 12]


def test_a_mixture_is_exact_in_each_stretch_and_even_within_it() -> None:
    mixture = Interleave([7, 2, 1])
    sources, numbers = mixture.take(3, 0, 3 * STRETCH)
    for stretch in sources.split(STRETCH):
        assert torch.bincount(stretch).tolist() == [7000, 2000, 1000]
    for source in range(3):
        assert numbers[sources == source].tolist() == [*range(int((sources == source).sum()))]
    counts = torch.stack([torch.bincount(it, minlength=3) for it in sources.split(100)])
    assert (counts - torch.tensor([70, 20, 10])).abs().max() <= 2
    again = Interleave([0.7, 0.2, 0.1]).take(3, 12_345, 23_456)
    assert torch.equal(again[0], sources[12_345:23_456])
    assert torch.equal(again[1], numbers[12_345:23_456])


def test_shares_that_are_no_whole_numbers_add_up_and_each_source_has_one() -> None:
    assert Interleave([1, 1, 1]).counts == [3334, 3333, 3333]
    assert Interleave([1, 1e-6]).counts == [STRETCH - 1, 1]
