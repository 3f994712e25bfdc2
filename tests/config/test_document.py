"""Texts of configs: files, malformed YAML, and scalars with their types."""

import contextlib
import math
import os
import socket

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from burnlike.config import document
from burnlike.config.document import MAX_BYTES, parse, read_text
from burnlike.config.plain import ScalarError, number_hint, resolve
from burnlike.config.shipped import shipped_configs
from burnlike.errors import ConfigError, ConfigIOError

MALFORMED = {
    "empty": ("", "1:1: empty; expected a mapping of `key: value`"),
    "only a comment": ("# hello\n\n", "1:1: empty; expected a mapping of `key: value`"),
    "only a marker": ("---\n", "1:1: empty; expected a mapping of `key: value`"),
    "tab as indentation": ("a:\n\tb: 1\n", "2:1: a tab can't indent YAML; use spaces"),
    "tab after spaces": ("a: 1\n  \tb: 2\n", "2:3: a tab can't indent YAML; use spaces"),
    "tab in a block text": ("a: |\n\tb\n", "2:1: a tab can't indent YAML; use spaces"),
    "second colon": (
        "a: b: c\n",
        "1:5: YAML syntax: a second `: ` in one line, or a line indented deeper than the one it belongs to; "
        "put a value that contains `: ` in quotes",
    ),
    "missing colon in the first line": (
        "epochs 4\nseed: 1\n",
        "1:1: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colon in the first line of a mapping": (
        "training:\n  epochs 4\n  batch_size: 8\n",
        "2:3: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colon before a comment": (
        "training:\n  epochs 4 # so many\n  batch_size: 8\n",
        "2:3: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colon before a deeper line": (
        "training\n  epochs: 4\n",
        "1:1: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colon before comments and a deeper line": (
        "# a\ntraining\n\n# b\n  epochs: 4\n",
        "2:1: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colons in two lines": (
        "data:\n  path x\n  other y\n  z: 1\n",
        "2:3: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing space after a colon": (
        "seed:1\nlr: 2\n",
        "1:1: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "missing colon in the middle": (
        "a: 1\nepochs 4\nb: 1\n",
        "2:1: YAML syntax: this line is neither `key: value` nor `- item`",
    ),
    "line too deep": (
        "a: 1\n b: 2\n",
        "2:3: YAML syntax: a second `: ` in one line, or a line indented deeper than the one it belongs to; "
        "put a value that contains `: ` in quotes",
    ),
    "line not deep enough": ("a:\n   b: 1\n  c: 2\n", "3:3: YAML syntax: the indentation fits no line above it"),
    "list and mapping": ("- a\nb: 1\n", "2:1: YAML syntax: the indentation fits no line above it"),
    "no colon": ("a: 1\nb\nc: 2\n", "2:1: YAML syntax: this line is neither `key: value` nor `- item`"),
    "open list": ("a:\n  - [1\n", "2:5: this '[' is not closed"),
    "open mapping": ("a: {b: 1", "1:4: this '{' is not closed"),
    "open quote": ("a: 1\nb: 'x\n\n", "2:4: this quote is not closed"),
    "open double quote": ('a: "x\n', "1:4: this quote is not closed"),
    "missing comma": (
        "a: [1, 2\nb: 3\n",
        "2:2: YAML syntax: a `,` or the closing `]` is missing before this; the bracket was opened in line 1, column 4",
    ),
    "text after a quote": ("a: 1\n'b' c\n", "2:1: YAML syntax: this line is neither `key: value` nor `- item`"),
    "text after a list": ("[1] x\n", "1:5: YAML syntax: this does not belong to what stands before it"),
    "stray bracket": ("a: ]\n", "1:4: YAML syntax: a value is missing before this, or this does not belong here"),
    "reserved character": ("a: @x\n", "1:4: YAML syntax: a value can't begin with '@'; put it in quotes"),
    "percent": ("a: %x\n", "1:4: YAML syntax: a value can't begin with '%'; put it in quotes"),
    "unknown alias": ("a: *b\n", "1:4: a: alias *b has no anchor &b before it"),
    "alias in its own anchor": ("a: &x [1, *x]\n", "1:11: a.1: alias *x stands inside its own anchor &x"),
    "two documents": (
        "a: 1\n---\nb: 2\n",
        "2:1: a second document begins here; a config is one document, so remove the `---`",
    ),
    "control character": (
        "a: 1\nb: \x01\n",
        "2:4: not a text file: it holds the character U+0001, which YAML does not allow",
    ),
    "surrogate": ("a: \ud800\n", "1:4: not a text file: it holds the character U+D800, which YAML does not allow"),
    "nested lists": ("a: " + "[" * 100_000, "1:67: nested deeper than 64 levels"),
    "nested mappings": ("".join(f"{' ' * i}a:\n" for i in range(100)), "65:65: nested deeper than 64 levels"),
    "many directives": (
        "".join(f"%TAG !a{i}! tag:x{i}\n" for i in range(100_000)) + "---\na: 1\n",
        "17:1: more than 16 lines that begin with %, which are directives; a config needs none",
    ),
    "many directives of a second document": (
        "a: 1\r...\r" + "".join(f"%TAG !a{i}! tag:x{i}\r" for i in range(100_000)) + "---\ra: 1\r",
        "19:1: more than 16 lines that begin with %, which are directives; a config needs none",
    ),
    "nested dashes": ("- " * 10_000 + "a", "1:129: nested deeper than 64 levels"),
}
PROBLEMS = {
    "duplicate keys": (
        "a: 1\nb: {c: 1, c: 2}\na: 3\n",
        ["3:1: a: duplicate key 'a'; it stands first in line 1: remove one", "2:11: b.c: duplicate key 'c'; it"],
    ),
    "keys equal after quoting": ("a: 1\n'a': 2\n", ["2:1: a: duplicate key 'a'; it stands first in line 1"]),
    "python tag": (
        "a: !!python/object/apply:os.system [ls]\n",
        ["1:4: a: the tag !!python/object/apply:os.system is not allowed: a config is plain data, so write"],
    ),
    "own tag": ("a:\n  - !x {b: 1}\n", ["2:5: a.0: the tag !x is not allowed"]),
    "number tag": ("a: !!int 3\n", ["1:4: a: the tag !!int is not allowed"]),
    "list as key": ("? [a]\n: 3\n", ["1:3: a key must be text, not a list or a mapping"]),
    "merge of a number": ("a: 1\n<<: 3\n", ["2:1: `<<` takes an alias of a mapping, or a list of such"]),
    "too large numbers": ("a: 1e999\nb: [1, 1e888]\n", ["1:4: a: 1e999 is too large for a float", "2:8: b.1: 1e888"]),
}


@pytest.fixture(params=["libyaml", "pure Python"])
def _both_parsers(request, monkeypatch):
    if request.param == "libyaml":
        assert document.LOADER is yaml.CSafeLoader, "the development environment has PyYAML with libyaml"
    else:
        monkeypatch.setattr(document, "LOADER", yaml.SafeLoader)


def plain(node):
    if node.is_map:
        return {key: plain(entry.value) for key, entry in node.value.items()}
    return [plain(item) for item in node.value] if node.is_list else node.value


@pytest.mark.usefixtures("_both_parsers")
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_text_is_one_message_with_its_place(case):
    text, message = MALFORMED[case]
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value) == f"f.yaml:{message}"


@pytest.mark.usefixtures("_both_parsers")
@pytest.mark.parametrize("case", PROBLEMS)
def test_mistakes_that_do_not_stop_the_reading_are_all_collected(case):
    text, expected = PROBLEMS[case]
    _, problems = parse(text, "f")
    assert len(problems) == len(expected)
    for problem, start in zip(sorted(map(str, problems)), sorted(expected), strict=True):
        assert problem.startswith(f"f:{start}")


@pytest.mark.usefixtures("_both_parsers")
def test_values_and_places():
    node, problems = parse(
        "# note\na: no\nb:\n  - '1'\n  - {c: 2.5, d: ~}\n  - !!str 3\n  - |\n    x\n    y\n", "f.yaml"
    )
    assert not problems
    assert plain(node) == {"a": "no", "b": ["1", {"c": 2.5, "d": None}, "3", "x\ny\n"]}
    c = node.value["b"].value.value[1].value["c"]
    assert (c.place, c.value.place) == (("f.yaml", 5, 6), ("f.yaml", 5, 9))


def test_columns_count_characters_and_not_bytes():
    node, _ = parse('{"\u00e4\U0001f600": 1, b: 2}', "f")
    assert node.value["b"].place.column == 11


def test_merge_keys_give_what_is_not_written_out():
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: *a, x: 5}\nd:\n  x: 6\n  <<: [*b, *a]\ne: {'<<': 1}\n"
    node, problems = parse(text, "f")
    assert not problems
    values = plain(node)
    assert values["c"] == {"x": 5, "y": 2}
    assert values["d"] == {"x": 6, "y": 3, "z": 4}
    assert values["e"] == {"<<": 1}
    assert node.value["c"].value.value["y"].place.line == 1


def test_repeated_aliases_are_bounded():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    with pytest.raises(ConfigError, match=r"f:5:.*holds more than 100000 values, those repeated by aliases counted"):
        parse("\n".join(lines), "f")


def test_repeated_merges_are_bounded():
    keys = "".join(f"  k{i}: 1\n" for i in range(1000))
    with pytest.raises(ConfigError, match="holds more than 100000 values"):
        parse(f"a: &a\n{keys}b:\n  <<: [{', '.join(['*a'] * 200)}]\n", "f")


def test_aliases_do_not_get_around_the_bound_on_depth():
    lines = ["a0: &a0 " + "[" * 40 + "]" * 40] + [f"a{i}: &a{i} {'[' * 20}*a{i - 1}{']' * 20}" for i in range(1, 9)]
    with pytest.raises(ConfigError, match=r"f:3:.*nested deeper than 64 levels"):
        parse("\n".join(lines), "f")


VALUES = [
    # the core schema of YAML 1.2.2, section 10.3.2
    ("", None),
    ("~", None),
    ("null", None),
    ("NULL", None),
    ("true", True),
    ("False", False),
    ("0", 0),
    ("-19", -19),
    ("+12", 12),
    ("0o17", 15),
    ("0x3A", 58),
    ("0.", 0.0),
    (".5", 0.5),
    ("+12e03", 12000.0),
    ("-2E+05", -200000.0),
    ("1e-4", 1e-4),
    ("1E5", 1e5),
    ("00.5", 0.5),
    (".inf", math.inf),
    ("-.Inf", -math.inf),
    ("+.INF", math.inf),
    # what YAML 1.1 makes of these is no string
    ("no", "no"),
    ("off", "off"),
    ("yes", "yes"),
    ("On", "On"),
    ("y", "y"),
    ("12:30:00", "12:30:00"),
    ("2024-01-31", "2024-01-31"),
    ("0b101", "0b101"),
    ("=", "="),
    # ours
    ("50_000", 50000),
    ("0xff_ff", 65535),
    ("1_0.2_5", 10.25),
    ("1__0", "1__0"),
    ("_1", "_1"),
    ("1_", "1_"),
    ("0777", "0777"),
    ("-07", "-07"),
    ("0_7", "0_7"),
    # looks like a number, is none
    ("-", "-"),
    (".", "."),
    ("+.", "+."),
    ("1e", "1e"),
    ("e5", "e5"),
    ("1.2.3", "1.2.3"),
    ("0x", "0x"),
    ("-0x1", "-0x1"),
    ("inf", "inf"),
    ("+.nan", "+.nan"),
    ("tRue", "tRue"),
    ("nil", "nil"),
    ("None", "None"),
    ("\u0663", "\u0663"),
    ("1\u0663", "1\u0663"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_scalar_has_its_value_and_type(text, value):
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan(text):
    assert math.isnan(resolve(text))


@pytest.mark.parametrize("text", ["1e999", "-1e400", "9" * 400 + ".0", "9" * 401, "0x" + "f" * 400, "1" + "0" * 5000])
def test_number_beyond_measure_is_an_error(text):
    with pytest.raises(ScalarError):
        resolve(text)


@settings(derandomize=True, max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_prints_for_a_float_is_read_to_the_last_bit(value):
    assert resolve(repr(value)) == value


@settings(derandomize=True, max_examples=300)
@given(st.text(max_size=12))
def test_any_text_is_a_scalar_or_a_scalar_error(text):
    with contextlib.suppress(ScalarError):
        assert isinstance(resolve(text), None | bool | int | float | str)
    assert isinstance(number_hint(text), str)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0777", "a leading zero is ambiguous, write 777 or 0o777"),
        ("09", "a leading zero is ambiguous, write 9"),
        ("-012", "a leading zero is ambiguous, write -12"),
        ("000", "a leading zero is ambiguous, write 0"),
        ("inf", "write .inf"),
        ("-Infinity", "write -.inf"),
        ("NaN", "write .nan"),
        ("x", ""),
        ("1.2.3", ""),
    ],
)
def test_hint_says_what_to_write_for_a_number(text, hint):
    assert number_hint(text) == hint


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
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    digits = shipped_configs()["digits"]
    cases = {
        tmp_path / "char_gtp.yaml": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "char_gpt": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "char_gpt.yml": "no such file; did you mean 'char_gpt.yaml'?",
        tmp_path / "zzzz.yaml": "no such file; check the path",
        tmp_path / "gone.yaml": "no such file; check the path",
        tmp_path / "digits": f"no such file; expected a path: the shipped config of this name is {digits}",
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
