//! The values of a metric: of each batch, and of all together.

use burn::data::dataloader::Progress;
use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::tensor::Device;
use burn::train::metric::*;
use burn_train::metric::vision::*;
use serde_json::{Value, json};

use crate::{bools, floats, ints, number_of, optional, value_of};

fn run<M: Metric + Numeric>(
    case: &Value,
    mut metric: M,
    input: impl Fn(&Value, &Value) -> M::Input,
) -> Result<Value, String> {
    let mut batches = vec![];
    for (step, batch) in case["batches"]
        .as_array()
        .expect("batches")
        .iter()
        .enumerate()
    {
        let metadata = MetricMetadata {
            progress: Progress::new(step, 1, None),
            iteration: Some(step),
            lr: batch["rate"].as_f64().map(ModuleLearningRate::from),
        };
        metric
            .update(&input(&batch["predictions"], &batch["targets"]), &metadata)
            .map_err(|it| it.to_string())?;
        batches.push(optional(metric.value().map(|it| it.current())));
    }
    metric.compute().map_err(|it| it.to_string())?;
    let (unit, higher) = match metric.attributes() {
        MetricAttributes::Numeric(it) => (json!(it.unit), json!(it.higher_is_better)),
        MetricAttributes::None => (Value::Null, Value::Null),
    };
    Ok(json!({
        "name": metric.name().as_str(),
        "unit": unit,
        "higher_is_better": higher,
        "batches": batches,
        "epoch": value_of(metric.final_value().current()),
    }))
}

fn reduction(config: &Value) -> ClassReduction {
    if config["class_reduction"] == "Micro" {
        ClassReduction::Micro
    } else {
        ClassReduction::Macro
    }
}

fn confusion(predictions: &Value, targets: &Value) -> ConfusionStatsInput {
    ConfusionStatsInput::new(floats(predictions), bools(targets))
}

/// The metric with `with_pad_token`, if the config has one.
macro_rules! padded {
    ($metric:expr, $config:expr) => {
        match $config["pad_token"].as_u64() {
            Some(token) => $metric.with_pad_token(token as usize),
            None => $metric,
        }
    };
}

pub fn answer(case: &Value) -> Result<Value, String> {
    let config = &case["config"];
    let float = |name: &str| number_of(&config[name]);
    let size = |name: &str| config[name].as_u64().expect("a number") as usize;
    let top_k = config["top_k"].as_u64().map(|it| it as usize);
    match case["metric"].as_str().expect("metric") {
        "Loss" => run(case, LossMetric::new(), |loss, _| {
            LossInput::new(floats(loss))
        }),
        "LearningRate" => run(case, LearningRateMetric::new(), |_, _| ()),
        "Accuracy" => run(case, padded!(AccuracyMetric::new(), config), |a, b| {
            AccuracyInput::new(floats(a), ints(b))
        }),
        "TopKAccuracy" => run(
            case,
            padded!(TopKAccuracyMetric::new(size("k")), config),
            |a, b| TopKAccuracyInput::new(floats(a), ints(b)),
        ),
        "Perplexity" => run(case, padded!(PerplexityMetric::new(), config), |a, b| {
            PerplexityInput::new(floats(a), ints(b))
        }),
        "Precision" => match top_k {
            Some(k) => run(
                case,
                PrecisionMetric::multiclass(k, reduction(config)),
                confusion,
            ),
            None => run(
                case,
                PrecisionMetric::multilabel(float("threshold"), reduction(config)),
                confusion,
            ),
        },
        "Recall" => match top_k {
            Some(k) => run(
                case,
                RecallMetric::multiclass(k, reduction(config)),
                confusion,
            ),
            None => run(
                case,
                RecallMetric::multilabel(float("threshold"), reduction(config)),
                confusion,
            ),
        },
        "FBetaScore" => {
            let beta = float("beta");
            match top_k {
                Some(k) => run(
                    case,
                    FBetaScoreMetric::multiclass(beta, k, reduction(config)),
                    confusion,
                ),
                None => run(
                    case,
                    FBetaScoreMetric::multilabel(beta, float("threshold"), reduction(config)),
                    confusion,
                ),
            }
        }
        "Hamming" => {
            let metric = HammingScore::new().with_threshold(float("threshold") as f32);
            let metric = metric.with_sigmoid(config["sigmoid"] == true);
            run(case, metric, |a, b| {
                HammingScoreInput::new(floats(a), ints(b))
            })
        }
        "Auroc" => run(case, AurocMetric::multilabel(reduction(config)), confusion),
        "AucPr" => run(case, AucPrMetric::multilabel(reduction(config)), confusion),
        "CharErrorRate" => run(case, padded!(CharErrorRate::new(), config), |a, b| {
            CerInput::new(ints(a), ints(b))
        }),
        "WordErrorRate" => run(case, padded!(WordErrorRate::new(), config), |a, b| {
            WerInput::new(ints(a), ints(b))
        }),
        "Bleu" => {
            let smoothing = match config["smoothing"].as_str().expect("smoothing") {
                "epsilon" => BleuSmoothing::AddEpsilon(float("epsilon")),
                "exponential" => BleuSmoothing::Exponential,
                _ => BleuSmoothing::None,
            };
            let metric = BleuScore::with_max_n(size("max_n")).with_smoothing(smoothing);
            run(case, padded!(metric, config), |a, b| {
                BleuInput::new(ints(a), ints(b))
            })
        }
        "RougeL" => run(case, padded!(RougeLScore::new(), config), |a, b| {
            RougeLInput::new(ints(a), ints(b))
        }),
        "Dice" => {
            let background = config["include_background"] == true;
            let settings = DiceMetricConfig {
                epsilon: float("epsilon"),
                include_background: background,
            };
            run(case, DiceMetric::<4>::with_config(settings), |a, b| {
                DiceInput::new(ints(a), ints(b))
            })
        }
        "Psnr" => {
            let settings =
                PsnrMetricConfig::new(float("max_pixel_val")).with_epsilon(float("epsilon"));
            run(case, PsnrMetric::new(settings), |a, b| {
                PsnrInput::new(floats(a), floats(b))
            })
        }
        "Ssim" => {
            let settings = SsimMetricConfig::new(float("pixel_range") as f32)
                .with_k1_k2(float("k1") as f32, float("k2") as f32)
                .with_kernel_size(size("kernel_size"))
                .with_sigma(float("sigma") as f32);
            run(case, SsimMetric::new(settings), |a, b| {
                SsimInput::new(floats(a), floats(b))
            })
        }
        "MsSsim" => {
            let betas = config["betas"]
                .as_array()
                .expect("betas")
                .iter()
                .map(|it| number_of(it) as f32)
                .collect();
            let settings = MsSsimMetricConfig::new(float("pixel_range") as f32)
                .with_k1_k2(float("k1") as f32, float("k2") as f32)
                .with_kernel_size(size("kernel_size"))
                .with_sigma(float("sigma") as f32)
                .with_channels(size("channels"))
                .with_betas(betas);
            run(
                case,
                MsSsimMetric::new(settings, &Device::default()),
                |a, b| MsSsimInput::new(floats(a), floats(b)),
            )
        }
        other => Err(format!("no metric {other}")),
    }
}
