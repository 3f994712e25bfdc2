"""The tasks: losses and class weights beside torch's in float64; batches that don't fit; predicted rows."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, InMemDataset, MapperDataset, Splits, TensorDataset
from burnlike.errors import ConfigError, DataError, ShapeError
from burnlike.models import BertClassifierConfig, BertEncoderConfig, PretrainedConfig
from burnlike.module import LoraConfig, params
from burnlike.optim import SgdConfig
from burnlike.train import (
    Classification,
    ClassificationConfig,
    LanguageModel,
    LanguageModelConfig,
    Learner,
    LoraFineTuning,
    LoraFineTuningConfig,
    ModelLoss,
    ModelLossConfig,
    Regression,
    RegressionConfig,
    Reward,
    Segmentation,
    SegmentationConfig,
    StepOutput,
    TrainingConfig,
)
from burnlike.train.export.hugging_face import fill_directory
from burnlike.train.export.source import Source

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


PROBLEMS: list[tuple[Any, int, str | None]] = [
    (Classification(), 3, None),
    (Classification(ClassificationConfig(multi_label=True)), 3, "multi_label_classification"),
    (Regression(), 1, "regression"),
    (Reward(), 1, "regression"),
]


@pytest.mark.parametrize(("task", "outputs", "problem"), PROBLEMS, ids=lambda it: type(it).__name__)
def test_pipelines_of_transformers_read_logits_as_the_task_does(
    task: Any, outputs: int, problem: str | None, tmp_path: Path
) -> None:
    """Without it they give a sigmoid of each number, and one class in place of several labels."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    theirs: Any = {"id2label": {it: str(it) for it in range(outputs)}, "problem_type": "multi_label_classification"}
    config = transformers.BertConfig(vocab_size=9, **sizes, **theirs)
    model = task.prepare(transformers.AutoModelForSequenceClassification.from_config(config))
    assert model.config.problem_type == problem
    config.save_pretrained(tmp_path)  # that of the first directory stays
    pretrained = PretrainedConfig(path=str(tmp_path), head="SequenceClassification", weights="random")
    of_run = json.loads(pretrained.description(model)["config.json"])
    assert of_run.get("problem_type") == problem

    own = BertClassifierConfig(
        n_classes=outputs,
        encoder=BertEncoderConfig(vocab_size=9, max_sequence_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=8),
    )
    run: Any = SimpleNamespace(task=task, directory=tmp_path / "none", config=SimpleNamespace(data=None))
    (tmp_path / "own").mkdir()
    fill_directory(Source(own.init(), own, None, (), {}, run=run), tmp_path / "own")
    assert json.loads((tmp_path / "own/config.json").read_text()).get("problem_type") == problem


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
        (LanguageModel(), {"input_ids": X}, "integer tokens, got a mapping of"),
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


PREDICTIONS_GENERATOR = torch.Generator().manual_seed(3)
FACTS = {"classes": ["cat", "dog", "eel"]}


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=PREDICTIONS_GENERATOR, dtype=torch.float64)


def test_classes_with_their_probabilities() -> None:
    logits = drawn(4, 3)
    rows = Classification().predict(nn.Identity(), (logits, torch.zeros(4, dtype=torch.int64)), FACTS)
    for row, each in zip(rows, logits.softmax(1), strict=True):
        assert [*row] == ["class", "probability", "probabilities.cat", "probabilities.dog", "probabilities.eel"]
        assert row["class"] == FACTS["classes"][int(each.argmax())]
        assert row["probability"] == pytest.approx(float(each.max()))
        assert [row[f"probabilities.{name}"] for name in FACTS["classes"]] == pytest.approx(each.tolist())
    (row,) = Classification().predict(nn.Identity(), (logits[:1], torch.zeros(1)), {"classes": None})
    assert row["class"] in ("0", "1", "2")


