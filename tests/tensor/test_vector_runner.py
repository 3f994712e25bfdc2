"""The runner of vectors: what it refuses, what it reports, how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.vectors import backends, deviations
from tests.vectors.__main__ import main
from tests.vectors.backends import plain_backend
from tests.vectors.cases import run

ADD: dict[str, Any] = {
    "id": "made/add",
    "op": "add",
    "self": {"kind": "float", "data": [1.0, "inf"]},
    "args": [{"tensor": {"kind": "float", "data": [2.0, 1.0]}}],
    "expected": {"kind": "float", "data": [3.0, "inf"]},
    "rtol": 0.0,
    "atol": 0.0,
}
SQUARE: dict[str, Any] = {
    "id": "made/square",
    "program": "y = x * 2.0; loss = -(y * x) + 1.0",
    "inputs": {"x": {"kind": "float", "data": [1.0, 3.0], "requires_grad": True}},
    "loss_shape": [2],
    "expected_grads": {"x": [-4.0, -12.0]},
}


def outcome(record: dict[str, Any], tracking: bool = False) -> str:
    plain = plain_backend("cpu")
    assert plain is not None
    backend = backends.tracking(plain)[0] if tracking else plain
    found = run(record, backend)
    return f"{found.verdict}: {found.reason}" if found.reason else found.verdict


def file_of(tmp_path: Path, *records: Any) -> str:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(list(records)))
    return str(path)


def test_right_numbers_pass_on_both_backends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([file_of(tmp_path, ADD, SQUARE)]) == 0
    assert capsys.readouterr().out == "4 passed, 0 failed, 0 skipped\n"


def test_wrong_numbers_are_reported_with_both_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**ADD, "expected": {"kind": "float", "data": [3.5, "inf"]}}
    assert main([file_of(tmp_path, wrong)]) == 1
    out = capsys.readouterr().out
    assert "FAILED made.json: made/add on torch<cpu>" in out
    assert "1 of 2 elements differ, first at [0]: expected 3.5, got 3.0" in out
    assert out.endswith("0 passed, 2 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "frobnicate"}, "unknown operation 'frobnicate'"),
        ({"op": "linalg.frobnicate"}, "unknown operation 'linalg.frobnicate'"),
        ({"op": "os.system"}, "unknown operation 'os.system'"),
        ({"op": "__class__"}, "unknown operation '__class__'"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"via": "magic"}, "unknown flag via: 'magic'"),
        ({"self": {"kind": "complex", "data": [1.0]}}, "unknown kind 'complex'"),
        ({"self": {"kind": "float", "data": [1.0], "dtype": "f8"}}, "unknown element type 'f8'"),
        ({"self": {"kind": "float", "data": [1.0], "layout": "x"}}, "unknown key 'layout'"),
        ({"self": {"kind": "float", "data": ["infinity"]}}, "unknown number 'infinity'"),
        ({"self": {"kind": "float", "data": 1.0}}, "a tensor value of rank 0"),
        ({"self": {"kind": "float", "data": [True, 1.0]}}, "True is no number of kind 'float'"),
        ({"self": {"kind": "bool", "data": [1, 0]}}, "1 is no number of kind 'bool'"),
        ({"self": {"kind": "int", "data": [1.5, 0]}}, "1.5 is no number of kind 'int'"),
        ({"args": [{"tensors": []}]}, "unknown argument {'tensors': []}"),
        ({"args": [{"tensor": {"op": "neg", "self": None, "args": [], "x": 1}}]}, "unknown key 'x' in a call"),
        ({"args": ["Foo"]}, "unknown word 'Foo'"),
        ({"args": [{"options": {}, "type": "ConvOptions"}, 1]}, "TypeError"),
        ({"kwargs": {"dim": 1}}, "unknown keyword"),
        ({"expected": {"error": "returns"}}, "unknown expectation"),
        ({"expected": {"kind": "float", "values": [3.0]}}, "unknown key 'values'"),
        ({"kind": "float"}, "'kind' of add, which is no creation"),
    ],
)
def test_what_it_does_not_know_fails(change: dict[str, Any], message: str) -> None:
    found = outcome({**ADD, **change})
    assert found.startswith("failed")
    assert message in found


@pytest.mark.parametrize("missing", ["op", "self", "args", "expected"])
def test_a_missing_key_fails(missing: str) -> None:
    assert outcome({key: value for key, value in ADD.items() if key != missing}).startswith("failed")


@pytest.mark.parametrize("record", [None, 3, [], {}, {"id": "x"}])
def test_a_record_of_neither_schema_fails(record: Any) -> None:
    assert "a record of neither schema" in outcome(record)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("loss = eval('1')", "unknown function 'eval'"),
        ("import os", "unknown statement"),
        ("loss = os.system('true')", "unknown name 'os'"),
        ("loss = x.__class__()", "unknown operation '__class__'"),
        ("loss = [y for y in x]", "unknown expression"),
        ("loss = (lambda: x)()", "unknown function"),
        ("loss = x ** 2", "unknown expression"),
        ("loss = x if 1 else x", "unknown expression"),
        ("loss = x.add(*x)", "unknown expression"),
        ("loss = x.mul(**x)", "unknown argument form '**'"),
        ("loss = x +", "can't be read"),
        ("", "empty"),
        ("y = x * 2.0", "assigns no tensor to 'loss'"),
        ("loss = z", "unknown name 'z'"),
    ],
)
def test_a_program_that_it_does_not_know_fails(program: str, message: str) -> None:
    found = outcome({**SQUARE, "program": program}, tracking=True)
    assert found.startswith("failed")
    assert message in found


def test_a_program_may_name_results_and_use_operators() -> None:
    program = "a, b = x.split(1, 0); p = [a, b]; loss = Tensor.cat([p[0], b.detach()], 0) * 2.0 - x % 5.0 / 1.0"
    grads = {"x": [1.0, -1.0]}
    assert outcome({**SQUARE, "program": program, "expected_grads": grads}, tracking=True) == "passed"


def test_a_leaf_is_a_loss_on_every_tracking_backend(tmp_path: Path) -> None:
    leaf = {**SQUARE, "program": "loss = x", "expected_grads": {"x": [1.0, 1.0]}}
    assert main([file_of(tmp_path, leaf)]) == 0


@pytest.mark.parametrize(
    "program",
    [
        "loss = linalg.vector_norm(x, {'Lp': 1.0}, 0) * 4.0",
        "loss = x.cast(FloatDType.F32) * 4.0",
        "loss = Tensor.zeros([2]) + 4.0 * x",
        "loss = Tensor.einsum('i,j->i', [x, Tensor.full([2], 2.0)])",
        "y = x.unsqueeze(rank=2); loss = y.reshape([2], rank=1) * 4.0",
        "loss = module.conv1d(x.reshape([1, 1, 2]), Tensor.full([1, 1, 1], 4.0), None, dict(stride=[1])).sum()",
        "loss = x.slice([[0, None, 1]]).slice_dim(0, [0, 2, -1]).mul_scalar(4)",
    ],
)
def test_forms_of_programs(program: str) -> None:
    found = outcome(
        {**SQUARE, "program": program, "loss_shape": [None], "expected_grads": {"x": [4.0, 4.0]}}, tracking=True
    )
    assert found == "passed"


def test_gradients_are_compared(tmp_path: Path) -> None:
    found = outcome({**SQUARE, "expected_grads": {"x": [-4.0, -11.0]}}, tracking=True)
    assert "gradient of x: 1 of 2 elements differ, first at [1]: expected -11.0, got -12.0" in found
    assert "expected none" in outcome({**SQUARE, "expected_grads": {"x": None}}, tracking=True)
    assert "expected shape [3]" in outcome({**SQUARE, "expected_grads": {"x": {"shape": [3]}}}, tracking=True)
    assert "expected a loss of shape [1]" in outcome({**SQUARE, "loss_shape": [1]}, tracking=True)


def test_an_expected_error_must_be_a_tensor_error() -> None:
    panics = {"error": "panics"}
    assert "expected a TensorError, got" in outcome({**ADD, "expected": panics})
    shapes = {"args": [{"tensor": {"kind": "float", "data": [1.0, 2.0, 3.0]}}], "expected": panics}
    assert outcome({**ADD, **shapes}) == "passed"
    assert outcome({**ADD, **shapes, "message": "Burn's words"}) == "passed"
    assert outcome({**ADD, **shapes, "expected": {**panics, "message": "Burn's words"}}) == "passed"
    assert "TypeError" in outcome({**ADD, "args": [1.0, 2.0, 3.0], "expected": panics})


def test_an_operand_must_not_be_what_raises() -> None:
    operand = {"op": "reshape", "self": {"kind": "float", "data": [1.0]}, "args": [[2]]}
    found = outcome({**ADD, "self": operand, "expected": {"error": "panics"}})
    assert found.startswith("failed: expected a TensorError of add, but an operand of it raised")


def test_an_error_that_is_not_expected_is_told_with_its_type() -> None:
    shapes = {"args": [{"tensor": {"kind": "float", "data": [1.0, 2.0, 3.0]}}]}
    assert "got TensorValueError: === Tensor Operation Error ===" in outcome({**ADD, **shapes})


def test_an_earlier_statement_must_not_raise() -> None:
    panics = {"program": "loss = x.reshape([3]); loss = x", "expected": {"error": "panics"}}
    assert outcome({**SQUARE, **panics}, tracking=True).startswith("failed")


def test_nothing_is_compared_where_null_stands() -> None:
    partial = {"expected": {"kind": "float", "data": [3.0, None]}, "partial": True}
    assert outcome({**ADD, **partial}) == "passed"
    assert outcome({**ADD, "expected": {"kind": "float", "shape": [None]}}) == "passed"
    assert outcome({**ADD, "expected": {"kind": "int", "shape": [2]}}).startswith("failed")


def test_the_element_type_is_compared() -> None:
    assert "expected element type torch.float16" in outcome({**ADD, "expected": {"kind": "float", "dtype": "f16"}})


def test_tolerance_is_burns_rule() -> None:
    near = {"expected": {"kind": "float", "data": [3.009, "inf"]}}
    assert outcome({**ADD, **near, "rtol": 0.01}) == "passed"
    assert outcome({**ADD, **near, "atol": 0.01}) == "passed"
    assert outcome({**ADD, **near, "rtol": 0.001, "atol": 0.001}).startswith("failed")
    assert outcome({**ADD, "expected": {"kind": "float", "data": [3.0, 1e30]}, "rtol": 1.0}).startswith("failed")


def test_a_quantized_operand_is_what_it_dequantizes_to() -> None:
    quantized = {**ADD, "self": {"kind": "float", "data": [1.27, 0.004], "quantize": "int8"}}
    assert outcome({**quantized, "expected": {"kind": "float", "data": [3.27, 1.0]}, "rtol": 1e-6}) == "passed"
    other = {**ADD, "self": {"kind": "float", "data": [1.0, 2.0], "quantize": "int4"}}
    assert outcome(other).startswith("failed: the runner does not know this: unknown quantization 'int4'")


def test_integers_and_scales_of_a_quantized_result_are_compared() -> None:
    record = {
        "id": "made/quantize",
        "op": "quantize",
        "self": {"kind": "float", "data": [[1.0, -2.0, 4.0, 0.0]]},
        "args": [
            {"options": {"value": "Q8S", "level": {"Block": [2]}}, "type": "QuantScheme"},
            {"scales": {"kind": "float", "data": [[0.5, 2.0]]}},
        ],
        "expected": {"q": [[2, -4, 2, 0]], "scales": [[0.5, 2.0]]},
    }
    assert outcome(record) == "passed"
    assert "expected -5, got -4" in outcome({**record, "expected": {"q": [[2, -5, 2, 0]], "scales": [[0.5, 2.0]]}})
    assert "expected 1.0, got 0.5" in outcome({**record, "expected": {"q": [[2, -4, 2, 0]], "scales": [[1.0, 2.0]]}})
    assert outcome({**record, "expected": {}}).startswith("failed: the runner does not know this")
    assert "a quantized tensor, got" in outcome({**ADD, "expected": {"q": [1, 2]}})


def test_a_missing_device_skips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--backend", "cuda", file_of(tmp_path, ADD)]) == 0
    out = capsys.readouterr().out
    assert out == "SKIPPED made.json: made/add: no CUDA device\n0 passed, 0 failed, 1 skipped\n"


@pytest.mark.parametrize("content", ["", "{}", "[]", "[1", '"text"'])
def test_a_file_of_another_format_is_one_line(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.json"
    path.write_text(content)
    assert main([str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {path}: ")
    assert printed.err.count("\n") == 1


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_documented_deviation_must_deviate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(deviations.DEVIATIONS, "made/add", "made up")
    assert "gives Burn's result" in outcome(ADD)
    wrong = {**ADD, "expected": {"kind": "float", "data": [0.0, 0.0]}}
    assert outcome(wrong) == "passed: deviates as documented: made up"
