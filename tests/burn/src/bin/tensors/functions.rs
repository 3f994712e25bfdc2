//! Functions of tensors: activations, layers, linear algebra, signals, grids, losses, quantization.

use burn::linalg::{self, Norm};
use burn::signal::{self, StftOptions};
use burn::tensor::ops::{
    AttentionModuleOptions, AvgPoolOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, MaxPoolOptions, UnfoldOptions,
};
use burn::tensor::quantization::{
    BlockSize, CalibrationRange, QuantScheme, QuantValue, QuantizationParameters, ScaleDtype, compute_q_params,
};
use burn::tensor::{Bool, Int, Tensor, TensorCreationOptions, activation, grid, loss, module};
use serde_json::Value;

use crate::args::{Case, Outs, float_of, one, sizes_of, two};
use crate::with_rank;

pub fn answer(case: &Case) -> Option<Outs> {
    let (room, name) = case.op().split_once('.')?;
    match room {
        "activation" => with_rank!(case.rank_of(0), D, activations::<D>(name, case)),
        "module" => layers(name, case).or_else(|| with_rank!(case.rank_of(0), D, of_any_rank::<D>(name, case))),
        "linalg" => match case.kind() {
            burn::tensor::kind::Kind::Float => {
                with_rank!(case.rank_of(0), D, linear_algebra::<D>(name, case))
            }
            _ => None,
        },
        "signal" => signals(name, case),
        "grid" if name == "affine_grid_2d" => Some(one(grid::affine_grid_2d(case.tensor(0), case.fixed(1)))),
        "loss" => Some(with_rank!(case.rank_of(0), D, {
            one(loss::cross_entropy_with_logits(case.tensor::<D, _>(0), case.tensor(1)))
        })),
        "quantization" => with_rank!(case.rank_of(0), D, quantized::<D>(name, case)),
        _ => None,
    }
}

fn activations<const D: usize>(name: &str, case: &Case) -> Option<Outs> {
    use activation::*;
    let x: Tensor<D> = case.tensor(0);
    Some(one(match name {
        "relu" => relu(x),
        "leaky_relu" => leaky_relu(x, case.float(1)),
        "gelu" => gelu(x),
        "gelu_approximate" => gelu_approximate(x),
        "prelu" => prelu(x, case.tensor(1)),
        "softmax" => softmax(x, case.int(1)),
        "softmin" => softmin(x, case.int(1)),
        "quiet_softmax" => quiet_softmax(x, case.int(1)),
        "log_softmax" => log_softmax(x, case.int(1)),
        "sigmoid" => sigmoid(x),
        "hard_sigmoid" => hard_sigmoid(x, case.float(1), case.float(2)),
        "log_sigmoid" => log_sigmoid(x),
        "silu" => silu(x),
        "hard_swish" => hard_swish(x),
        "mish" => mish(x),
        "softplus" => softplus(x, case.float(1)),
        "softplus_with_threshold" => softplus_with_threshold(x, case.float(1), case.float(2)),
        "tanh" => tanh(x),
        "elu" => elu(x, case.float(1)),
        "celu" => celu(x, case.float(1)),
        "selu" => selu(x),
        "thresholded_relu" => thresholded_relu(x, case.float(1)),
        "threshold" => threshold(x, case.float(1), case.float(2)),
        "glu" => glu(x, case.int(1)),
        "softsign" => softsign(x),
        "hard_shrink" => hard_shrink(x, case.float(1)),
        "soft_shrink" => soft_shrink(x, case.float(1)),
        "shrink" => shrink(x, case.float(1), case.float(2)),
        "hardtanh" => hardtanh(x, case.float(1), case.float(2)),
        "tanhshrink" => tanhshrink(x),
        "relu6" => relu6(x),
        _ => return None,
    }))
}

fn of_any_rank<const D: usize>(name: &str, case: &Case) -> Option<Outs> {
    let x: Tensor<D> = case.tensor(0);
    Some(match name {
        "linear" => one(module::linear(x, case.tensor(1), case.optional(2))),
        "layer_norm" => one(module::layer_norm(x, case.tensor(1), case.optional(2), case.float(3))),
        "batch_norm" => {
            one(module::batch_norm(x, case.tensor(1), case.tensor(2), case.tensor(3), case.tensor(4), case.float(5)))
        }
        "batch_norm_train" => {
            let found = module::batch_norm_train(x, case.tensor(1), case.tensor(2), case.float(3));
            [one(found.output), one(found.mean.detach()), one(found.variance.detach())].into_iter().flatten().collect()
        }
        _ => return None,
    })
}

