import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.errors import TensorValueError
from burnlike.tensor import PrintOptions, set_print_options

CPU = Cpu()


@pytest.fixture
def options():
    yield set_print_options
    set_print_options(PrintOptions())


def elements(tensor: torch.Tensor, form: str = "") -> str:
    text = format(Tensor(tensor, CPU), form)
    return text[text.index("data:\n") + 6 : text.index(",\n  shape:")]


def test_a_tensor_shows_its_elements_and_what_it_is() -> None:
    x = Tensor(torch.tensor([[1, 2], [3, 4]], dtype=torch.int32), Autodiff(CPU))
    assert str(x) == repr(x)
    assert repr(x) == (
        "Tensor {\n  data:\n[[1, 2],\n [3, 4]],\n  shape:  [2, 2],\n  device:  cpu,\n"
        '  backend:  "autodiff<torch<cpu>>",\n  kind:  "Int",\n  dtype:  "i32",\n}'
    )


def test_long_dimensions_are_cut_where_there_are_many_elements() -> None:
    assert elements(torch.arange(1001)) == "[0, 1, 2, ..., 998, 999, 1000]"
    assert elements(torch.arange(1000)).count(",") == 999
    assert elements(torch.zeros(2, 700, dtype=torch.bool)).splitlines() == [
        "[[false, false, false, ..., false, false, false],",
        " [false, false, false, ..., false, false, false]]",
    ]
    assert elements(torch.arange(2000).reshape(1000, 2)).splitlines() == [
        "[[0, 1],",
        " [2, 3],",
        " [4, 5],",
        " ...",
        " [1994, 1995],",
        " [1996, 1997],",
        " [1998, 1999]]",
    ]


def test_options_hold_for_all_tensors(options) -> None:
    options(PrintOptions(threshold=3, edge_items=1, precision=2))
    assert elements(torch.tensor([1.0, 2.0, 3.0, 4.0])) == "[1.00, ..., 4.00]"
    assert elements(torch.tensor([1.0, 2.0, 3.0])) == "[1.00, 2.00, 3.00]"
    assert elements(torch.tensor([1.0]), ".1") == "[1.0]"


def test_a_form_says_the_digits() -> None:
    assert elements(torch.tensor([[0.12345679, float("nan")]]), ".3") == "[[0.123, NaN]]"
    assert elements(torch.tensor([1, 2]), ".3") == "[1, 2]"
    with pytest.raises(TensorValueError, match="digits"):
        elements(torch.tensor([1.0]), "x")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, torch.float32, "0.1"),
        (0.12345679, torch.float32, "0.12345679"),
        (1 / 3, torch.float64, "0.3333333333333333"),
        (0.1, torch.float16, "0.099975586"),
        (0.1, torch.bfloat16, "0.100097656"),
        (2.67578125, torch.float16, "2.6757813"),
        (1e-4, torch.float32, "0.0001"),
        (1e-5, torch.float32, "1e-5"),
        (1e15, torch.float32, "1000000000000000.0"),
        (1e16, torch.float64, "1e16"),
        (3.4028235e38, torch.float32, "3.4028235e38"),
        (-0.0, torch.float32, "-0.0"),
        (float("-inf"), torch.float32, "-inf"),
        (float("nan"), torch.float64, "NaN"),
    ],
)
def test_a_number_has_as_many_digits_as_its_type_needs(value, dtype, text) -> None:
    assert elements(torch.tensor([value], dtype=dtype)) == f"[{text}]"


@pytest.mark.parametrize(("shape", "text"), [((0,), "[]"), ((0, 2), "[]"), ((2, 0), "[[],\n []]")])
def test_an_empty_tensor_shows_its_brackets(shape, text) -> None:
    assert elements(torch.zeros(shape)) == text


def test_only_what_is_shown_is_read() -> None:
    # 8e9 elements over one stored: a full copy would not fit into memory.
    text = repr(Tensor(torch.zeros(1).expand(2_000_000, 4_000), CPU))
    assert text.count("0.0") == 36
    assert "  shape:  [2000000, 4000]," in text


def test_a_tensor_without_elements_to_read_has_a_text() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = Tensor(torch.zeros(2), CPU)
        assert "shape:  [2]" in repr(x)
