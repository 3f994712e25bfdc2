"""Files that Burn wrote, in torch's layers: its outputs and gradients, and the same file again on the way back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike import nn as layers
from burnlike.interop import from_torch, record_from_torch, to_torch
from burnlike.interop.torch_counterparts import of_burnlike
from burnlike.record import Record
from tests.golden.contents import transposed_paths
from tests.golden.files import RecordFile, files_of
from tests.golden.folder import Golden, read_folder
from tests.golden.modules import built, types_of
from tests.golden.numbers import bits, check_close, tensor_of

FOLDER = Path(__file__).parents[1] / "golden"


def has_twin(golden: Golden) -> bool:
    config = golden.values.get("config")
    if not isinstance(config, Mapping) or "inputs" not in golden.values:
        return False
    return all(getattr(layers, name) in of_burnlike() for name in types_of(config))


GOLDENS = [golden for version in ("v0.21", "v0.22") for golden in read_folder(FOLDER / version) if has_twin(golden)]
FILES = [file for golden in GOLDENS for file in files_of(golden)]
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.golden.folder.name}/{file.name}")


def filled(file: RecordFile) -> nn.Module:
    module = built(file.golden.values["config"])
    file.record.load_into(module, dtype="as_saved" if file.precision == "as it is" else "module")
    return module


def inputs_of(golden: Golden) -> dict[str, Tensor]:
    found = {name: tensor_of(it) for name, it in golden.values["inputs"].items() if isinstance(it, Mapping)}
    return {name: it.long() if it.dtype == torch.int32 else it for name, it in found.items()}


def outputs_of(module: Any, golden: Golden) -> dict[str, Tensor]:
    """What torch's module computes, under Burn's names."""
    inputs = inputs_of(golden)
    x = next(iter(inputs.values()))
    if isinstance(module, nn.RNNBase):
        output, state = module(x)
        if isinstance(module, nn.GRU) and not module.bidirectional:  # of which Burn returns no state
            return {"output": output}
        states: tuple[Tensor, ...] = state if isinstance(state, tuple) else (state,)
        names = ("hidden", "cell") if len(states) > 1 else ("state",)
        states = states if module.bidirectional else tuple(it.squeeze(0) for it in states)
        return {"output": output, **dict(zip(names, states, strict=True))}
    if isinstance(module, nn.MultiheadAttention):
        named: dict[str, Any] = {}
        if "mask_attn" in inputs:
            named["attn_mask"] = inputs["mask_attn"].repeat_interleave(module.num_heads, 0)
            named["key_padding_mask"] = inputs["mask_pad"]
        query, key, value = (inputs.get(name, x) for name in ("query", "key", "value"))
        output, weights = module(query, key, value, average_attn_weights=False, **named)
        return {"context": output, "weights": weights}
    if isinstance(module, nn.TransformerDecoder):
        return {"output": module(inputs["target"], inputs["memory"])}
    if isinstance(module, nn.BatchNorm2d | nn.InstanceNorm2d):  # of rank 4, for one of rank 3
        return {"output": module(x[..., None])[..., 0]}
    if type(module).__module__.startswith("torch."):
        return {"output": module(x)}
    for layer in module.children():
        x = layer(x.flatten(1) if isinstance(layer, nn.Linear) else x)
    return {"output": x}


@each_file
def test_torch_computes_what_burn_did(file: RecordFile) -> None:
    golden = file.golden
    module = filled(file)
    theirs = to_torch(module)
    outputs = outputs_of(theirs, golden)
    expected = {name: tensor_of(it) for name, it in golden.values["outputs"].items() if not name.endswith("_after")}
    assert outputs.keys() == expected.keys()
    if file.precision == "half":
        return
    for name, tensor in expected.items():
        check_close(outputs[name], tensor, name, rtol=1e-5)
    grads = {it["path"]: tensor_of(it) for it in golden.values.get("grads", []) if it.get("values") is not None}
    if not grads or (golden.is_burn_0_21 and "transformer" in golden.name):  # of GELU's approximation
        return
    sum((weighted(outputs[name]) for name in expected), torch.zeros(())).backward()
    found = gradients(module, theirs)
    for path, tensor in grads.items():
        grad = found[path].mT if path in transposed_paths(golden.values["config"]) else found[path]
        check_close(grad, tensor, f"the gradient of {path}", rtol=1e-4)


def weighted(output: Tensor) -> Tensor:
    flat = output.flatten()
    return (flat * torch.tensor([((i % 7) - 3) / 4 + 0.125 for i in range(flat.numel())])).sum()


def gradients(module: nn.Module, theirs: nn.Module) -> dict[str, Tensor]:
    """The gradients of torch's parameters by the paths of burnlike's, in burnlike's layouts."""
    state = {name: it.grad for name, it in theirs.named_parameters() if it.grad is not None}
    rest = {name: torch.zeros_like(it) for name, it in theirs.state_dict().items() if name not in state}
    return dict(record_from_torch(module, {**state, **rest}).tensors)


@each_file
def test_the_file_written_from_what_came_back_is_the_same(file: RecordFile) -> None:
    module = filled(file)
    back = from_torch(to_torch(module))
    if file.golden.name == "linear_col":  # torch has one layout, which comes back as Burn's default
        assert torch.equal(back.weight, module.get_parameter("weight"))
        return
    if file.recorder_text == "SafetensorsStore":  # burn-store writes metadata of its own, and no ids
        found = Record.from_module(back)
        for name, tensor in file.record.tensors.items():
            assert torch.equal(bits(found.tensors[name]), bits(tensor))
        return
    file.check_rewritten(Record.from_module(back), file.stored_precision())


def test_layers_of_many_families_are_tested() -> None:
    names = {golden.name for golden in GOLDENS if golden.folder.name == "v0.22"}
    assert names >= {"linear", "conv2d", "conv_transpose3d", "embedding", "batch_norm", "group_norm", "prelu", "net"}
    assert names >= {
        "rnn",
        "bigru",
        "lstm",
        "bilstm",
        "mha",
        "mha_masked",
        "transformer_encoder",
        "transformer_decoder",
    }
