//! Losses, by their name and a reduction: `Mean`, `Sum`, `BatchMean`, `Auto`, or `none`.

use burn::config::Config;
use burn::nn::loss::*;
use burn::tensor::activation::log_softmax;
use burn_cases::modules::{answer, config};
use burn_cases::serve;
use serde_json::Value;

fn reduction(case: &Value) -> Option<Reduction> {
    match case["reduction"].as_str() {
        Some("none") | None => None,
        Some(_) => Some(
            Reduction::load_binary(case["reduction"].to_string().as_bytes()).expect("a reduction"),
        ),
    }
}

/// A loss of inputs of one number of dimensions each.
macro_rules! of_values {
    ($case:ident, $loss:expr, $($name:literal),+) => {{
        let loss = $loss;
        answer($case, |_| loss.clone(), |it, call| {
            macro_rules! reduced {
                ($rank:literal) => {
                    match reduction($case) {
                        Some(word) => call.output(it.forward($(call.float::<$rank>($name)),+, word)),
                        None => call.output(it.forward_no_reduction($(call.float::<$rank>($name)),+)),
                    }
                };
            }
            match call.rank("x") {
                1 => reduced!(1),
                2 => reduced!(2),
                _ => reduced!(3),
            }
        })
    }};
}

fn main() {
    serve(|case| match case["layer"].as_str().expect("a loss") {
        "BinaryCrossEntropyLoss" => {
            let config: BinaryCrossEntropyLossConfig = config(case)?;
            answer(
                case,
                |device| config.init(device),
                |it, call| match call.rank("x") {
                    1 => call.output(it.forward(call.float::<1>("x"), call.int("y"))),
                    2 => call.output(it.forward(call.float::<2>("x"), call.int("y"))),
                    _ => call.output(it.forward(call.float::<3>("x"), call.int("y"))),
                },
            )
        }
        "CosineEmbeddingLoss" => {
            let mut config: CosineEmbeddingLossConfig = config(case)?;
            let word = reduction(case);
            let is_reduced = word.is_some();
            if let Some(word) = word {
                config.reduction = word;
            }
            answer(
                case,
                |_| config.init(),
                |it, call| match is_reduced {
                    true => call.output(it.forward(
                        call.float("x"),
                        call.float("y"),
                        call.int("target"),
                    )),
                    false => call.output(it.forward_no_reduction(
                        call.float("x"),
                        call.float("y"),
                        call.int("target"),
                    )),
                },
            )
        }
        "CrossEntropyLoss" => {
            let config: CrossEntropyLossConfig = config(case)?;
            answer(
                case,
                |device| config.init(device),
                |it, call| call.output(it.forward(call.float("x"), call.int("y"))),
            )
        }
        "CTCLoss" => {
            let config: CTCLossConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| {
                    let (x, y) = (call.float("x"), call.int("y"));
                    // Of logits, unless the case has logarithms of probabilities itself.
                    let x = if case["raw"] == true { x } else { log_softmax(x, 2) };
                    let (times, lengths) = (call.int("times"), call.int("lengths"));
                    match reduction(case) {
                        Some(word) => {
                            call.output(it.forward_with_reduction(x, y, times, lengths, word))
                        }
                        None => call.output(it.forward(x, y, times, lengths)),
                    }
                },
            )
        }
        "GaussianNLLLoss" => of_values!(
            case,
            config::<GaussianNLLLossConfig>(case)?.init(),
            "x",
            "y",
            "var"
        ),
        "HingeEmbeddingLoss" => of_values!(
            case,
            config::<HingeEmbeddingLossConfig>(case)?.init(),
            "x",
            "y"
        ),
        "HuberLoss" => of_values!(case, config::<HuberLossConfig>(case)?.init(), "x", "y"),
        "KLDivLoss" => of_values!(case, config::<KLDivLossConfig>(case)?.init(), "x", "y"),
        "LpLoss" => of_values!(case, config::<LpLossConfig>(case)?.init(), "x", "y"),
        "MarginRankingLoss" => of_values!(
            case,
            config::<MarginRankingLossConfig>(case)?.init(),
            "x",
            "y",
            "target"
        ),
        "MseLoss" => of_values!(case, MseLoss::new(), "x", "y"),
        "MultiMarginLoss" => {
            let config: MultiMarginLossConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| match reduction(case) {
                    Some(word) => call.output(it.forward(call.float("x"), call.int("y"), word)),
                    None => call.output(it.forward_no_reduction(call.float("x"), call.int("y"))),
                },
            )
        }
        "PoissonNllLoss" => {
            of_values!(case, config::<PoissonNllLossConfig>(case)?.init(), "x", "y")
        }
        "RNNTLoss" => {
            let config: RNNTLossConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| {
                    let (x, y) = (call.float("x"), call.int("y"));
                    let (times, lengths) = (call.int("times"), call.int("lengths"));
                    match reduction(case) {
                        Some(word) => {
                            call.output(it.forward_with_reduction(x, y, times, lengths, word))
                        }
                        None => call.output(it.forward(x, y, times, lengths)),
                    }
                },
            )
        }
        "SmoothL1Loss" => {
            let config: SmoothL1LossConfig = config(case)?;
            let dims: Option<Vec<i64>> = case["dims"].as_array().map(|it| {
                it.iter()
                    .map(|it| it.as_i64().expect("a dimension"))
                    .collect()
            });
            answer(
                case,
                |_| config.init(),
                |it, call| {
                    let (x, y) = (call.float::<2>("x"), call.float::<2>("y"));
                    match (reduction(case), &dims) {
                        (_, Some(dims)) => call.output(it.forward_reduce_dims(x, y, dims)),
                        (Some(word), _) => call.output(it.forward_with_reduction(x, y, word)),
                        _ => call.output(it.forward(x, y)),
                    }
                },
            )
        }
        "LpLoss dims" => {
            let config: LpLossConfig = config(case)?;
            let dims = case["dims"]
                .as_array()
                .expect("dimensions")
                .iter()
                .map(|it| it.as_i64().expect("a dimension"));
            let dims: Vec<i64> = dims.collect();
            answer(
                case,
                |_| config.init(),
                |it, call| {
                    call.output(it.forward_reduce_dims(
                        call.float::<2>("x"),
                        call.float("y"),
                        &dims,
                    ))
                },
            )
        }
        "HuberLoss residuals" => {
            let config: HuberLossConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| call.output(it.forward_residuals(call.float::<2>("x"))),
            )
        }
        "SoftMarginLoss" => of_values!(case, SoftMarginLoss::new(), "x", "y"),
        "TripletMarginLoss" => {
            let config: TripletMarginLossConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| {
                    let (x, y, far) = (call.float("x"), call.float("y"), call.float("far"));
                    match reduction(case) {
                        Some(word) => call.output(it.forward(x, y, far, word)),
                        None => call.output(it.forward_no_reduction(x, y, far)),
                    }
                },
            )
        }
        other => Err(format!("no loss {other}")),
    });
}