/// The last argument, the fields of options.
fn options<'a>(case: &'a Case) -> &'a Value {
    case.args.last().expect("options")
}

fn field<const N: usize>(case: &Case, name: &str) -> [usize; N] {
    sizes_of(&options(case)[name]).try_into().expect("as many sizes as dimensions")
}

fn count(case: &Case, name: &str) -> usize {
    options(case)[name].as_u64().expect("a number") as usize
}

fn paddings<const N: usize>(case: &Case) -> [(usize, usize); N] {
    let begin: [usize; N] = field(case, "padding");
    let end = if options(case)["padding_end"].is_null() { begin } else { field(case, "padding_end") };
    std::array::from_fn(|dim| (begin[dim], end[dim]))
}

fn convolution<const N: usize>(case: &Case) -> ConvOptions<N> {
    ConvOptions::new_with_padding(field(case, "stride"), paddings(case), field(case, "dilation"), count(case, "groups"))
}

fn transposed<const N: usize>(case: &Case) -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new(
        field(case, "stride"),
        field(case, "padding"),
        field(case, "padding_out"),
        field(case, "dilation"),
        count(case, "groups"),
    )
}

fn unfolding(case: &Case) -> UnfoldOptions {
    UnfoldOptions::new(field(case, "stride"), field(case, "padding"), field(case, "dilation"))
}

fn max_pool<const N: usize>(case: &Case) -> MaxPoolOptions<N> {
    MaxPoolOptions::new(field(case, "kernel_size"))
        .with_stride(field(case, "stride"))
        .with_padding_pairs(paddings(case))
        .with_dilation(field(case, "dilation"))
        .with_ceil_mode(options(case)["ceil_mode"] == true)
}

fn avg_pool<const N: usize>(case: &Case) -> AvgPoolOptions<N> {
    AvgPoolOptions::new(field(case, "kernel_size"))
        .with_stride(field(case, "stride"))
        .with_padding_pairs(paddings(case))
        .with_count_include_pad(options(case)["count_include_pad"] == true)
        .with_ceil_mode(options(case)["ceil_mode"] == true)
}

