"""The tasks: losses beside torch's in float64, and batches that don't fit."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.errors import DataError, ShapeError
from burnlike.module import LoraConfig, params
from burnlike.train import (
    Classification,
    ClassificationConfig,
    LanguageModel,
    LanguageModelConfig,
    LoraFineTuning,
    LoraFineTuningConfig,
    ModelLoss,
    ModelLossConfig,
    Regression,
    RegressionConfig,
    Segmentation,
    SegmentationConfig,
    StepOutput,
)

GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(6, 4, generator=GENERATOR, dtype=torch.float64)


def linear(d_output: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, d_output).double()


class Named(nn.Module):
    """Takes names and gives an object, as models of transformers do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *, pixels: Tensor) -> Any:
        class Output:
            logits = self.inner(pixels)

        return Output


def test_classification_is_cross_entropy_and_validates_without_smoothing() -> None:
    model, targets = linear(3), torch.tensor([0, 1, 2, 2, 1, 0])
    task = Classification(ClassificationConfig(label_smoothing=0.2))
    trained, valid = task.train_step(model, (X, targets)), task.valid_step(model, (X, targets))
    torch.testing.assert_close(trained.loss, functional.cross_entropy(model(X), targets, label_smoothing=0.2))
    torch.testing.assert_close(valid.loss, functional.cross_entropy(model(X), targets))
    assert (trained.size, valid.size) == (6, 6)
    assert torch.equal(valid.predictions, model(X))
    assert valid.targets is targets
    trained.loss.backward()
    assert model.weight.grad is not None


def test_several_labels() -> None:
    model, targets = linear(3), torch.tensor([[0, 1, 1], [1, 0, 0]] * 3)
    task = Classification(ClassificationConfig(multi_label=True, label_smoothing=0.1))
    expected = functional.binary_cross_entropy_with_logits(model(X), targets.double() * 0.9 + 0.05)
    torch.testing.assert_close(task.train_step(model, (X, targets)).loss, expected)
    expected = functional.binary_cross_entropy_with_logits(model(X), targets.double())
    torch.testing.assert_close(task.valid_step(model, (X, targets)).loss, expected)


def test_a_batch_may_name_its_parts() -> None:
    model, targets = linear(3), torch.tensor([0, 1, 2, 2, 1, 0])
    found = Classification().train_step(Named(model), {"pixels": X, "labels": targets})
    torch.testing.assert_close(found.loss, functional.cross_entropy(model(X), targets))


@pytest.mark.parametrize("named", [None, 5])
def test_a_model_that_reads_the_last_token_knows_the_padding_of_the_data(named: int | None) -> None:
    from transformers import GPT2Config, GPT2ForSequenceClassification

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=8, pad_token_id=named)
    task = Classification()
    task.take_facts({"padding": 3})
    model = task.prepare(GPT2ForSequenceClassification(config).double().eval())
    texts, labels = [[5, 4, 5], [6, 7, 2, 8, 5]], torch.tensor([0, 1])
    ids = torch.tensor([text + [3] * (5 - len(text)) for text in texts])
    batch = {"input_ids": ids, "attention_mask": (ids != 3).long(), "labels": labels}
    alone = torch.cat([model(input_ids=torch.tensor([text])).logits for text in texts])
    torch.testing.assert_close(task.valid_step(model, batch).loss, functional.cross_entropy(alone, labels))


