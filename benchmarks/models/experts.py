"""Experts of transformers' mixtures, fused, beside transformers' own grouped products: forward and backward.

512 rows of a router that draws experts at random; sizes in the names: experts, chosen, hidden size, inner size.

    python -m benchmarks.models.experts
"""

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from burnlike.interop import fuse

from .._harness import Comparison, compare, main

ROWS = 512
_USUAL: dict[str, Any] = {"hidden_size": 256, "experts_implementation": "grouped_mm"}
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "Mixtral": ("mixtral.modeling_mixtral", {"intermediate_size": 704, "num_local_experts": 8}, 2),
    "Qwen3Moe": ("qwen3_moe.modeling_qwen3_moe", {"moe_intermediate_size": 176, "num_experts": 32}, 8),
    "GptOss": ("gpt_oss.modeling_gpt_oss", {"intermediate_size": 256, "num_local_experts": 16}, 4),
    "DeepseekV3": ("deepseek_v3.modeling_deepseek_v3", {"moe_intermediate_size": 176, "n_routed_experts": 32}, 8),
}


def experts(name: str, dtype: torch.dtype) -> tuple[nn.Module, list[Tensor]]:
    """The experts of a family, and their input: hidden states, chosen experts, weights."""
    place, sizes, chosen = CASES[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**_USUAL, **sizes)
    module: Any = getattr(import_module(f"transformers.models.{place}"), f"{name}Experts")(config)
    for it in module.parameters():
        nn.init.normal_(it, std=1 / 16)
    logits = torch.randn(ROWS, module.num_experts)
    weights, index = logits.softmax(-1).topk(chosen, -1)
    return module.to(dtype), [torch.randn(ROWS, 256).to(dtype).requires_grad_(), index, weights.to(dtype)]


def _both_passes(module: nn.Module, inputs: list[Tensor]) -> Callable[[], object]:
    leaves = [inputs[0], *module.parameters()]
    seed = torch.randn_like(inputs[0])
    return lambda: torch.autograd.grad(module(*inputs), leaves, seed)


def run(repeats: int) -> list[Comparison]:
    """Measure float32 and bfloat16."""
    results: list[Comparison] = []
    for name in CASES:
        for dtype in (torch.float32, torch.bfloat16):
            module, inputs = experts(name, dtype)
            fused = copy.deepcopy(module)
            fuse(fused)
            sizes = "x".join(str(size) for size in module.get_parameter("down_proj").shape)
            results.append(
                compare(
                    f"{name}Experts {sizes} {str(dtype).removeprefix('torch.')}",
                    _both_passes(fused, inputs),
                    _both_passes(module, inputs),
                    theirs_name="grouped_mm",
                    bar=1.2,
                    repeats=repeats,
                )
            )
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
