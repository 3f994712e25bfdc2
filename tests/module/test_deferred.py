"""Modules that are built without values get, tensor by tensor, the bits that they would have been built with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from burnlike.models import DecoderLmConfig
from burnlike.module.torch_objects.deferred import Deferred, at_once
from burnlike.record import open_record, save

pytestmark = pytest.mark.slow


class Box(NamedTuple):
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def of_torch() -> nn.Module:
    """Copies, ties, values that are drawn again, looked at, and computed from others."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.TransformerEncoder(layer, 2), nn.Linear(4, 8))
    model[3].weight = model[0].weight
    nn.init.trunc_normal_(model[0].weight, std=0.5, a=-1, b=1)
    nn.init.orthogonal_(model[2].layers[0].linear1.weight)
    for part in model.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.bias, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        model[1].weight.add_(model[0].bias.abs())
        if model[1].weight.sum() > 0:
            model[1].bias.fill_(torch.randn(()).item())
    model.register_buffer("table", torch.rand(3) * 2)
    return model


def decoder() -> nn.Module:
    config = DecoderLmConfig(vocab_size=32, max_sequence_length=8, d_model=16, n_layers=2, n_heads=4, d_ff=32)
    return config.init("cpu")


def converted() -> nn.Module:
    return decoder().to(torch.bfloat16)


@pytest.mark.parametrize("make", [of_torch, decoder, converted])
def test_values_are_made_later_to_the_bit(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(3)
    expected, after = make(), torch.rand(2)
    torch.manual_seed(3)
    with Deferred() as deferred:
        module = make()
    assert torch.equal(torch.rand(2), after)  # the generator has gone on
    fakes = deferred.settle(module)
    names = [name for name, _ in expected.named_parameters(remove_duplicate=False)]
    assert [*fakes] == names
    assert all(it.is_meta for it in module.parameters())
    ties = [module.get_parameter(name) for name in names if name.endswith(("0.weight", "3.weight"))]
    assert len({*map(id, ties)}) <= len(ties)
    for name in reversed(names):  # in any order
        assert torch.equal(deferred.values(fakes[name]), expected.get_parameter(name)), name
    for name, buffer in expected.named_buffers():
        assert torch.equal(module.get_buffer(name), buffer)
    assert torch.equal(torch.rand(2), (torch.manual_seed(3), make(), torch.rand(2), torch.rand(2))[-1])


def test_of_a_tensor_of_a_file_only_a_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.arange(6 * 5 * 4, dtype=torch.float32).view(6, 5, 4)
    record = open_record(save({"weight": whole}, tmp_path / "x.safetensors"))
    read: list[int] = []
    kind: Any = type(record.tensors.outline.entries["weight"])  # pyright: ignore[reportAttributeAccessIssue]
    original = kind.read_into

    def counted(entry: Any, begin: int, into: memoryview) -> None:
        read.append(len(into))
        original(entry, begin, into)

    monkeypatch.setattr(kind, "read_into", counted)
    with Deferred() as deferred:
        module = nn.ParameterList([record.tensors["weight"].double(), torch.randn(6, 5, 4, dtype=torch.float64)])
        record.load_into(module, strict=False, remap={"weight": "1"})  # into what had been drawn
        module.append(record.tensors["weight"].double())
        with torch.no_grad():
            module[2][:3].copy_(record.tensors["weight"][3:])  # of which not all is overwritten
    fakes = deferred.settle(module)
    read.clear()  # what the load checked
    for name in ("0", "1"):
        found: Tensor = deferred.part(fakes[name], Box((2, 1, 0), (3, 2, 4)))
        assert torch.equal(found, whole[2:5, 1:3].double())
        assert sum(read) == found.numel() * 4
        read.clear()
    assert torch.equal(deferred.part(fakes["2"], Box((2, 1, 0), (3, 2, 4))), whole[[5, 3, 4], 1:3].double())


def test_what_has_to_be_computed_at_once_gets_values_and_is_not_noted() -> None:
    torch.manual_seed(3)
    expected = torch.rand(3).round()
    torch.manual_seed(3)
    with Deferred() as deferred:
        module = nn.ParameterList([at_once(lambda it: it.round() + torch.zeros(3), torch.rand(3))])
    assert deferred.settle(module) == {}
    assert torch.equal(module[0], expected)
    assert torch.equal(at_once(torch.Tensor.round, expected), expected)


def test_what_another_thread_makes_is_refused() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with Deferred() as deferred:
        module = nn.Linear(2, 2)
        with ThreadPoolExecutor(1) as pool:
            module.bias = nn.Parameter(pool.submit(lambda: module.weight.detach()[0] + 1).result())
    with pytest.raises(RuntimeError, match="'bias' was made in another thread"):
        deferred.settle(module)
