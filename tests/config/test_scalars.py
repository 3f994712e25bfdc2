import contextlib
import math

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.config.plain import ScalarError, number_hint, resolve

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