fn layers(name: &str, case: &Case) -> Option<Outs> {
    use module::*;
    Some(match name {
        "embedding" => one(embedding(case.tensor(0), case.tensor::<2, Int>(1))),
        "conv1d" => one(conv1d(case.tensor(0), case.tensor(1), case.optional(2), convolution::<1>(case))),
        "conv2d" => one(conv2d(case.tensor(0), case.tensor(1), case.optional(2), convolution::<2>(case))),
        "conv3d" => one(conv3d(case.tensor(0), case.tensor(1), case.optional(2), convolution::<3>(case))),
        "conv2d_weight_backward" => {
            one(conv2d_weight_backward(case.tensor(0), case.tensor(1), case.tensor(2), convolution::<2>(case)))
        }
        "deform_conv2d" => one(deform_conv2d(
            case.tensor(0),
            case.tensor(1),
            case.tensor(2),
            case.optional(3),
            case.optional(4),
            DeformConvOptions::new(
                field(case, "stride"),
                field(case, "padding"),
                field(case, "dilation"),
                count(case, "weight_groups"),
                count(case, "offset_groups"),
            ),
        )),
        "conv_transpose1d" => one(conv_transpose1d(case.tensor(0), case.tensor(1), case.optional(2), transposed(case))),
        "conv_transpose2d" => one(conv_transpose2d(case.tensor(0), case.tensor(1), case.optional(2), transposed(case))),
        "conv_transpose3d" => one(conv_transpose3d(case.tensor(0), case.tensor(1), case.optional(2), transposed(case))),
        "unfold4d" => one(unfold4d(case.tensor(0), case.fixed(1), unfolding(case))),
        "fold4d" => one(fold4d(case.tensor(0), case.fixed(1), case.fixed(2), unfolding(case))),
        "max_pool1d" => one(max_pool1d(case.tensor(0), max_pool(case))),
        "max_pool2d" => one(max_pool2d(case.tensor(0), max_pool(case))),
        "max_pool1d_with_indices" => two(max_pool1d_with_indices(case.tensor(0), max_pool(case))),
        "max_pool2d_with_indices" => two(max_pool2d_with_indices(case.tensor(0), max_pool(case))),
        "max_pool2d_with_indices_backward" => one(max_pool2d_with_indices_backward(
            case.tensor(0),
            case.fixed(1),
            case.fixed(2),
            case.fixed(3),
            case.fixed(4),
            case.flag(5),
            case.tensor(6),
            case.tensor(7),
        )),
        "avg_pool1d" => one(avg_pool1d(case.tensor(0), avg_pool(case))),
        "avg_pool2d" => one(avg_pool2d(case.tensor(0), avg_pool(case))),
        "avg_pool2d_backward" => one(avg_pool2d_backward(
            case.tensor(0),
            case.tensor(1),
            case.fixed(2),
            case.fixed(3),
            case.fixed(4),
            case.flag(5),
            case.flag(6),
        )),
        "adaptive_avg_pool1d" => one(adaptive_avg_pool1d(case.tensor(0), case.fixed::<1>(1)[0])),
        "adaptive_avg_pool2d" => one(adaptive_avg_pool2d(case.tensor(0), case.fixed(1))),
        "adaptive_avg_pool3d" => one(adaptive_avg_pool3d(case.tensor(0), case.fixed(1))),
        "interpolate" => {
            let options = InterpolateOptions::new(match case.word(2) {
                "Nearest" => InterpolateMode::Nearest,
                "NearestExact" => InterpolateMode::NearestExact,
                "Bilinear" => InterpolateMode::Bilinear,
                "Bicubic" => InterpolateMode::Bicubic,
                _ => InterpolateMode::Lanczos3,
            });
            let options = options.with_align_corners(case.flag(3));
            let options = if case.args[1][0].is_f64() {
                options.with_scale_factor([float_of(&case.args[1][0]) as f32, float_of(&case.args[1][1]) as f32])
            } else {
                options.with_output_size(case.fixed(1))
            };
            one(interpolate(case.tensor(0), options))
        }
        "attention" | "attention_fallback" => {
            let options = AttentionModuleOptions {
                scale: case.optional_float(5),
                softcap: case.optional_float(6),
                is_causal: case.flag(7),
            };
            let mask: Option<Tensor<4, Bool>> = case.optional(3);
            let (query, key, value, bias) = (case.tensor(0), case.tensor(1), case.tensor(2), case.optional(4));
            let function = if name == "attention" { attention } else { attention_fallback };
            one(function(query, key, value, mask, bias, options))
        }
        "ctc_loss" => one(ctc_loss(case.tensor(0), case.tensor(1), case.tensor(2), case.tensor(3), case.size(4))),
        _ => return None,
    })
}

fn norm_of(value: &Value) -> Norm {
    match value.as_str() {
        Some("L0") => Norm::L0,
        Some("L1") => Norm::L1,
        Some("L2") => Norm::L2,
        Some("LInf") => Norm::LInf,
        Some("LNegInf") => Norm::LNegInf,
        _ => Norm::Lp(float_of(value)),
    }
}

