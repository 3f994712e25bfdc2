"""Class weights and focal losses beside torch's in float64; several small batches as one large one."""

import math
from typing import Any

import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, InMemDataset, Splits, TensorDataset
from burnlike.errors import ConfigError, DataError
from burnlike.optim import SgdConfig
from burnlike.train import (
    Classification,
    ClassificationConfig,
    Learner,
    Segmentation,
    SegmentationConfig,
    TrainingConfig,
)

GENERATOR = torch.Generator().manual_seed(5)
X = torch.randn(12, 4, generator=GENERATOR, dtype=torch.float64)
Y = torch.tensor([0, 0, 0, 1, 2, 0, 0, 1, 0, 0, 2, 0])


def linear(d_output: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, d_output).double()


def data(targets: Tensor = Y, classes: list[str] | None = None) -> Splits:
    items = TensorDataset(X[: len(targets)], targets)
    return Splits(items, items, classes=classes or ["a", "b", "c"])


def told(config: Any, of: Any = None) -> Any:
    task = config.init()
    task.take_data(of or data())
    return task


@pytest.mark.parametrize(
    ("given", "weights"),
    [
        ((1.0, 2.0, 0.5), [1.0, 2.0, 0.5]),
        ({"b": 3.0}, [1.0, 3.0, 1.0]),
        ("balanced", compute_class_weight("balanced", classes=Y.unique().numpy(), y=Y.numpy()).tolist()),
    ],
)
def test_weighed_classes_are_torchs_and_are_not_measured_weighed(given: Any, weights: list[float]) -> None:
    model, weight = linear(3), torch.tensor(weights, dtype=torch.float64)
    task = told(ClassificationConfig(class_weights=given, label_smoothing=0.1))
    output = task.train_step(model, (X, Y))
    expected = functional.cross_entropy(model(X), Y, weight=weight, label_smoothing=0.1)
    torch.testing.assert_close(output.loss, expected)
    assert math.isclose(output.size, float(weight[Y].sum() / weight.mean()), rel_tol=1e-6)
    valid = task.valid_step(model, (X, Y))
    torch.testing.assert_close(valid.loss, functional.cross_entropy(model(X), Y))
    assert valid.size == 12


@pytest.mark.parametrize("gamma", [0.5, 2.0])
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5)])
def test_a_focal_loss_is_the_formula(gamma: float, weights: tuple[float, ...] | None) -> None:
    model = linear(3)
    task = told(ClassificationConfig(class_weights=weights, focal_gamma=gamma))
    p = model(X).softmax(1).gather(1, Y[:, None])[:, 0]
    share = torch.ones(12).double() if weights is None else torch.tensor(weights, dtype=torch.float64)[Y]
    expected = (-((1 - p) ** gamma) * p.log() * share).sum() / share.sum()
    output = task.train_step(model, (X, Y))
    torch.testing.assert_close(output.loss, expected)
    grads = [torch.autograd.grad(it, model.weight, retain_graph=True)[0] for it in (output.loss, expected)]
    torch.testing.assert_close(*grads)
    far = model(X) * 1e4  # p is 1 or 0: no NaN
    sure = task.train_step(nn.Identity(), (far.detach().requires_grad_(), Y))
    assert sure.loss.isfinite()


def test_a_focal_loss_of_something_certain_has_a_finite_gradient() -> None:
    logits = torch.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=torch.float64, requires_grad=True)
    task = told(ClassificationConfig(focal_gamma=0.5), data(torch.tensor([0, 0]), ["a", "b"]))
    task.train_step(nn.Identity(), (logits, torch.tensor([0, 0]))).loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_several_labels_are_weighed_where_they_are_there() -> None:
    model, targets = linear(2), (torch.rand(12, 2, generator=GENERATOR) > 0.7).double()
    of, logits = data(targets, ["p", "q"]), linear(2)(X)
    balanced = (12 - targets.sum(0)) / targets.sum(0)
    task = told(ClassificationConfig(multi_label=True, class_weights="balanced"), of)
    output = task.train_step(model, (X, targets))
    expected = functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=balanced)
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=0)
    task = told(ClassificationConfig(multi_label=True, focal_gamma=2.0), of)
    p = torch.where(targets > 0, logits.sigmoid(), 1 - logits.sigmoid())
    torch.testing.assert_close(task.train_step(model, (X, targets)).loss, (-((1 - p) ** 2) * p.log()).mean())


