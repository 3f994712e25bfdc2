//! Layers, by the name of their config or, without one, of their type.

use burn::nn::activation::*;
use burn::nn::attention::*;
use burn::nn::conv::*;
use burn::nn::interpolate::*;
use burn::nn::norm::*;
use burn::nn::pool::*;
use burn::nn::transformer::*;
use burn::nn::*;
use burn::tensor::{Device, Int, Tensor};
use burn_cases::modules::{Call, answer, config};
use burn_cases::{serve, value_of};
use serde_json::{Value, json};

/// A recurrent layer: what makes its state of the call's tensors, and the parts of the state that it gives.
macro_rules! recurrent {
    ($case:expr, $config:ty, $state:expr, $($part:ident),+) => {{
        let config: $config = config($case)?;
        answer(
            $case,
            |device| config.init(device),
            |it, call| {
                let (output, state) = it.forward(call.float("x"), $state(call));
                call.output(output);
                $(call.output(state.$part);)+
            },
        )
    }};
}

/// A layer with a config and one input, of as many dimensions as follow.
macro_rules! of_config {
    ($case:ident, $config:ty, $($rank:literal),+) => {{
        let config: $config = config($case)?;
        answer($case, |_| config.clone().init(), |it, call| match call.rank("x") {
            $($rank => call.output(it.forward(call.float::<$rank>("x"))),)+
            rank => panic!("no layer of {rank} dimensions"),
        })
    }};
}

/// A layer as before, with parameters.
macro_rules! with_weights {
    ($case:ident, $config:ty, $($rank:literal),+) => {{
        let config: $config = config($case)?;
        answer($case, |device| config.init(device), |it, call| match call.rank("x") {
            $($rank => call.output(it.forward(call.float::<$rank>("x"))),)+
            rank => panic!("no layer of {rank} dimensions"),
        })
    }};
}

/// A layer without a config.
macro_rules! plain {
    ($case:ident, $layer:expr) => {
        answer(
            $case,
            |_| $layer,
            |it, call| match call.rank("x") {
                2 => call.output(it.forward(call.float::<2>("x"))),
                _ => call.output(it.forward(call.float::<3>("x"))),
            },
        )
    };
}

