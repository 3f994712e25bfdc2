"""The package of kernels for transformers' `use_kernels=True`."""

import copy
import importlib.util
import json
import pickle
import sys
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from burnlike.interop import kernel_mapping, write_kernels
from burnlike.interop.hub_kernels import LAYERS
from burnlike.ops import native_status

SIZES: Any = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture
def layers(tmp_path: Path) -> Any:
    """The package's layers as `kernels` 0.17 loads them: the folder of a variant, by the id in its metadata."""
    variant = write_kernels(tmp_path) / "build" / "torch-universal"
    name = json.loads((variant / "metadata.json").read_text())["id"]
    spec: Any = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.layers
    for it in [it for it in sys.modules if it.startswith(name)]:
        del sys.modules[it]


def results(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    ids = torch.randint(3, 40, (2, 5), generator=torch.Generator().manual_seed(0))
    loss = model(input_ids=ids, labels=ids).loss
    model.zero_grad()
    loss.backward()
    return loss.detach(), {name: it.grad.clone() for name, it in model.named_parameters() if it.grad is not None}


def test_layers_compute_the_same_in_both_passes_and_what_is_not_proved_stays(layers: Any) -> None:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    loss, gradients = results(model)
    norms = [it for it in model.modules() if type(it).__name__ == "LlamaRMSNorm"]

    class Scaled(type(norms[0])):
        def forward(self, hidden_states: Tensor) -> Tensor:
            return super().forward(hidden_states) * 1.0

    norms[0].__class__ = Scaled
    for norm in norms:
        norm.forward = MethodType(layers.RMSNorm.forward, norm)  # as `kernels` does
    results(model)  # which proves
    calls = native_status().calls["rms_norm_backward"]
    for it in (model, copy.deepcopy(model)):
        found, others = results(it)
        torch.testing.assert_close(found, loss)
        for name, gradient in gradients.items():
            torch.testing.assert_close(others[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
    assert native_status().calls["rms_norm_backward"] == calls + 2 * (len(norms) - 1)
    assert pickle.loads(pickle.dumps(vars(norms[1])["_burnlike_hub_kernel"]))


def test_layers_are_what_the_kernels_library_asks_of_them(layers: Any) -> None:
    for name in LAYERS:
        kernel = getattr(layers, name)
        own = {it for it in dir(kernel) if it not in dir(nn.Module)}
        assert kernel.__init__ is nn.Module.__init__
        assert own == {"has_backward", "can_torch_compile"}
        assert kernel.has_backward


def test_transformers_finds_the_package_by_use_kernels(tmp_path: Path) -> None:
    kernels: Any = pytest.importorskip("kernels")
    from transformers.utils import import_utils

    if not import_utils.is_kernels_available():
        pytest.skip("transformers takes another version of kernels")
    with kernels.use_kernel_mapping(kernel_mapping(write_kernels(tmp_path))):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
        loss = results(model)[0]
        model.set_use_kernels(True)
        calls = native_status().calls.get("rms_norm_backward", 0)
        torch.testing.assert_close(results(model)[0], loss)
        assert native_status().calls["rms_norm_backward"] > calls
