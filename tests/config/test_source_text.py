import os
import socket

import pytest

from burnlike.config.document import MAX_BYTES, read_text
from burnlike.errors import ConfigError, ConfigIOError


def test_utf8_with_and_without_a_byte_order_mark(tmp_path):
    path = tmp_path / "c.yaml"
    for data in (b"a: \xc3\xa4\n", b"\xef\xbb\xbfa: \xc3\xa4\n"):
        path.write_bytes(data)
        assert read_text(path) == "a: ä\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: \xe4\n", "2:4: not UTF-8 (byte 0xe4); save the file as UTF-8"),
        ("ä: 1\n".encode() + b"b\xff: 1\n", "2:2: not UTF-8 (byte 0xff); save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "1:1: not UTF-8 (UTF-16 or UTF-32 text); save the file as UTF-8"),
        (b"\x80\x02}q\x00.", "1:1: not UTF-8 (byte 0x80); save the file as UTF-8"),
    ],
)
def test_other_encodings_name_the_place(tmp_path, data, message):
    path = tmp_path / "c.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}:{message}"


def test_a_record_given_by_mistake_is_not_read_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    with open(path, "wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}: larger than 4 MiB: not a config"


def test_missing_files_name_the_nearest_one(tmp_path):
    (tmp_path / "char_gpt.yaml").write_text("")
    (tmp_path / "char_gtp.txt").write_text("")
    cases = {
        tmp_path / "char_gtp.yaml": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "char_gpt": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "char_gpt.yml": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "zzzz.yaml": "no such file; check the path",
        tmp_path / "no" / "c.yaml": f"no such file; the directory {tmp_path / 'no'} does not exist either",
        tmp_path: "is a directory; give the path of a YAML file",
        tmp_path / "char_gpt.yaml" / "x": "can't be read: Not a directory",
    }
    for path, message in cases.items():
        with pytest.raises(ConfigIOError) as caught:
            read_text(path)
        assert str(caught.value) == f"{os.fspath(path)}: {message}"
    with pytest.raises(ConfigIOError, match=r"a\0b: can't be read: .*embedded null"):  # Python's versions say the rest
        read_text("a\0b")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied", "c.yaml")

    (tmp_path / "c.yaml").write_text("a: 1")
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(ConfigIOError) as caught:
        read_text(tmp_path / "c.yaml")
    monkeypatch.undo()
    assert str(caught.value) == f"{tmp_path / 'c.yaml'}: can't be read: Permission denied"


def test_only_regular_files_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    os.mkfifo(tmp_path / "pipe.yaml")
    os.symlink("/dev/zero", tmp_path / "zeros.yaml")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.yaml")
        for name, kind in (("pipe", "a pipe"), ("zeros", "a device"), ("socket", "a socket")):
            path = tmp_path / f"{name}.yaml"
            with pytest.raises(ConfigIOError) as caught:
                read_text(path)
            assert str(caught.value) == f"{path}: can't be read: it is {kind}, and only regular files are read"


def test_a_file_that_becomes_a_pipe_does_not_block(tmp_path, monkeypatch):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1")
    regular = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr("os.stat", lambda _: regular)
    with pytest.raises(ConfigIOError, match="it is a pipe"):
        read_text(path)