fn main() {
    serve(|case| match case["layer"].as_str().expect("a layer") {
        "AdaptiveAvgPool1d" => of_config!(case, AdaptiveAvgPool1dConfig, 3),
        "AdaptiveAvgPool2d" => of_config!(case, AdaptiveAvgPool2dConfig, 4),
        "AdaptiveAvgPool3d" => of_config!(case, AdaptiveAvgPool3dConfig, 5),
        "Activation" => with_weights!(case, ActivationConfig, 2, 3),
        "AvgPool1d" => of_config!(case, AvgPool1dConfig, 3),
        "AvgPool2d" => of_config!(case, AvgPool2dConfig, 4),
        "BatchNorm" => with_weights!(case, BatchNormConfig, 2, 3, 4, 5),
        "BiGru" => bi_gru(case),
        "BiLstm" => recurrent!(case, BiLstmConfig, lstm_state, cell, hidden),
        "BiRnn" => recurrent!(case, BiRnnConfig, rnn_state, hidden),
        "Celu" => of_config!(case, CeluConfig, 2, 3),
        "Conv1d" => with_weights!(case, Conv1dConfig, 3),
        "Conv2d" => with_weights!(case, Conv2dConfig, 4),
        "Conv3d" => with_weights!(case, Conv3dConfig, 5),
        "ConvTranspose1d" => with_weights!(case, ConvTranspose1dConfig, 3),
        "ConvTranspose2d" => with_weights!(case, ConvTranspose2dConfig, 4),
        "ConvTranspose3d" => with_weights!(case, ConvTranspose3dConfig, 5),
        "CosineSimilarity" => {
            let config: CosineSimilarityConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| call.output(it.forward(call.float("x"), call.float("y"))),
            )
        }
        "CrossAttention" => cross_attention(case),
        "DeformConv2d" => {
            let config: DeformConv2dConfig = config(case)?;
            answer(
                case,
                |device| config.init(device),
                |it, call| {
                    call.output(it.forward(
                        call.float("x"),
                        call.float("offset"),
                        call.maybe_float("mask"),
                    ));
                },
            )
        }
        "Dropout" => of_config!(case, DropoutConfig, 2, 3),
        "Elu" => of_config!(case, EluConfig, 2, 3),
        "Embedding" => {
            let config: EmbeddingConfig = config(case)?;
            answer(
                case,
                |device| config.init(device),
                |it, call| call.output(it.forward(call.int::<2>("x"))),
            )
        }
        "Fold4d" => of_config!(case, Fold4dConfig, 3),
        "GateController" => {
            let of = &case["config"];
            let (d_input, d_output) = (
                of["d_input"].as_u64().unwrap(),
                of["d_output"].as_u64().unwrap(),
            );
            let make = |device: &Device| {
                GateController::new(
                    d_input as usize,
                    d_output as usize,
                    of["bias"] == true,
                    Initializer::Zeros,
                    device,
                )
            };
            answer(case, make, |it, call| {
                call.output(it.gate_product(call.float("x"), call.float("hidden")))
            })
        }
        "GaussianNoise" => of_config!(case, GaussianNoiseConfig, 2, 3),
        "Gelu" => match case["config"]["approximate"] == true {
            true => plain!(case, Gelu::new_approximate()),
            false => plain!(case, Gelu::new()),
        },
        "GLU" => plain!(
            case,
            GLU::new(case["config"]["dim"].as_i64().expect("a dimension") as isize)
        ),
        "GroupNorm" => with_weights!(case, GroupNormConfig, 2, 3, 4),
        "Gru" => {
            let config: GruConfig = config(case)?;
            answer(
                case,
                |device| config.init(device),
                |it, call| call.output(it.forward(call.float("x"), call.maybe_float("hidden"))),
            )
        }
        "HardShrink" => of_config!(case, HardShrinkConfig, 2, 3),
        "HardSigmoid" => of_config!(case, HardSigmoidConfig, 2, 3),
        "HardSwish" => plain!(case, HardSwish::new()),
        "Hardtanh" => of_config!(case, HardtanhConfig, 2, 3),
        "Identity" => plain!(case, Identity::new()),
        "InstanceNorm" => with_weights!(case, InstanceNormConfig, 3, 4),
        "Interpolate1d" => of_config!(case, Interpolate1dConfig, 3),
        "Interpolate2d" => of_config!(case, Interpolate2dConfig, 4),
        "LayerNorm" => with_weights!(case, LayerNormConfig, 2, 3, 4),
        "LeakyRelu" => of_config!(case, LeakyReluConfig, 2, 3),
        "Linear" => with_weights!(case, LinearConfig, 1, 2, 3, 4),
        "LocalResponseNorm" => of_config!(case, LocalResponseNormConfig, 3, 4),
        "LogSigmoid" => plain!(case, LogSigmoid::new()),
        "Lstm" => recurrent!(case, LstmConfig, lstm_state, cell, hidden),
        "MaxPool1d" => of_config!(case, MaxPool1dConfig, 3),
        "MaxPool2d" => of_config!(case, MaxPool2dConfig, 4),
        "Mish" => plain!(case, Mish::new()),
        "MultiHeadAttention" => multi_head_attention(case),
        "Normalization" => with_weights!(case, NormalizationConfig, 3, 4),
        "PRelu" => with_weights!(case, PReluConfig, 2, 3),
        "PairwiseDistance" => {
            let config: PairwiseDistanceConfig = config(case)?;
            answer(
                case,
                |_| config.init(),
                |it, call| call.output(it.forward(call.float("x"), call.float("y"))),
            )
        }
        "PixelShuffle" => of_config!(case, PixelShuffleConfig, 4),
        "PixelUnshuffle" => of_config!(case, PixelUnshuffleConfig, 4),
        "PositionWiseFeedForward" => with_weights!(case, PositionWiseFeedForwardConfig, 2, 3),
        "PositionalEncoding" => with_weights!(case, PositionalEncodingConfig, 3),
        "RRelu" => of_config!(case, RReluConfig, 2, 3),
        "Relu" => plain!(case, Relu::new()),
        "Relu6" => plain!(case, Relu6::new()),
        "RmsNorm" => with_weights!(case, RmsNormConfig, 2, 3, 4),
        "Rnn" => recurrent!(case, RnnConfig, rnn_state, hidden),
        "RotaryEncoding" => rotary_encoding(case),
        "Selu" => plain!(case, Selu::new()),
        "Shrink" => of_config!(case, ShrinkConfig, 2, 3),
        "SiLU" => plain!(case, SiLU::new()),
        "Sigmoid" => plain!(case, Sigmoid::new()),
        "SoftShrink" => of_config!(case, SoftShrinkConfig, 2, 3),
        "Softplus" => of_config!(case, SoftplusConfig, 2, 3),
        "Softsign" => plain!(case, Softsign::new()),
        "SwiGlu" => with_weights!(case, SwiGluConfig, 2, 3),
        "Tanh" => plain!(case, Tanh::new()),
        "Tanhshrink" => plain!(case, Tanhshrink::new()),
        "Threshold" => of_config!(case, ThresholdConfig, 2, 3),
        "ThresholdedRelu" => of_config!(case, ThresholdedReluConfig, 2, 3),
        "TransformerDecoder" => decoder(case),
        "TransformerEncoder" => encoder(case),
        "Unfold4d" => of_config!(case, Unfold4dConfig, 4),
        "initializer" => initializer(case),
        "masks" => masks(case),
        "sinusoids" => {
            let of = |name: &str| case[name].as_u64().expect("a number") as usize;
            let table = generate_sinusoids(
                of("length"),
                of("d_model"),
                of("max_timescale"),
                &Device::flex(),
            );
            Ok(value_of(&table.into_data()))
        }
        other => Err(format!("no layer {other}")),
    });
}

