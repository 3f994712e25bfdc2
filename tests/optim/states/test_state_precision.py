"""Moments in float32, bfloat16 and 8 bits: what is kept, what a record keeps of it, and what it does to a training."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import burnlike as bl
from burnlike.errors import ConfigError, RecordError
from burnlike.module import params
from burnlike.optim import (
    AdamConfig,
    AdamWConfig,
    GradientsParams,
    LionConfig,
    ModuleOptimizerConfig,
    MomentumConfig,
    OptimizerAdaptor,
    SgdConfig,
)
from burnlike.record import Record, open_record
from burnlike.record.recorder import recorder_for
from tests.optim.steps import assert_same, train

CODED: list[ModuleOptimizerConfig] = [
    SgdConfig(momentum=MomentumConfig(), velocity="blockwise8"),
    AdamConfig(moment_1="blockwise8", moment_2="blockwise8"),
    AdamWConfig(moment_1="bfloat16", moment_2="blockwise8"),
    LionConfig(moment="blockwise8"),
]
NARROW: list[ModuleOptimizerConfig] = [
    SgdConfig(momentum=MomentumConfig(), velocity="bfloat16"),
    AdamConfig(moment_1="bfloat16", moment_2="bfloat16", amsgrad=True),
    AdamWConfig(moment_1="bfloat16", moment_2="float32"),
    LionConfig(moment="bfloat16"),
]


def of_type(config: Any) -> str:
    return type(config).__name__


def in_full(config: ModuleOptimizerConfig) -> ModuleOptimizerConfig:
    names = {"moment", "moment_1", "moment_2", "velocity"} & set(config.__struct_fields__)
    return config.replace(**dict.fromkeys(names, "auto"))


def model_of() -> nn.Module:
    """One parameter of 64 x 64 values, which are worth 8 bits, and one of 64, which are not."""
    generator = torch.Generator().manual_seed(2)
    linear = nn.Linear(64, 64)
    for param in linear.parameters():
        param.detach().copy_(torch.randn(param.shape, generator=generator))
    return linear


def dtypes(record: Record, path: str) -> dict[str, torch.dtype]:
    (text,) = [text for text, it in record.values["paths"].items() if it == path]
    found = {name.partition("."): it.dtype for name, it in record.tensors.items()}
    return {name.rpartition(".")[2]: dtype for (owner, _, name), dtype in found.items() if owner == text}


def test_each_moment_is_kept_as_the_config_says() -> None:
    model = model_of()
    optimizer = AdamWConfig(moment_1="bfloat16", moment_2="blockwise8").init()
    train(model, optimizer)
    record = optimizer.to_record()
    assert dtypes(record, "weight") == {
        "moment_1": torch.bfloat16,
        "moment_2": torch.uint8,
        "scales_2": torch.float32,
    }
    assert dtypes(record, "bias") == {"moment_1": torch.bfloat16, "moment_2": torch.float32}


@pytest.mark.parametrize(
    ("parameter", "kept", "expected"),
    [
        (torch.float16, "auto", torch.float32),
        (torch.bfloat16, "auto", torch.float32),
        (torch.float64, "auto", torch.float64),
        (torch.float64, "float32", torch.float32),
        (torch.float64, "bfloat16", torch.bfloat16),
        (torch.float16, "bfloat16", torch.bfloat16),
        (torch.float16, "blockwise8", torch.int8),
    ],
)
def test_every_precision_of_a_moment_goes_with_every_one_of_parameters(
    parameter: torch.dtype, kept: Any, expected: torch.dtype
) -> None:
    model = model_of().to(parameter)
    optimizer = AdamConfig(moment_1=kept).init()
    for _ in range(2):
        train(model, optimizer)
    assert dtypes(optimizer.to_record(), "weight")["moment_1"] == expected
    assert all(it.isfinite().all() for it in model.parameters())


@pytest.mark.parametrize("config", [*CODED, *NARROW], ids=of_type)
@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("extension", ["safetensors", "mpk", "bpk", "json.gz"])
def test_a_resumed_training_goes_on_bit_for_bit(
    tmp_path: Path, config: ModuleOptimizerConfig, stochastic: bool, extension: str
) -> None:
    config = config.replace(stochastic_rounding=stochastic)
    model = model_of().bfloat16()
    optimizer = config.init()
    for _ in range(2):
        train(model, optimizer)
    path = tmp_path / f"optimizer.{extension}"
    recorder_for(path).save(optimizer.to_record(), path)
    resumed = config.init().load_record(open_record(path), model)
    assert_same(resumed.to_record().tensors, optimizer.to_record().tensors)
    assert resumed.to_record().values == optimizer.to_record().values
    other = nn.Linear(64, 64).bfloat16()
    other.load_state_dict(model.state_dict())
    for one, same in zip(params(model), params(other), strict=True):
        same.adopt(one.id)
    for _ in range(2):
        train(model, optimizer)
        train(other, resumed)
    assert_same(model.state_dict(), other.state_dict())
    assert_same(resumed.to_record().tensors, optimizer.to_record().tensors)


@pytest.mark.parametrize("config", NARROW, ids=of_type)
def test_a_record_of_bfloat16_moments_has_burns_layout(config: ModuleOptimizerConfig) -> None:
    narrow, full = config.init(), in_full(config).init()
    model = model_of()
    train(model, narrow)
    train(model, full)
    assert narrow.to_record().layout is not None
    assert narrow.to_record().layout == full.to_record().layout


@pytest.mark.parametrize("config", CODED, ids=of_type)
def test_a_record_of_codes_has_no_layout_of_burn_and_formats_without_names_refuse_it(
    tmp_path: Path, config: ModuleOptimizerConfig
) -> None:
    optimizer = config.init()
    train(model_of(), optimizer)
    record = optimizer.to_record()
    assert record.layout is None
    with pytest.raises(RecordError, match="no layout"):
        recorder_for(tmp_path / "codes.bin").save(record, tmp_path / "codes.bin")
    assert "scales" not in str(optimizer.record_layout())


@pytest.mark.parametrize("config", CODED, ids=of_type)
def test_a_loaded_state_stays_in_the_precision_that_it_has(config: ModuleOptimizerConfig) -> None:
    model = model_of()
    coded = config.init()
    train(model, coded)
    optimizer = in_full(config).init().load_record(coded.to_record(), model)
    expected = dtypes(coded.to_record(), "weight")
    assert dtypes(optimizer.to_record(), "weight") == expected
    train(model, optimizer)
    assert dtypes(optimizer.to_record(), "weight") == expected


@pytest.mark.parametrize("precision", [bl.record.HalfPrecision, bl.record.BFloat16Precision])
def test_codes_saved_in_half_precision_train_on(tmp_path: Path, precision: bl.record.Precision) -> None:
    model, config = model_of(), AdamWConfig(moment_1="blockwise8", moment_2="blockwise8")
    optimizer = config.init()
    train(model, optimizer)
    path = bl.record.SafetensorsRecorder(precision).save(optimizer.to_record(), tmp_path / "half")
    resumed = config.init().load_record(open_record(path), model)
    train(model, resumed)
    assert dtypes(resumed.to_record(), "weight") == dtypes(optimizer.to_record(), "weight")


@pytest.mark.parametrize("kind", [AdamConfig, AdamWConfig])
def test_amsgrad_refuses_8_bits(kind: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{kind.__name__}: moment_2: with amsgrad expected auto, float32 or"):
        kind(amsgrad=True, moment_2="blockwise8")
    assert kind(amsgrad=True, moment_1="blockwise8").amsgrad


@pytest.fixture
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("config", CODED, ids=of_type)
def test_8_bits_of_a_sharded_parameter_are_refused_before_anything_changes(
    process_group: None, config: ModuleOptimizerConfig
) -> None:
    mesh = init_device_mesh("cpu", (1,))
    model = model_of()
    model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Shard(0)]))
    optimizer = config.init()
    with pytest.raises(ConfigError, match=r"'weight' is sharded, and .*: blockwise8 can't be.*take bfloat16"):
        optimizer.check(model)
    before = model.bias.detach().clone()
    model.bias.grad = torch.ones(64)
    with pytest.raises(ConfigError, match="sharded"):
        optimizer.step(0.1, model, GradientsParams.from_module(model))
    assert torch.equal(model.bias, before)


@pytest.mark.parametrize("moments", ["bfloat16", "blockwise8"])
def test_a_step_with_rounded_moments_is_near_the_exact_one(moments: Any) -> None:
    exact, rounded = model_of(), model_of()
    configs = [AdamWConfig(beta_2=0.95), AdamWConfig(beta_2=0.95, moment_1=moments, moment_2=moments)]
    optimizers = [config.init() for config in configs]
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        grads = [torch.randn(64, 64, generator=generator), torch.randn(64, generator=generator)]
        for model, optimizer in zip([exact, rounded], optimizers, strict=True):
            step(model, optimizer, grads)
    start = model_of()
    moved = (exact.weight - start.weight).detach()
    wrong = (rounded.weight - exact.weight).detach()
    assert wrong.norm() < 0.05 * moved.norm()


def step(model: nn.Module, optimizer: OptimizerAdaptor, grads: list[torch.Tensor]) -> None:
    for param, grad in zip(model.parameters(), grads, strict=True):
        param.grad = grad.clone()
    optimizer.step(1e-2, model, GradientsParams.from_module(model))
