"""Shapes on the meta device without torch's compiler and symbols."""

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental import symbolic_shapes

from burnlike._torch_compat.compiler import _OF_NUMBERS, bound_method, compiler_left_out, is_exporting, new
from burnlike._torch_compat.dispatch import never_compile_alone

SHAPES = """
import sys
import torch
from torch.nn import functional
from burnlike._torch_compat.compiler import compiler_left_out

x = torch.empty(2, 4, 8, 16, device="meta")
with compiler_left_out():
    shapes = [functional.gelu(x).shape, functional.scaled_dot_product_attention(x, x, x).shape, (x @ x.mT).shape]
assert shapes == [x.shape, x.shape, (2, 4, 8, 8)], shapes
assert not {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"} & {*sys.modules}
"""
ASKS_FOR_MORE = """
import torch
from burnlike._torch_compat.compiler import compiler_left_out

with compiler_left_out():
    import sympy

    kept, instead = sympy, sympy.Basic
    from torch.fx.experimental.symbolic_shapes import expect_true, has_free_symbols, ShapeEnv
symbol = ShapeEnv().create_unbacked_symint()
assert has_free_symbols(symbol), "the true one is called"
assert expect_true(symbol >= 0), "that of numbers takes symbols too"
import sympy
assert sympy is not kept
assert kept.Basic is sympy.Basic is not instead
"""
ASKS_FOR_PARTS = """
import sys
from burnlike._torch_compat.compiler import _Parts, compiler_left_out

with compiler_left_out():
    with compiler_left_out():
        pass
    kept = sys.modules["sympy"]
    from sympy.core import Symbol
    import torch.utils._sympy.value_ranges
    from torch._dynamo.utils import counters
import sympy
assert sympy is not kept and sympy.Symbol is Symbol and kept.Symbol is Symbol
assert sys.modules["sympy.core"] is sympy.core is kept.core and sympy.core.__spec__.name == "sympy.core"
assert not isinstance(sympy.core.__spec__.loader, _Parts) and _Parts not in sys.meta_path
"""
COMPILES = """
compiled = torch.compile(lambda x: functional.gelu(x) + 1, backend="eager", fullgraph=True)
torch.testing.assert_close(compiled(torch.ones(2)), functional.gelu(torch.ones(2)) + 1)
assert functional.gelu(x).shape == x.shape
assert "torch._dynamo" in sys.modules
"""
COMMAND = """
import sys
import torch
with_torch = {name.partition(".")[0] for name in sys.modules}
from burnlike.cli.main import main
assert main(["{command}", "char_gpt_tiny", "--set", "training.epochs=1"]) == 0
heavy = "_dynamo", "_inductor", "distributed.fsdp", "fx.experimental.symbolic_shapes", "utils.flop_counter"
packages = {name.partition(".")[0] for name in sys.modules} - with_torch - {*sys.stdlib_module_names}
packages = sorted(it for it in packages - {"cython_runtime"} if not it.startswith("_"))  # of an extension of theirs
print(packages, [it for it in heavy if f"torch.{it}" in sys.modules], file=sys.stderr)
"""


def run(program: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
def test_compiler_left_out(tmp_path: Path) -> None:
    """Shapes need no compiler, and it compiles afterwards."""
    run(SHAPES + COMPILES, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", [ASKS_FOR_MORE, ASKS_FOR_PARTS], ids=["names", "parts"])
def test_code_that_asks_for_more_gets_the_true_modules(program: str, tmp_path: Path) -> None:
    run(program, tmp_path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(
            (name, (value,))
            for name in ("expect_true", "guard_or_false", "guard_or_true", "statically_known_true")
            for value in (True, False)
        ),
        ("is_nested_int", (3,)),
        *((name, values) for name in ("sym_and", "sym_or") for values in product((True, False), repeat=3)),
        ("sym_and", (True,)),
        *(
            ("sym_eq", pair)
            for pair in [(2, 2), (2, 3), ((2, 3), (2, 3)), ((2, 3), (2,)), ((2, 3), torch.Size((2, 4)))]
        ),
    ],
)
def test_functions_of_sizes(name: str, values: tuple[Any, ...]) -> None:
    """Of plain numbers, what torch's own gives."""
    compute = _OF_NUMBERS[name]
    expected = getattr(symbolic_shapes, name)(*values)
    assert (compute(*values), type(compute(*values))) == (expected, type(expected))


def test_a_compiler_that_is_there_stays() -> None:
    import torch._dynamo as compiler

    with compiler_left_out():
        assert sys.modules["torch._dynamo"] is compiler


@pytest.mark.parametrize("command", ["check", "train"])
def test_commands_import_no_more_packages(command: str, tmp_path: Path) -> None:
    """Beside those of `import torch`: each costs every start of a training."""
    shown = run(COMMAND.replace("{command}", command), tmp_path).splitlines()[-1]
    assert shown == "['burnlike', 'msgspec', 'yaml'] []"


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if is_exporting() else x * 3


@pytest.mark.parametrize("strict", [True, False])
def test_is_exporting(strict: bool) -> None:
    """In exported code alone, not in compiled code."""
    torch.compiler.reset()
    x, module = torch.ones(2), Doubled()
    assert torch.compile(module, backend="eager", fullgraph=True)(x).tolist() == [3, 3]
    assert torch.export.export(module, (x,), strict=strict).module()(x).tolist() == [2, 2]
    assert module(x).tolist() == [3, 3]


class GivenForward:
    def __get__(self, module: nn.Module | None, owner: type | None = None) -> object:
        return self if module is None else bound_method(Doubled.forward, module, owner)


never_compile_alone(GivenForward.__get__)


def test_bound_method() -> None:
    """By itself and in a module that is compiled."""

    class Inner(nn.Module):
        forward = GivenForward()

    inner = Inner()
    assert inner.forward.__self__ is inner  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    for module in (inner, nn.Sequential(inner)):
        assert torch.compile(module, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [3, 3]


def test_new() -> None:
    class Held:
        x: torch.Tensor

    def held(x: torch.Tensor) -> torch.Tensor:
        held = new(Held)
        held.x = x + 1
        return held.x

    assert type(new(Held)) is Held
    assert torch.compile(held, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [2, 2]