fn lstm_state<const D: usize>(call: &Call) -> Option<LstmState<D>> {
    let cell = call.maybe_float("cell");
    cell.map(|cell| LstmState::new(cell, call.float("hidden")))
}

fn rnn_state<const D: usize>(call: &Call) -> Option<RnnState<D>> {
    call.maybe_float("hidden").map(RnnState::new)
}

fn bi_gru(case: &Value) -> Result<Value, String> {
    let config: BiGruConfig = config(case)?;
    answer(
        case,
        |device| config.init(device),
        |it, call| {
            let (output, state) = it.forward(call.float("x"), call.maybe_float("hidden"));
            call.output(output);
            call.output(state);
        },
    )
}

/// Attention, of the whole sequence or, in `steps`, of one position more each time.
fn multi_head_attention(case: &Value) -> Result<Value, String> {
    let config: MultiHeadAttentionConfig = config(case)?;
    answer(
        case,
        |device| config.init(device),
        |it, call| {
            let query = call.float::<3>("x");
            let (pad, seen) = (
                call.maybe_bool::<2>("mask_pad"),
                call.maybe_bool::<3>("mask_attn"),
            );
            if case["cached"] == true {
                let mut cache = MhaCache::autoregressive();
                for end in 1..=query.dims()[1] {
                    let mut input = MhaInput::self_attn(query.clone().narrow(1, 0, end));
                    if let Some(mask) = &pad {
                        input = input.mask_pad(mask.clone().narrow(1, 0, end));
                    }
                    if let Some(mask) = &seen {
                        input = input.mask_attn(mask.clone().narrow(1, 0, end).narrow(2, 0, end));
                    }
                    call.output(it.forward_cache(input, &mut cache).context);
                }
                return;
            }
            let mut input = match call.maybe_float("key") {
                Some(key) => MhaInput::new(query, key, call.float("value")),
                None => MhaInput::self_attn(query),
            };
            if let Some(mask) = pad {
                input = input.mask_pad(mask);
            }
            if let Some(mask) = seen {
                input = input.mask_attn(mask);
            }
            let output = it.forward(input);
            call.output(output.context);
            call.output(output.weights);
        },
    )
}

fn cross_attention(case: &Value) -> Result<Value, String> {
    let config: CrossAttentionConfig = config(case)?;
    answer(
        case,
        |device| config.init(device),
        |it, call| {
            let (query, context) = (call.float::<3>("x"), call.float::<3>("context"));
            let mask = call.maybe_bool::<2>("mask");
            if case["cached"] == true {
                let mut cache = CrossAttentionCache::new();
                for at in 0..query.dims()[1] {
                    let one = query.clone().narrow(1, at, 1);
                    call.output(it.forward_cache(one, context.clone(), mask.clone(), &mut cache));
                }
                return;
            }
            call.output(it.forward(query, context, mask));
        },
    )
}

fn encoder(case: &Value) -> Result<Value, String> {
    let config: TransformerEncoderConfig = config(case)?;
    let input = |call: &Call, x: Tensor<3>, end: usize| {
        let mut input = TransformerEncoderInput::new(x);
        if let Some(mask) = call.maybe_bool::<2>("mask_pad") {
            input = input.mask_pad(mask.narrow(1, 0, end));
        }
        if let Some(mask) = call.maybe_bool::<3>("mask_attn") {
            input = input.mask_attn(mask.narrow(1, 0, end).narrow(2, 0, end));
        }
        input
    };
    answer(
        case,
        |device| config.init(device),
        |it, call| {
            let x = call.float::<3>("x");
            let length = x.dims()[1];
            if case["cached"] == true {
                let mut cache = it.new_autoregressive_cache();
                for end in 1..=length {
                    let part = input(call, x.clone().narrow(1, 0, end), end);
                    call.output(it.forward_autoregressive_inference(part, &mut cache));
                }
                return;
            }
            call.output(it.forward(input(call, x, length)));
        },
    )
}