def test_labels_over_a_half() -> None:
    task = Classification(ClassificationConfig(multi_label=True))
    logits = torch.tensor([[2.0, -1.0, 0.1], [-1.0, -2.0, -3.0]])
    first, second = task.predict(nn.Identity(), (logits, torch.zeros(2, 3)), FACTS)
    assert (first["labels"], second["labels"]) == (["cat", "eel"], [])
    assert first["probabilities.dog"] == pytest.approx(float(logits[0, 1].sigmoid()))


def test_a_single_logit_is_one_of_two_classes() -> None:
    logits, targets = drawn(6, 1), torch.tensor([0, 1, 1, 0, 1, 0])
    found = Classification().train_step(nn.Identity(), (logits, targets))
    expected = functional.binary_cross_entropy_with_logits(logits[:, 0], targets.double())
    torch.testing.assert_close(found.loss, expected)
    rows = Classification().predict(nn.Identity(), (logits, targets), {"classes": ["no", "yes"]})
    assert [row["class"] for row in rows] == ["yes" if it > 0 else "no" for it in logits[:, 0]]
    assert [row["probabilities.yes"] for row in rows] == pytest.approx(logits[:, 0].sigmoid().tolist())
    pixels, masks = drawn(2, 1, 3, 4), torch.randint(2, (2, 3, 4), generator=PREDICTIONS_GENERATOR)
    found = Segmentation().train_step(nn.Identity(), (pixels, masks))
    expected = functional.binary_cross_entropy_with_logits(pixels[:, 0], masks.double())
    torch.testing.assert_close(found.loss, expected)
    rows = Segmentation().predict(nn.Identity(), (pixels, masks), FACTS)
    assert all(torch.equal(row["mask"], (it > 0).long()) for row, it in zip(rows, pixels[:, 0], strict=True))


class Smaller(nn.Module):
    """Gives an object with logits of half the size, as models of transformers do."""

    def forward(self, pixels: Tensor) -> Any:
        class Output:
            logits = functional.avg_pool2d(pixels, 2)

        return Output


def test_logits_of_transformers_are_interpolated_to_the_masks() -> None:
    pixels, masks = drawn(2, 3, 8, 6), torch.randint(3, (2, 8, 6), generator=PREDICTIONS_GENERATOR)
    masks[:, 0] = 255
    task = Segmentation(SegmentationConfig(ignore_index=255))
    found = task.valid_step(Smaller(), (pixels, masks))
    logits = functional.interpolate(functional.avg_pool2d(pixels, 2), (8, 6), mode="bilinear", align_corners=False)
    torch.testing.assert_close(found.loss, functional.cross_entropy(logits, masks, ignore_index=255))
    assert found.predictions.shape == (2, 3, 8, 6)
    assert (found.targets[:, 0] == -100).all()
    rows = task.predict(Smaller(), (pixels, torch.zeros_like(masks)), FACTS)
    assert torch.equal(torch.stack([row["mask"] for row in rows]), logits.argmax(1))


def test_numbers_by_the_names_of_their_targets() -> None:
    values = drawn(3, 2)
    rows = Regression().predict(nn.Identity(), (values, torch.zeros(3, 2)), {"targets": ["price", "days"]})
    assert [[*row.items()] for row in rows] == [[("price", a), ("days", b)] for a, b in values.tolist()]
    rows = Regression().predict(nn.Identity(), (values[:, 0], torch.zeros(3)), {"targets": ["price"]})
    assert rows == [{"price": it} for it in values[:, 0].tolist()]
    rows = Regression().predict(nn.Identity(), (values[:, 0], torch.zeros(3)), {"targets": ["name"]})
    assert [[*row] for row in rows] == [["value"]] * 3  # `name` is the input's
    rows = Regression().predict(nn.Identity(), (values, torch.zeros(3, 2)), {})
    assert [*rows[0]] == ["value.0", "value.1"]


