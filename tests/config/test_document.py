import pytest
import yaml

from burnlike.config import document
from burnlike.config.document import parse
from burnlike.errors import ConfigError

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
