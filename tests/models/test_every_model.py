"""Each case of the table of ready models, in torch's world and in that of records."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from burnlike import Autodiff, Cpu, Tensor as Typed, models
from burnlike.config import ModuleConfig, registry
from burnlike.errors import ConfigError
from burnlike.module import display, params
from burnlike.record import BurnpackRecorder, FileRecorder, NamedMpkFileRecorder, init_from, load, save

from ..nn.cases import tensors_of
from ..nn.test_layers import changed, expect_equal, limits_of, typed_tensors_of
from .cases import CASES, ModelCase

each_model = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# Of the large ones, what compiles is a slow test.
each_compiled = pytest.mark.parametrize(
    "case", [pytest.param(it, id=it.name, marks=[pytest.mark.slow] if it.slow else []) for it in CASES]
)


def run(model: Callable[..., Any], case: ModelCase, change: Callable[[Tensor], Any] = lambda tensor: tensor) -> Any:
    """What is compared of the output of `model` for the case's inputs, tensors as `change` makes them."""
    return case.output(model(*(changed(it, change) for it in case.drawn())))


def skip_where_not(case: ModelCase, driver: str) -> None:
    if driver in case.not_in:
        pytest.skip(case.not_in[driver])


def test_each_model_has_a_case_and_is_public() -> None:
    registry.load_built_in()
    found = registry.imported(ModuleConfig)
    places = {name: config.__module__ for name, config in found.items()}
    own = {name for name, place in places.items() if place.startswith("burnlike.models.")}
    names = own - {"Pretrained", "LoRA"}  # which make models of others; tests of their own have their cases
    assert names == {str(registry.tag_of(type(case.config))) for case in CASES}
    assert {*names, *(f"{name}Config" for name in names)} <= {*models.__all__}
    assert len({case.name for case in CASES}) == len(CASES)


NAMES_OF_OUTPUTS = re.compile(r".*(class(es)?|labels?|tags?|outputs?|targets?)$")
NOT_FROM_DATA = {
    "Pretrained": "its `classes` and None of `n_classes` are completed by `for_task`",
    "LoRA": "its `targets` are layers",
    "Siamese": "None is a result of its own, the cosine",
}


OF_IMAGENET = ("ResNet", "ConvNext", "VisionTransformer")


def test_the_size_of_each_result_may_be_left_to_the_data() -> None:
    """A new head whose size is no `Outputs` fails here."""
    registry.load_built_in()
    models_of_outputs = set()
    for tag, config in registry.imported(ModuleConfig).items():
        for field in registry.fields_of(config).values() if config.__module__.startswith("burnlike.models.") else ():
            if tag in NOT_FROM_DATA or not NAMES_OF_OUTPUTS.match(field.name):
                continue
            models_of_outputs.add(tag)
            fitting = next(it.config for it in CASES if type(it.config) is config and getattr(it.config, field.name))
            fields = {name: getattr(fitting, name) for name in fitting.__struct_fields__ if name != field.name}
            open_config: Any = config(**fields)
            assert open_config.lacks_sizes, f"{tag}.{field.name}: expected the type `Outputs` and the default FROM_DATA"
            assert open_config.for_sizes(7, None) == open_config
            assert open_config.for_sizes(7, getattr(fitting, field.name)) == fitting
            assert fitting.for_sizes(7, 9) == fitting
            assert models.LoRAConfig(of=open_config).for_sizes(7, 3) == models.LoRAConfig(
                of=open_config.for_sizes(7, 3)
            )
            message = f"{tag}: expected `{field.name}`, how many classes or numbers .* such as `{field.name}: 10`"
            if open_config.usual_outputs is not None:
                assert tag in OF_IMAGENET
                of_1000 = config(**fields, num_classes=1000).init("meta")
                assert str(open_config.init("meta")) == str(of_1000)
                continue
            for refused in (open_config, models.LoRAConfig(of=open_config)):
                with pytest.raises(ConfigError, match=message):
                    refused.init()
    heads = {"ResNet", "ConvNext", "VisionTransformer", "UNet", "BertClassifier", "TextClassifier", "TokenTagger"}
    assert models_of_outputs >= heads


@each_model
def test_the_output_has_its_shapes_also_on_the_meta_device(case: ModelCase) -> None:
    assert [(*it.shape,) for it in tensors_of(run(case.model(), case))] == [*case.shapes]
    skip_where_not(case, "meta")
    found = tensors_of(run(case.config.init("meta").double().eval(), case, lambda it: it.to("meta")))
    assert [(*it.shape,) for it in found] == [*case.shapes]
    assert all(it.is_meta for it in found)


