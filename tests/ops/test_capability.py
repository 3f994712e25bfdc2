"""Which GPUs the CUDA kernels run on, and what happens on the others."""

from dataclasses import replace

import pytest
import torch

from burnlike.ops import _library
from burnlike.ops._library import runs_on


@pytest.mark.parametrize(
    ("capability", "built", "expected"),
    [
        ((8, 0), "80 90 100 100+PTX", True),
        ((8, 6), "80 90 100 100+PTX", True),
        ((7, 5), "80 90 100 100+PTX", False),
        ((12, 0), "80 90 100 100+PTX", True),  # by portable code
        ((12, 0), "80 90", False),
        ((8, 0), "86", False),
        ((9, 0), "90a", True),
        ((10, 0), "90a 90a+PTX", False),
        ((10, 3), "100f", True),
        ((12, 0), "100f", False),
        ((7, 5), "", False),
    ],
)
def test_which_gpus_run_what_was_built(capability: tuple[int, int], built: str, expected: bool) -> None:
    assert runs_on(capability, built) is expected


def test_gpus_that_nothing_was_built_for_take_the_references_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "CUDA", replace(_library.CUDA, loaded=True, reason=""))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", [(8, 6), (7, 5)].__getitem__)
    before = {*_library.WITHOUT_NATIVE}
    try:
        _library.WITHOUT_NATIVE.discard("cuda")
        _library._check_gpus("80")  # which the first of the two runs
        assert "cuda" not in _library.WITHOUT_NATIVE
        with pytest.warns(
            RuntimeWarning, match=r"on CUDA without native ops.* built for 90, .* 7\.5, 8\.6: name it in"
        ):
            _library._check_gpus("90")
        assert "cuda" in _library.WITHOUT_NATIVE
        assert not _library.CUDA.loaded
    finally:
        _library.WITHOUT_NATIVE.clear()
        _library.WITHOUT_NATIVE |= before