def test_losses_of_models_in_16_bits_are_not_rounded() -> None:
    logits = torch.randn(3, 4, 5, generator=GENERATOR).bfloat16()
    labels = torch.tensor([[0, 1, 2, 3], [4, 0, -100, 1], [2, 2, 3, 0]])
    expected = functional.cross_entropy(logits.float()[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    model = nn.Identity()
    model.forward = lambda input_ids: logits  # type: ignore[method-assign]
    output = LanguageModel().train_step(model, {"input_ids": labels.abs(), "labels": labels})
    torch.testing.assert_close(output.loss, expected)
    flat, classes = logits[:, 0], labels[:, 0]
    found = Classification().valid_step(nn.Identity(), (flat, classes)).loss
    torch.testing.assert_close(found, functional.cross_entropy(flat.float(), classes))
    several = Classification(ClassificationConfig(multi_label=True)).valid_step(nn.Identity(), (flat, flat.gt(0))).loss
    torch.testing.assert_close(several, functional.binary_cross_entropy_with_logits(flat.float(), flat.gt(0).float()))
    numbers = flat.float() + 1234.5  # as a bfloat16 it is 1232
    regression = Regression().valid_step(nn.Identity(), (flat, numbers)).loss
    torch.testing.assert_close(regression, functional.mse_loss(flat.float(), numbers))


def test_segmentation_leaves_ignored_pixels_out() -> None:
    torch.manual_seed(2)
    model = nn.Conv2d(1, 3, 1).double()
    images = torch.randn(2, 1, 4, 5, dtype=torch.float64)
    targets = torch.randint(0, 3, (2, 4, 5))
    targets[0, 0] = 255
    found = Segmentation(SegmentationConfig(ignore_index=255)).train_step(model, (images, targets))
    torch.testing.assert_close(found.loss, functional.cross_entropy(model(images), targets, ignore_index=255))
    assert found.size == 2 * 4 * 5 - 5
    whole = Segmentation().train_step(model, (images, targets.clamp(max=2)))
    torch.testing.assert_close(whole.loss, functional.cross_entropy(model(images), targets.clamp(max=2)))
    assert whole.size == 40


@pytest.mark.parametrize(
    ("name", "function"),
    [("mse", functional.mse_loss), ("mae", functional.l1_loss), ("huber", functional.huber_loss)],
)
def test_regression(name: Any, function: Any) -> None:
    model, targets = linear(1), torch.arange(6.0, dtype=torch.float64)
    task = Regression(RegressionConfig(loss=name))
    expected = function(model(X).squeeze(1), targets)
    for given in (targets, targets.unsqueeze(1)):
        found = task.train_step(model, (X, given))
        torch.testing.assert_close(found.loss, expected)
        assert found.predictions.shape == found.targets.shape
    torch.testing.assert_close(task.train_step(lambda x: model(x).squeeze(1), (X, targets[:, None])).loss, expected)


def test_lora_trains_the_adapters_of_another_task() -> None:
    task = LoraFineTuningConfig(task=RegressionConfig(), lora=LoraConfig(rank=2, alpha=2.0)).init()
    assert isinstance(task, LoraFineTuning)
    model = task.prepare(nn.Sequential(linear(4), nn.ReLU(), linear(1)))
    assert [it.path for it in params(model) if it.trainable] == [
        *("0.weight.lora.a", "0.weight.lora.b", "2.weight.lora.a", "2.weight.lora.b")
    ]
    found = task.train_step(model, (X, X[:, 0]))
    torch.testing.assert_close(found.loss, functional.mse_loss(model(X).squeeze(1), X[:, 0]))
    assert task.unit == "items"
    assert LoraFineTuningConfig(task=LanguageModelConfig(), lora=LoraConfig(rank=1, alpha=1)).init().unit == "tokens"


def test_a_language_models_own_loss_is_used() -> None:
    class Own(nn.Module):
        def loss(self, batch: Tensor) -> StepOutput:
            return StepOutput(batch.sum(), 7)

    assert LanguageModel().train_step(Own(), torch.ones(3)) == StepOutput(torch.tensor(3.0), 7)


@pytest.mark.parametrize(
    ("task", "batch", "message"),
    [
        (LanguageModel(), X, r"expected batches of \[n, length \+ 1\] integer tokens, got torch\.float"),
        (LanguageModel(), torch.ones(2, 1, dtype=torch.long), r"integer tokens, got torch\.int64\[2, 1\]"),
        (LanguageModel(), {"input_ids": X}, "integer tokens, got dict"),
        (Classification(), X, r"expected batches of inputs and targets, .* got Tensor"),
        (Classification(), {"pixels": X}, "expected 'labels' among the entries of a batch, got pixels"),
        (
            Classification(),
            (X, X),
            r"\[n, classes\] logits and \[n\] classes .* got logits of \[6, 3\] and .* \[6, 4\]",
        ),
        (
            Classification(ClassificationConfig(multi_label=True)),
            (X, torch.zeros(6)),
            r"\[n, classes\] zeros and ones .* targets of \[6\]",
        ),
        (Segmentation(), (X, torch.zeros(6)), r"Segmentation: expected \[n, classes, height, width\] logits"),
        (Regression(), (X, torch.zeros(6, 2)), r"Regression: .* one shape, got \[6, 3\] and \[6, 2\]"),
    ],
)
def test_batches_that_do_not_fit_are_one_message(task: Any, batch: Any, message: str) -> None:
    with pytest.raises((DataError, ShapeError), match=message):
        task.train_step(linear(3), batch)


class GivesLoss(nn.Module):
    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        return (x if labels is None else x - labels[:, None]).square().mean(), x + 1


def test_what_a_model_gives_is_its_loss() -> None:
    x, y = torch.rand(4, 3), torch.rand(4)
    found = ModelLoss().train_step(GivesLoss(), (x, y))
    assert (found.loss, found.size) == (x.square().mean(), 4)
    assert torch.equal(found.predictions, x + 1)
    assert found.targets is x
    task = ModelLoss(ModelLossConfig(with_targets=True))
    for batch in ((x, y), {"x": x, "labels": y}):
        found = task.train_step(GivesLoss(), batch)
        assert found.loss == (x - y[:, None]).square().mean()
        assert found.targets is y
    with pytest.raises(ShapeError, match=r"ModelLoss: expected a model that gives its loss, one number, got \[4, 2\]"):
        ModelLoss().train_step(nn.Linear(3, 2), (x, y))
