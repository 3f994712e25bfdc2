"""The table of ready models that drives `test_every_model.py`: each with a tiny config and inputs.

A model's options with paths of their own have cases, too. Numbers are compared in the tests of each model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from burnlike import models, nn
from burnlike.config import ModuleConfig


@dataclass(frozen=True)
class ModelCase:
    """One ready model with inputs.

    Attributes:
        name: unique, such as "ResNet/bottleneck".
        config: of the model; as small as it can be, dropout 0.
        inputs: draws the inputs from torch's global generator, floats as float64.
        shapes: of the tensors in the output, in order.
        output: the tensors of the model's output that are compared: one, or a tuple or list of them.
        slow: whether compile and export take more than a second or two: they are slow tests then.
        not_in: why the model can't be tested by one of the drivers (`typed`, `compile`, `export`, ...), by its name.
    """

    name: str
    config: ModuleConfig
    inputs: Callable[[], tuple[Any, ...]]
    shapes: tuple[tuple[int, ...], ...]
    output: Callable[[Any], Any] = lambda output: output
    slow: bool = False
    not_in: Mapping[str, str] = field(default_factory=dict)

    def model(self) -> torch.nn.Module:
        """The model with random weights and statistics, none of them constant, in float64 and for evaluation."""
        torch.manual_seed(0)
        model = self.config.init()
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand_like(tensor))
        return model.double().eval()

    def drawn(self) -> tuple[Any, ...]:
        """The inputs."""
        torch.manual_seed(1)
        return self.inputs()


def tokens(vocab_size: int, *shape: int) -> Tensor:
    """Token numbers."""
    return torch.randint(vocab_size, shape)


def image(*shape: int) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(shape, dtype=torch.float64)


LM = models.DecoderLmConfig(vocab_size=7, max_sequence_length=6, d_model=8, n_layers=2, n_heads=2, d_ff=12)
LLAMA_POSITIONS = models.RotaryPositions(interleaved=False, scaling=nn.Llama3Scaling(factor=2.0, original_length=4))
GEGLU = models.GatedPart(activation=nn.GeluConfig(), bias=True)
PADDED = torch.tensor([[True, True, False, False, False], [False] * 5])
BERT = models.BertEncoderConfig(
    vocab_size=7, max_sequence_length=6, d_model=8, n_layers=1, n_heads=2, d_ff=12, dropout=0.0, attention_dropout=0.0
)
T5 = models.EncoderDecoderConfig(
    vocab_size=7, d_model=8, n_layers=1, n_heads=2, d_head=3, d_ff=12, dropout=0.0, n_buckets=4, max_distance=4
)
TYPES = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
MASK = torch.tensor([[1, 1, 1, 1, 0], [1] * 5])

CASES = [
    ModelCase(
        "BertClassifier",
        models.BertClassifierConfig(encoder=BERT, n_classes=3, dropout=0.0),
        lambda: (tokens(7, 2, 5), MASK, tokens(2, 2, 5)),
        ((2, 3),),
    ),
    ModelCase(
        "TextClassifier",
        models.TextClassifierConfig(encoder=BERT, n_classes=3, dropout=0.0),
        lambda: (tokens(7, 2, 5), MASK),
        ((2, 3),),
    ),
    ModelCase(
        "TextClassifier/cls",
        models.TextClassifierConfig(encoder=BERT, n_classes=3, dropout=0.0, pooling="cls"),
        lambda: (tokens(7, 2, 5), MASK, tokens(2, 2, 5)),
        ((2, 3),),
        slow=True,
    ),
    ModelCase(
        "TokenTagger",
        models.TokenTaggerConfig(encoder=BERT, n_classes=3, dropout=0.0),
        lambda: (tokens(7, 2, 5), MASK),
        ((2, 5, 3),),
        slow=True,
    ),
    ModelCase(
        "Siamese",
        models.SiameseConfig(encoder=BERT, n_classes=3),
        lambda: (tokens(7, 2, 5), MASK, TYPES),
        ((2, 3),),
        slow=True,
    ),
    ModelCase(
        "Siamese/cosine",
        models.SiameseConfig(encoder=BERT),
        lambda: (tokens(7, 2, 5), MASK, TYPES),
        ((2, 1),),
        slow=True,
    ),
    ModelCase("BertEncoder", BERT, lambda: (tokens(7, 2, 5), MASK, tokens(2, 2, 5)), ((2, 5, 8), (2, 8))),
    ModelCase(
        "BertMaskedLm",
        models.BertMaskedLmConfig(encoder=BERT.replace(pooler=False)),
        lambda: (tokens(7, 2, 5), MASK, tokens(2, 2, 5)),
        ((2, 5, 7),),
    ),
    ModelCase(
        "ConvNext",
        models.ConvNextConfig(num_classes=3, depths=(1, 1), widths=(4, 6), patch_size=2),
        lambda: (image(2, 3, 8, 9),),
        ((2, 3),),
        slow=True,
    ),
    ModelCase("DecoderLm", LM, lambda: (tokens(7, 2, 5),), ((2, 5, 7),)),
    ModelCase("DecoderLm/vectors", LM.replace(head=False), lambda: (tokens(7, 2, 5),), ((2, 5, 8),), slow=True),
    ModelCase(
        "DecoderLm/llama",
        LM.replace(n_heads_kv=1, tied=False, positions=LLAMA_POSITIONS, query_key_norm=True),
        lambda: (tokens(7, 2, 5), PADDED),
        ((2, 5, 7),),
    ),
    ModelCase(
        "DecoderLm/gpt2",
        LM.replace(
            norm="LayerNorm",
            attention_bias=True,
            attention_output_bias=True,
            positions=models.LearnedPositions(),
            feed_forward=models.PlainPart(),
        ),
        lambda: (tokens(7, 2, 6),),
        ((2, 6, 7),),
    ),
    ModelCase(
        "DecoderLm/capped",
        LM.replace(d_head=6, sliding_window=2, attention_soft_cap=1.0, logit_soft_cap=2.0, feed_forward=GEGLU),
        lambda: (tokens(7, 2, 5),),
        ((2, 5, 7),),
    ),
    ModelCase(
        "DecoderLm/experts",
        LM.replace(feed_forward=models.ExpertsPart(n_experts=3)),
        lambda: (tokens(7, 2, 5),),
        ((2, 5, 7),),
        not_in={"bfloat16": "rounded router weights choose other experts"},
    ),
    ModelCase(
        "EncoderDecoder",
        T5,
        lambda: (tokens(7, 2, 5), tokens(7, 2, 4), MASK),
        ((2, 4, 7),),
    ),
    ModelCase(
        "EncoderDecoder/gated",
        T5.replace(gated=True, tied_head=False, n_decoder_layers=2),
        lambda: (tokens(7, 2, 5), tokens(7, 2, 4)),
        ((2, 4, 7),),
        slow=True,
    ),
    ModelCase(
        "LstmLm", models.LstmLmConfig(vocab_size=7, d_model=4, d_hidden=6), lambda: (tokens(7, 2, 3),), ((2, 3, 7),)
    ),
    ModelCase("Mlp", models.MlpConfig(sizes=(4, 6, 3)), lambda: (image(2, 4),), ((2, 3),)),
    ModelCase(
        "ResNet",
        models.ResNetConfig(num_classes=3, depths=(1, 1), widths=(4, 6), stem_channels=4),
        lambda: (image(2, 3, 16, 16),),
        ((2, 3),),
        slow=True,
    ),
    ModelCase(
        "ResNet/vectors",
        models.ResNetConfig(num_classes=None, depths=(1,), widths=(6,), stem="Small", stem_channels=4),
        lambda: (image(2, 3, 6, 5),),
        ((2, 6),),
        slow=True,
    ),
    ModelCase(
        "ResNet/small",
        models.ResNetConfig(
            num_classes=3, block="Bottleneck", depths=(1, 1), widths=(4, 8), stem="Small", stem_channels=4
        ),
        lambda: (image(2, 3, 6, 5),),
        ((2, 3),),
        slow=True,
    ),
    ModelCase(
        "UNet",
        models.UNetConfig(num_classes=2, widths=(4, 6)),
        lambda: (image(2, 3, 6, 5),),
        ((2, 2, 6, 5),),
        slow=True,
    ),
    ModelCase(
        "VisionTransformer",
        models.VisionTransformerConfig(
            num_classes=3, image_size=(8, 4), patch_size=4, d_model=8, n_layers=2, n_heads=2, d_ff=12
        ),
        lambda: (image(2, 3, 8, 4),),
        ((2, 3),),
        slow=True,
    ),
]
