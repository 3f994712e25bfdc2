"""oneDNN's product, as `ops.linear` calls it."""

import platform
from pathlib import Path

import torch

from burnlike._torch_compat import onednn


def test_has_product() -> None:
    """Each torch that is supported has it where it was built with oneDNN; the day one has not, this says so."""
    assert onednn.has_product() == torch.backends.mkldnn.is_available()


def test_product() -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(5, 8, generator=generator), torch.randn(3, 16, generator=generator)[:, ::2]
    bias = torch.randn(3, generator=generator)
    exact = x.double() @ y.double().T
    for given in (None, bias):
        expected = exact if given is None else exact + given
        torch.testing.assert_close(onednn.product(x, y, given).double(), expected, rtol=1e-5, atol=1e-5)
    columns = torch.randn(8, 5, generator=generator).T
    torch.testing.assert_close(
        onednn.product(columns, y, None).double(), columns.double() @ y.double().T, rtol=1e-5, atol=1e-5
    )


def test_is_faster() -> None:
    """Never on Intel's processors, whose AVX-512 MKL uses."""
    assert not onednn.is_faster() or torch.backends.cpu.get_cpu_capability() == "AVX512"


def test_slow_halves() -> None:
    """Those that torch itself says oneDNN does not multiply here; a torch that can't say it is to be looked at."""
    supported = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    found = onednn.slow_halves()
    if platform.machine() == "x86_64" and torch.backends.mkldnn.is_available():
        assert found == {dtype for dtype, name in supported.items() if not getattr(torch.ops.mkldnn, name)()}
    else:
        assert not found


def test_has_amx() -> None:
    """As the operating system tells of the CPU."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    assert bool(onednn.has_amx(torch.float16)) == ("amx_fp16" in flags)
    assert bool(onednn.has_amx(torch.bfloat16)) == ("amx_bf16" in flags)
