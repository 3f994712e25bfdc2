"""The check of the CUDA sources sees accesses of 16 bytes that the compiler has split."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

CHECK = Path(__file__).parents[1] / ".ci" / "vector_accesses.py"
PTX = """
.version 9.0
.target sm_90

.visible .entry _ZN8burnlike4cuda18glu_forward_kernelILi8ENS_4SiluENS_8BFloat16EEEvi(
	.param .align 8 .b8 rows[16]
)
{
	ld.global.v4.u32 	{%r1, %r2, %r3, %r4}, [%rd1];
	ld.global.nc.L1::no_allocate.v2.b64 	{%rd5, %rd6}, [%rd2];
	STORES
	ret;
}

.visible .entry other(
	.param .u64 place
)
{
	st.global.v4.u32 	[%rd1], {%r1, %r2, %r3, %r4};
	st.global.v8.b32 	[%rd1], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};
	ld.global.v2.f32 	{%f1, %f2}, [%rd2];
	ret;
}
"""
WHOLE = "st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};"
SPLIT = "\n".join(f"st.global.u16 [%rd3+{2 * lane}], %rs{lane};" for lane in range(8))


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vector_accesses", CHECK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_accesses_of_each_kernel_are_counted(check: ModuleType) -> None:
    first, other = check.accesses(PTX.replace("STORES", WHOLE)).values()
    assert first == (2, 1)
    assert other == (0, 3)  # of 16 and 32 bytes; loads of 8 bytes don't count


needs_names = pytest.mark.skipif(shutil.which("c++filt") is None, reason="names are read by c++filt of binutils")


@needs_names
def test_a_store_that_was_split_is_a_problem(check: ModuleType) -> None:
    assert check.problems("swiglu", "sm_90", PTX.replace("STORES", WHOLE)) == []
    (problem,) = check.problems("swiglu", "sm_90", PTX.replace("STORES", SPLIT))
    assert "glu_forward_kernel<8, Silu, BFloat16> for sm_90: expected at least 2 loads and 1 stores" in problem
    assert "got 2 and 0" in problem


@needs_names
def test_a_kernel_with_packs_needs_a_row_of_the_table(check: ModuleType) -> None:
    (problem,) = check.problems("new_op", "sm_90", PTX.replace("STORES", WHOLE))
    assert "glu_forward_kernel<8, Silu, BFloat16> has no row in .ci/vector_accesses.py" in problem
