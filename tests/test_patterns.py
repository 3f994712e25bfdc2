"""Regular expressions of files: what Python's `re` says, and an answer in time also where `re` gives none."""

import copy
import pickle
import re
import time

import pytest

from burnlike._patterns import Pattern, pattern_problem
from burnlike.errors import ArgumentError

TEXTS = (
    *("", "a", "ab", "aab", "ba", "a.b", "layers.0.up", "model.layers.12.self_attn.q_proj", "lm_head", "x\ny", "1_ 2"),
    *("model.visual.blocks.3.attn.qkv", "model.language_model.layers.3.mlp.experts.11.gate_proj.weight"),
)
OF_A_VISION_MODEL = (
    r"(?:.*?(?:language|text|visual).*?(?:self_attn|attention|attn|mlp|ffn).*?(?:q_proj|gate_proj|qkv).*?)"
    r"|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|k_proj)))"
)
PATTERNS = [
    *("", "a", "^a$", "a*b", "a+?b", "(a|b)*", "(a|ab)(c|bcd)?(d*)", r"\d+", r"[^.]+\.b", r".*\.\d+\..*", r"\bup\b"),
    *("a{2}b", r"^(?!.*visual).*(q_proj|gate_proj)", r".*(?<!lm_)head", r"(?<=layers\.)\d", r"(layers\.\d+\.)+\w*"),
    *(r"([a-z_0-9]+\.)*up", r"(?s).+y(a|b)*", r"x.y(a|b)*", r"(a?){3}b", r"(a{0,2}b?){2,5}", r"(a|b|)+$", r"((a*)*)*"),
    *(r"\w+\W\w+(\W\w+)*\Z", r"\D\S\s*(\Bb)*", OF_A_VISION_MODEL),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_answers_are_those_of_re(pattern: str) -> None:
    expected, found = re.compile(pattern), Pattern(pattern)
    for text in TEXTS:
        for name in ("search", "match", "fullmatch"):
            assert getattr(found, name)(text) is (getattr(expected, name)(text) is not None), (name, text)


ENDLESS = [
    *("(([a-z._0-9])+)+!", "(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*!", ".*.*.*.*.*.*.*.*!", "(a|a|.)*" * 9 + "!"),
    *("(.|.)?" * 30 + "!", "(a{0,65535}){65535}!", "((.?){99}){99}!", "(?=.*(?=.*(?=.*(?=.*!))))", r"((\w+\.?)+)+!"),
    "(.*.*.*)+" * 5 + "!",
]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_no_pattern_takes_long(pattern: str) -> None:
    before = time.perf_counter()
    assert not any(Pattern(pattern).fullmatch(f"model.layers.{number}.self_attn.q_proj") for number in range(10))
    assert time.perf_counter() - before < 5


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "expected a regular expression of Python's `re`"),
        ("(" * 5000 + ")" * 5000, "expected a regular expression"),
        ("(" * 50 + "a" + ")" * 50, "at most 40 groups in one another"),
        (r"(a)\1", "without references to groups"),
        ("(?i)(a*)*", "IGNORECASE"),
        ("a{99999999999999}", "Python's `re`"),
        ("a" * (1 << 20) + "b", "at most 1048576"),
    ],
)
def test_what_is_no_pattern_is_said(pattern: str, message: str) -> None:
    assert message in pattern_problem(pattern)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Pattern(pattern)


def test_long_texts_are_refused() -> None:
    with pytest.raises(ArgumentError, match="of at most 2000 characters"):
        Pattern("a").search("a" * 2001)


@pytest.mark.parametrize("pattern", ["a.*b", "(a+)+b"])
def test_copies_and_pickles_answer_the_same(pattern: str) -> None:
    found = Pattern(pattern)
    assert all(it.search("aab") for it in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))))


def test_matches_are_replaced_as_re_does_it() -> None:
    assert Pattern(r"^(\w+)\.(\d+)").replaced("block.3.weight", r"layers.\2") == "layers.3.weight"
    with pytest.raises(ArgumentError, match="at most 6 repeats, and none in another"):
        Pattern(r"((a|b)+)+").replaced("a", "")