@each_model
def test_a_step_of_training_reaches_all_parameters_and_lowers_the_loss(case: ModelCase) -> None:
    model = case.model().train()
    torch.manual_seed(2)
    targets = [torch.randn(shape, dtype=torch.float64) for shape in case.shapes]

    def loss() -> Tensor:
        pairs = zip(tensors_of(run(model, case)), targets, strict=True)
        return sum(((output - target).square().mean() for output, target in pairs), torch.zeros(()))

    before = loss()
    before.backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for param in params(model):
        if param.tensor.requires_grad:
            grad = param.tensor.grad
            assert grad is not None, param.path
            assert torch.isfinite(grad).all(), param.path
    optimizer.step()
    assert loss() < before


@each_compiled
def test_it_compiles_to_one_graph(case: ModelCase) -> None:
    skip_where_not(case, "compile")
    torch._dynamo.reset()
    model = case.model()
    found = run(torch.compile(copy.deepcopy(model), fullgraph=True, backend="eager"), case)
    expect_equal(found, run(model, case))


@each_compiled
def test_it_can_be_exported(case: ModelCase) -> None:
    skip_where_not(case, "export")
    model = case.model()
    shown, attributes = display(model), {*vars(model)}
    sizes = tuple({0: Dim.AUTO} if isinstance(it, Tensor) and it.dim() else None for it in case.drawn())
    program = torch.export.export(model, case.drawn(), dynamic_shapes=sizes)
    assert limits_of(program) == []
    expect_equal(case.output(program.module()(*case.drawn())), run(model, case))
    assert (display(model), {*vars(model)}) == (shown, attributes)


@each_model
def test_typed_tensors_give_the_same(case: ModelCase) -> None:
    skip_where_not(case, "typed")
    model = case.model()
    for backend in (Cpu(), Autodiff(Cpu())):
        found = typed_tensors_of(run(model, case, lambda tensor, backend=backend: Typed(tensor, backend)))
        with torch.set_grad_enabled(backend.name.startswith("autodiff")):  # some of torch's kernels differ in rounding
            expected = tensors_of(run(model, case))
        assert len(found) == len(expected)
        for typed, plain in zip(found, expected, strict=True):
            assert typed.inner.requires_grad == plain.requires_grad
            torch.testing.assert_close(typed.inner.detach(), plain.detach(), rtol=0, atol=0)


@each_model
def test_it_computes_in_bfloat16(case: ModelCase) -> None:
    skip_where_not(case, "bfloat16")
    half = case.model().bfloat16()
    found = tensors_of(run(half, case, lambda it: it.bfloat16() if it.is_floating_point() else it))
    # The same rounded weights and inputs in float64: what differs is the computation.
    exact = tensors_of(run(half.double(), case, lambda it: it.bfloat16().double() if it.is_floating_point() else it))
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == (torch.bfloat16 if other.is_floating_point() else other.dtype)
        torch.testing.assert_close(one.to(other), other, rtol=0.1, atol=0.1 * float(other.detach().abs().max()))


@each_model
def test_a_copy_is_equal_and_apart(case: ModelCase) -> None:
    model = case.model()
    other = copy.deepcopy(model)
    expect_equal(run(other, case), run(model, case), rtol=0, atol=0)
    assert {it.path: it.id for it in params(other)} == {it.path: it.id for it in params(model)}
    assert {it.data_ptr() for it in model.parameters()}.isdisjoint({it.data_ptr() for it in other.parameters()})


@each_model
def test_its_record_builds_it_from_the_meta_device(case: ModelCase, tmp_path: Path) -> None:
    model = case.model()
    path = save(model, tmp_path / "model.safetensors")
    built = init_from(case.config, path, "cpu").double().eval()
    expect_equal(run(built, case), run(model, case), rtol=0, atol=0)


@each_model
@pytest.mark.parametrize("recorder", [NamedMpkFileRecorder, BurnpackRecorder], ids=["mpk", "bpk"])
def test_its_record_in_burns_formats(case: ModelCase, recorder: type[FileRecorder], tmp_path: Path) -> None:
    model = case.model().float()
    path = save(model, tmp_path / "model", recorder=recorder())
    other: nn.Module = case.config.init().eval()
    load(other, path)
    assert {it.path: it.id for it in params(other)} == {it.path: it.id for it in params(model)}
    for one, its in zip(params(other), params(model), strict=True):
        assert torch.equal(one.tensor, its.tensor), one.path


@each_model
def test_its_config_goes_through_yaml(case: ModelCase) -> None:
    assert type(case.config).from_yaml(case.config.to_yaml()) == case.config