fn linear_algebra<const D: usize>(name: &str, case: &Case) -> Option<Outs> {
    let x = || case.tensor::<D, burn::tensor::Float>(0);
    Some(match name {
        "cosine_similarity" => one(linalg::cosine_similarity(x(), case.tensor(1), case.int(2), case.optional_float(3))),
        "l2_norm" => one(linalg::l2_norm(x(), case.int(1))),
        "l2_norm_dims" => one(linalg::l2_norm_dims(x(), &case.ints(1))),
        "lp_norm" => one(linalg::lp_norm(x(), case.float(1), case.int(2))),
        "lp_norm_dims" => one(linalg::lp_norm_dims(x(), case.float(1), &case.ints(2))),
        "vector_norm" => one(linalg::vector_norm(x(), norm_of(&case.args[1]), case.int(2))),
        "vector_norm_dims" => one(linalg::vector_norm_dims(x(), norm_of(&case.args[1]), &case.ints(2))),
        "vector_normalize" => one(linalg::vector_normalize(x(), norm_of(&case.args[1]), case.int(2), case.float(3))),
        "det" => with_rank!(case.rank_of(0) - 1, E, with_rank!(case.rank(), F, one(linalg::det::<D, E, F>(x())))),
        "lu" => with_rank!(case.rank_of(0) - 1, E, {
            let (permutation, lower, upper) = linalg::lu::<D, E>(x());
            [one(permutation), one(lower), one(upper)].into_iter().flatten().collect()
        }),
        "qr" => two(linalg::qr(x(), case.flag(1))),
        "svd" => with_rank!(case.rank_of(0) - 1, E, {
            let (u, s, v) = linalg::svd::<D, E>(x(), case.size(1));
            [one(u), one(s), one(v)].into_iter().flatten().collect()
        }),
        "trace" => with_rank!(case.rank(), E, one(linalg::trace::<D, E>(x()))),
        _ => return None,
    })
}

fn signals(name: &str, case: &Case) -> Option<Outs> {
    let device = TensorCreationOptions::new(case.device.clone());
    let length = |at: usize| case.args[at].as_u64().map(|it| it as usize);
    Some(match name {
        "hann_window" => one(signal::hann_window(case.size(0), case.flag(1), device)),
        "hamming_window" => one(signal::hamming_window(case.size(0), case.flag(1), device)),
        "blackman_window" => one(signal::blackman_window(case.size(0), case.flag(1), device)),
        "rfft" => with_rank!(case.rank_of(0), D, two(signal::rfft(case.tensor::<D, _>(0), case.int(1), length(2)))),
        "irfft" => with_rank!(case.rank_of(0), D, {
            one(signal::irfft(case.tensor::<D, _>(0), case.tensor(1), case.int(2), length(3)))
        }),
        "cfft" => with_rank!(case.rank_of(0), D, {
            two(signal::cfft(case.tensor::<D, _>(0), case.tensor(1), case.int(2), length(3)))
        }),
        "stft" => one(signal::stft(case.tensor(0), case.optional(1), frames(case))),
        "istft" => one(signal::istft(case.tensor(0), case.optional(1), length(2), frames(case))),
        _ => return None,
    })
}

fn frames(case: &Case) -> StftOptions {
    StftOptions {
        n_fft: count(case, "n_fft"),
        hop_length: count(case, "hop_length"),
        win_length: options(case)["win_length"].as_u64().map(|it| it as usize),
        center: options(case)["center"] == true,
        onesided: options(case)["onesided"] == true,
    }
}

fn quantized<const D: usize>(name: &str, case: &Case) -> Option<Outs> {
    let scheme = QuantScheme::default().with_value(match options(case)["value"].as_str().expect("a value") {
        "Q8F" => QuantValue::Q8F,
        "Q8S" => QuantValue::Q8S,
        "Q4F" => QuantValue::Q4F,
        "Q4S" => QuantValue::Q4S,
        "Q2F" => QuantValue::Q2F,
        _ => QuantValue::Q2S,
    });
    let scheme = if options(case)["block"].is_null() {
        scheme.per_tensor(ScaleDtype::F32)
    } else {
        let sizes: Vec<u8> = sizes_of(&options(case)["block"]).into_iter().map(|it| it as u8).collect();
        scheme.per_block(BlockSize::new(sizes).as_slice(), ScaleDtype::F32)
    };
    Some(one(match name {
        "quantize_dynamic" => case.tensor::<D, burn::tensor::Float>(0).quantize_dynamic(&scheme).dequantize(),
        "quantize" => {
            let params = QuantizationParameters { scales: case.tensor(1), global: None };
            case.tensor::<D, burn::tensor::Float>(0).quantize(&scheme, params).dequantize()
        }
        "compute_q_params" => {
            let range = CalibrationRange { min: case.tensor(0), max: case.tensor(1) };
            return Some(one(compute_q_params(&scheme, range).scales));
        }
        _ => return None,
    }))
}
