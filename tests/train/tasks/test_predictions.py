"""Rows that the tasks say of new items; logits of a single column; masks of models whose logits are smaller."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.errors import ConfigError
from burnlike.models import BertClassifierConfig, BertEncoderConfig
from burnlike.module import LoraConfig
from burnlike.train import (
    Classification,
    ClassificationConfig,
    LoraFineTuning,
    LoraFineTuningConfig,
    ModelLoss,
    Regression,
    Segmentation,
    SegmentationConfig,
)

GENERATOR = torch.Generator().manual_seed(3)
FACTS = {"classes": ["cat", "dog", "eel"]}


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


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
    pixels, masks = drawn(2, 1, 3, 4), torch.randint(2, (2, 3, 4), generator=GENERATOR)
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
    pixels, masks = drawn(2, 3, 8, 6), torch.randint(3, (2, 8, 6), generator=GENERATOR)
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
    rows = Regression().predict(nn.Identity(), (values, torch.zeros(3, 2)), {})
    assert [*rows[0]] == ["value.0", "value.1"]


def test_tokens_go_to_models_of_burnlike_by_their_names() -> None:
    torch.manual_seed(1)
    encoder = BertEncoderConfig(
        vocab_size=20, max_sequence_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=16, dropout=0.0
    )
    model = BertClassifierConfig(encoder=encoder, n_classes=3, dropout=0.0).init().eval()
    tokens, mask = torch.randint(20, (2, 5), generator=GENERATOR), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
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
    pixels, masks = drawn(2, 3, 32, 24), torch.randint(3, (2, 32, 24), generator=GENERATOR)
    masks[:, :2] = 255
    found = Segmentation(SegmentationConfig(ignore_index=255)).valid_step(model, (pixels, masks))
    torch.testing.assert_close(found.loss, model(pixels, labels=masks).loss)
    assert found.size == 2 * 30 * 24