def test_tokens_go_to_models_of_burnlike_by_their_names() -> None:
    torch.manual_seed(1)
    encoder = BertEncoderConfig(
        vocab_size=20, max_sequence_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=16, dropout=0.0
    )
    model = BertClassifierConfig(encoder=encoder, n_classes=3, dropout=0.0).init().eval()
    tokens, mask = (
        torch.randint(20, (2, 5), generator=PREDICTIONS_GENERATOR),
        torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    )
    batch = {"input_ids": tokens, "attention_mask": mask, "word_ids": tokens, "labels": torch.tensor([0, 2])}
    found = Classification().valid_step(model, batch)
    torch.testing.assert_close(found.predictions, model(tokens, mask))


def test_a_task_of_adapters_says_what_its_own_task_says() -> None:
    task = LoraFineTuning(LoraFineTuningConfig(task=ClassificationConfig(), lora=LoraConfig(rank=2, alpha=4)))
    logits = drawn(2, 3)
    given = (logits, torch.zeros(2))
    assert task.predict(nn.Identity(), given, FACTS) == Classification().predict(nn.Identity(), given, FACTS)
    with pytest.raises(ConfigError, match="task: ModelLoss has no predictions"):
        ModelLoss().predict(nn.Identity(), given, FACTS)


@pytest.mark.slow
def test_segmentation_is_the_loss_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3,
    )  # fmt: skip
    model = transformers.SegformerForSemanticSegmentation(config).double().eval()
    pixels, masks = drawn(2, 3, 32, 24), torch.randint(3, (2, 32, 24), generator=PREDICTIONS_GENERATOR)
    masks[:, :2] = 255
    found = Segmentation(SegmentationConfig(ignore_index=255)).valid_step(model, (pixels, masks))
    torch.testing.assert_close(found.loss, model(pixels, labels=masks).loss)
    assert found.size == 2 * 30 * 24


WEIGHING_GENERATOR = torch.Generator().manual_seed(5)
INPUTS = torch.randn(12, 4, generator=WEIGHING_GENERATOR, dtype=torch.float64)
Y = torch.tensor([0, 0, 0, 1, 2, 0, 0, 1, 0, 0, 2, 0])


def data(targets: Tensor = Y, classes: list[str] | None = None) -> Splits:
    items = TensorDataset(INPUTS[: len(targets)], targets)
    return Splits(items, items, classes=classes or ["a", "b", "c"])


def told(config: Any, of: Any = None) -> Any:
    task = config.init()
    task.take_training_data(of or data())
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
    output = task.train_step(model, (INPUTS, Y))
    expected = functional.cross_entropy(model(INPUTS), Y, weight=weight, label_smoothing=0.1)
    torch.testing.assert_close(output.loss, expected)
    assert math.isclose(output.size, float(weight[Y].sum() / weight.mean()), rel_tol=1e-6)
    valid = task.valid_step(model, (INPUTS, Y))
    torch.testing.assert_close(valid.loss, functional.cross_entropy(model(INPUTS), Y))
    assert valid.size == 12


@pytest.mark.parametrize("gamma", [0.5, 2.0])
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.5)])
def test_a_focal_loss_is_the_formula(gamma: float, weights: tuple[float, ...] | None) -> None:
    model = linear(3)
    task = told(ClassificationConfig(class_weights=weights, focal_gamma=gamma))
    p = model(INPUTS).softmax(1).gather(1, Y[:, None])[:, 0]
    share = torch.ones(12).double() if weights is None else torch.tensor(weights, dtype=torch.float64)[Y]
    expected = (-((1 - p) ** gamma) * p.log() * share).sum() / share.sum()
    output = task.train_step(model, (INPUTS, Y))
    torch.testing.assert_close(output.loss, expected)
    grads = [torch.autograd.grad(it, model.weight, retain_graph=True)[0] for it in (output.loss, expected)]
    torch.testing.assert_close(*grads)
    far = model(INPUTS) * 1e4  # p is 1 or 0: no NaN
    sure = task.train_step(nn.Identity(), (far.detach().requires_grad_(), Y))
    assert sure.loss.isfinite()