fn decoder(case: &Value) -> Result<Value, String> {
    let config: TransformerDecoderConfig = config(case)?;
    let input = |call: &Call, target: Tensor<3>, memory: Tensor<3>| {
        let end = target.dims()[1];
        let mut input = TransformerDecoderInput::new(target, memory);
        if let Some(mask) = call.maybe_bool::<2>("target_mask_pad") {
            input = input.target_mask_pad(mask.narrow(1, 0, end));
        }
        if let Some(mask) = call.maybe_bool::<3>("target_mask_attn") {
            input = input.target_mask_attn(mask.narrow(1, 0, end).narrow(2, 0, end));
        }
        if let Some(mask) = call.maybe_bool::<2>("memory_mask_pad") {
            input = input.memory_mask_pad(mask);
        }
        if let Some(mask) = call.maybe_bool::<3>("memory_mask_attn") {
            input = input.memory_mask_attn(mask.narrow(1, 0, end));
        }
        input
    };
    answer(
        case,
        |device| config.init(device),
        |it, call| {
            let (target, memory) = (call.float::<3>("x"), call.float::<3>("memory"));
            if case["cached"] == true {
                let mut cache = it.new_autoregressive_cache();
                for end in 1..=target.dims()[1] {
                    let part = input(call, target.clone().narrow(1, 0, end), memory.clone());
                    call.output(it.forward_autoregressive_inference(part, &mut cache));
                }
                return;
            }
            call.output(it.forward(input(call, target, memory)));
        },
    )
}

/// The whole sequence, or `apply` from the position `start`, after `shift` to another one.
fn rotary_encoding(case: &Value) -> Result<Value, String> {
    let config: RotaryEncodingConfig = config(case)?;
    answer(
        case,
        |device| match case["scaling"].as_f64() {
            Some(factor) => config.init_with_frequency_scaling(|it| it / factor, device),
            None => config.init(device),
        },
        |it, call| {
            let start = case["start"].as_u64().unwrap_or(0) as usize;
            let mut layer = it.clone();
            if let Some(shift) = case["shift"].as_u64() {
                layer.shift(shift as usize);
            }
            match call.rank("x") {
                3 => call.output(layer.apply(call.float::<3>("x"), start)),
                _ => call.output(layer.apply(call.float::<4>("x"), start)),
            }
        },
    )
}

fn initializer(case: &Value) -> Result<Value, String> {
    let rule: Initializer = config(case)?;
    let fan = |name: &str| case[name].as_u64().map(|it| it as usize);
    let shape = burn_cases::shape_of(&case["shape"]);
    let device = Device::flex();
    let data = match shape.len() {
        1 => rule
            .init_with::<1, _>(shape, fan("fan_in"), fan("fan_out"), &device)
            .val()
            .into_data(),
        2 => rule
            .init_with::<2, _>(shape, fan("fan_in"), fan("fan_out"), &device)
            .val()
            .into_data(),
        _ => rule
            .init_with::<3, _>(shape, fan("fan_in"), fan("fan_out"), &device)
            .val()
            .into_data(),
    };
    Ok(value_of(&data))
}

fn masks(case: &Value) -> Result<Value, String> {
    let device = Device::flex();
    if let Some(length) = case["causal"].as_u64() {
        let mask = generate_autoregressive_mask(2, length as usize, &device);
        return Ok(json!([value_of(&mask.into_data())]));
    }
    let lists = case["tokens"]
        .as_array()
        .expect("lists")
        .iter()
        .map(burn_cases::shape_of)
        .collect();
    let limit = match (case["max"].as_u64(), case["fixed"].as_u64()) {
        (Some(size), _) => SeqLengthOption::Max(size as usize),
        (_, Some(size)) => SeqLengthOption::Fixed(size as usize),
        _ => SeqLengthOption::NoMax,
    };
    let padded = generate_padding_mask(
        case["pad"].as_u64().expect("a token") as usize,
        lists,
        limit,
        &device,
    );
    let tensor: Tensor<2, Int> = padded.tensor;
    Ok(json!([
        value_of(&tensor.into_data()),
        value_of(&padded.mask.into_data())
    ]))
}
