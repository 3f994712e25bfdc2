"""Models in YAML, exported as Rust and run by Burn: they give what Python gives, and learn what it learns."""

import ast
import os
from pathlib import Path

import pytest
import torch

from burnlike.config import ModuleConfig

from ..marks import weekly
from .rust_models import run, table
from .rust_zoo import all_layers, by_hand, case_of, drawn

pytestmark = pytest.mark.burn

DRAWN = int(os.environ.get("BURN_MODELS", "10"))
"""How many models are drawn; with 100 or more, each layer has several configs."""
REFUSED = {"maxpool3d": "Burn has no counterpart of the operation max_pool3d"}
GPT = """
{type: DecoderLm, vocab_size: 50, max_sequence_length: 128, d_model: 16, n_layers: 2, n_heads: 2, d_ff: 32,
norm: LayerNorm, positions: {type: Learned}, feed_forward: {type: Plain}, attention_bias: true,
attention_output_bias: true}
"""
GREEDY = """
let mut tokens = checks.checks[0].tokens.val();
for _ in 0..100 {
    let last = model.forward(tokens.clone()).slice_dim(1, -1..).argmax(2).squeeze_dim::<2>(2);
    tokens = Tensor::cat(vec![tokens, last], 1);
}
let numbers: Vec<i64> = tokens.into_data().iter::<i64>().collect();
println!("{numbers:?}");
"""


@pytest.mark.parametrize("clippy", [False, *weekly(True)])
def test_exported_models_compute_and_learn_as_in_python(clippy: bool, tmp_path: Path) -> None:
    cases = by_hand() | drawn(DRAWN) | (all_layers() if DRAWN >= 100 else {})
    torch.manual_seed(0)
    prompts = torch.randint(50, (2, 8))
    cases["greedy"] = case_of(GPT, prompts)
    cases["greedy"].more, cases["greedy"].learns = GREEDY, False
    results = run(cases, tmp_path, "models", processes=2, clippy=clippy)
    said = table(results)
    for name, reason in REFUSED.items():
        result = results.pop(name)
        assert result.state == "refused", said
        assert reason in result.says, said
    assert {it.state for it in results.values()} == {"right"}, said
    assert not any(it.lints for it in results.values()), said
    torch.manual_seed(0)
    model = ModuleConfig.from_yaml(GPT, "gpt").init("cpu").eval()
    expected = model.generate(prompts, 100)
    assert ast.literal_eval(results["greedy"].printed) == expected.flatten().tolist()