def test_a_focal_loss_of_something_certain_has_a_finite_gradient() -> None:
    logits = torch.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=torch.float64, requires_grad=True)
    task = told(ClassificationConfig(focal_gamma=0.5), data(torch.tensor([0, 0]), ["a", "b"]))
    task.train_step(nn.Identity(), (logits, torch.tensor([0, 0]))).loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_several_labels_are_weighed_where_they_are_there() -> None:
    model, targets = linear(2), (torch.rand(12, 2, generator=WEIGHING_GENERATOR) > 0.7).double()
    of, logits = data(targets, ["p", "q"]), linear(2)(INPUTS)
    balanced = (12 - targets.sum(0)) / targets.sum(0)
    task = told(ClassificationConfig(multi_label=True, class_weights="balanced"), of)
    output = task.train_step(model, (INPUTS, targets))
    expected = functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=balanced)
    torch.testing.assert_close(output.loss, expected, rtol=1e-6, atol=0)
    task = told(ClassificationConfig(multi_label=True, focal_gamma=2.0), of)
    p = torch.where(targets > 0, logits.sigmoid(), 1 - logits.sigmoid())
    torch.testing.assert_close(task.train_step(model, (INPUTS, targets)).loss, (-((1 - p) ** 2) * p.log()).mean())


def test_weighed_pixels_leave_out_those_that_do_not_count() -> None:
    logits = torch.randn(2, 3, 4, 4, generator=WEIGHING_GENERATOR, dtype=torch.float64)
    masks = torch.randint(3, (2, 4, 4), generator=WEIGHING_GENERATOR)
    masks[:, 0] = 255
    of = Splits(TensorDataset(logits, masks), TensorDataset(logits, masks), classes=["x", "y", "z"])
    task = told(SegmentationConfig(class_weights="balanced", ignore_index=255), of)
    counted = masks[masks != 255]
    weights = compute_class_weight("balanced", classes=counted.unique().numpy(), y=counted.numpy())
    expected = functional.cross_entropy(logits, masks, weight=torch.tensor(weights), ignore_index=255)
    torch.testing.assert_close(task.train_step(nn.Identity(), (logits, masks)).loss, expected, rtol=1e-6, atol=0)


def test_balanced_pixels_are_the_same_with_random_transforms_and_without_images_that_can_not_be_read() -> None:
    masks = torch.randint(2, (8, 4, 4), generator=WEIGHING_GENERATOR)

    def cut(place: int) -> tuple[Tensor, Tensor]:
        if place == 7:
            raise DataError("damaged")
        return torch.zeros(1, 2, 2), masks[place][:, int(torch.randint(4, ())) :]

    items = MapperDataset(InMemDataset([*range(8)]), cut)
    weights = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        weights.append(told(SegmentationConfig(class_weights="balanced"), Splits(items, items)).weighing.weights)
        assert torch.initial_seed() == seed
        assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(*weights)


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
        loader = DataLoader(TensorDataset(INPUTS, Y), batch_size=batch_size, seed=1)
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
    items = InMemDataset([(INPUTS[0], 1)])
    with pytest.raises(DataError, match="balanced: the class 0 has no items to train on; give weights as a list"):
        told(SegmentationConfig(class_weights="balanced"), Splits(items, items))
    with pytest.raises(ConfigError, match="the data has no names of classes; give a list of weights"):
        told(ClassificationConfig(class_weights={"a": 2.0}), Splits(items, items))
    with pytest.raises(ConfigError, match="focal_gamma: expected none with `label_smoothing`"):
        ClassificationConfig(focal_gamma=2.0, label_smoothing=0.1)
    with pytest.raises(ConfigError, match="class_weights: expected a weight above 0"):
        ClassificationConfig(class_weights=(0.0, 0.0))
    with pytest.raises(ConfigError, match=r"a weight for each of the 2 classes of the logits, got 3"):
        Classification(ClassificationConfig(class_weights=(1.0, 2.0, 3.0))).train_step(
            linear(2), (INPUTS, Y.clamp(max=1))
        )
    assert isinstance(SegmentationConfig(focal_gamma=2.0).init(), Segmentation)