def test_weighed_pixels_leave_out_those_that_do_not_count() -> None:
    logits = torch.randn(2, 3, 4, 4, generator=GENERATOR, dtype=torch.float64)
    masks = torch.randint(3, (2, 4, 4), generator=GENERATOR)
    masks[:, 0] = 255
    of = Splits(TensorDataset(logits, masks), TensorDataset(logits, masks), classes=["x", "y", "z"])
    task = told(SegmentationConfig(class_weights="balanced", ignore_index=255), of)
    counted = masks[masks != 255]
    weights = compute_class_weight("balanced", classes=counted.unique().numpy(), y=counted.numpy())
    expected = functional.cross_entropy(logits, masks, weight=torch.tensor(weights), ignore_index=255)
    torch.testing.assert_close(task.train_step(nn.Identity(), (logits, masks)).loss, expected, rtol=1e-6, atol=0)


def test_a_list_of_weights_is_for_masks_of_which_no_names_are_known() -> None:
    logits, masks = torch.randn(1, 3, 2, 2, dtype=torch.float64), torch.tensor([[[0, 1], [2, 255]]])
    items = TensorDataset(logits, masks)
    vars(items)["classes"] = []  # as an ImageFolder with masks has them
    task = told(SegmentationConfig(class_weights=(1.0, 2.0, 3.0), ignore_index=255), Splits(items, items))
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    expected = functional.cross_entropy(logits, masks, weight=weights, ignore_index=255)
    torch.testing.assert_close(task.train_step(nn.Identity(), (logits, masks)).loss, expected)


def test_small_batches_train_as_one_large_one_with_weights() -> None:
    def trained(batch_size: int, times: int) -> Tensor:
        model = linear(3)
        task = told(ClassificationConfig(class_weights="balanced", focal_gamma=1.0))
        loader = DataLoader(TensorDataset(X, Y), batch_size=batch_size, seed=1)
        learner = Learner(model, SgdConfig().init(), 0.5, task=task)
        learner.fit(loader, None, TrainingConfig(epochs=3, batch_size=batch_size, accumulation_steps=times))
        return model.weight.detach()

    torch.testing.assert_close(trained(3, 4), trained(12, 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"class_weights": (1.0, 2.0)}, "class_weights: expected 3 weights, one for each of a, b, c, got 2"),
        ({"class_weights": {"d": 1.0}}, "class_weights: the data has no class 'd'; there are a, b, c"),
    ],
)
def test_weights_of_other_classes_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        told(ClassificationConfig(**config))


def test_what_can_not_be_balanced_says_why() -> None:
    with pytest.raises(DataError, match="balanced: the class c has no items to train on"):
        told(ClassificationConfig(class_weights="balanced"), data(torch.tensor([0, 1])))
    items = InMemDataset([(X[0], 1)])
    with pytest.raises(ConfigError, match="the data has no names of classes; give a list of weights"):
        told(ClassificationConfig(class_weights={"a": 2.0}), Splits(items, items))
    with pytest.raises(ConfigError, match="focal_gamma: expected none with `label_smoothing`"):
        ClassificationConfig(focal_gamma=2.0, label_smoothing=0.1)
    with pytest.raises(ConfigError, match="class_weights: expected a weight above 0"):
        ClassificationConfig(class_weights=(0.0, 0.0))
    with pytest.raises(ConfigError, match=r"a weight for each of the 2 classes of the logits, got 3"):
        Classification(ClassificationConfig(class_weights=(1.0, 2.0, 3.0))).train_step(linear(2), (X, Y.clamp(max=1)))
    assert isinstance(SegmentationConfig(focal_gamma=2.0).init(), Segmentation)
