//! Methods of Float and Int tensors, and of Float ones alone.

use burn::tensor::kind::{FloatMath, Ordered};
use burn::tensor::ops::{GridSampleOptions, GridSamplePaddingMode, InterpolateMode, PadMode};
use burn::tensor::{Bool, FloatDType, Int, IntDType, Tensor};

use crate::args::{Case, Kinded, Outs, all, one, plain, two};
use crate::with_rank;

pub fn method<const D: usize, K: Kinded + Ordered>(x: Tensor<D, K>, case: &Case) -> Option<Outs> {
    let number = |at: usize| case.number::<K>(at);
    Some(match case.op() {
        "add" => one(x.add(case.tensor(1))),
        "sub" => one(x.sub(case.tensor(1))),
        "mul" => one(x.mul(case.tensor(1))),
        "div" => one(x.div(case.tensor(1))),
        "remainder" => one(x.remainder(case.tensor(1))),
        "powi" => one(x.powi(case.tensor(1))),
        "matmul" => one(x.matmul(case.tensor(1))),
        "add_scalar" => one(x.add_scalar(number(1))),
        "sub_scalar" => one(x.sub_scalar(number(1))),
        "mul_scalar" => one(x.mul_scalar(number(1))),
        "div_scalar" => one(x.div_scalar(number(1))),
        "remainder_scalar" => one(x.remainder_scalar(number(1))),
        "powi_scalar" => one(x.powi_scalar(case.int(1))),
        "neg" => one(x.neg()),
        "sign" => one(x.sign()),
        "abs" => one(x.abs()),
        "sum" => one(x.sum()),
        "sum_dim" => one(x.sum_dim(case.int(1))),
        "sum_dims" => one(x.sum_dims(&case.ints(1))),
        "sum_dims_squeeze" => with_rank!(case.rank(), R, one(x.sum_dims_squeeze::<R, _>(&case.ints(1)))),
        "mean" => one(x.mean()),
        "mean_dim" => one(x.mean_dim(case.int(1))),
        "mean_dims" => one(x.mean_dims(&case.ints(1))),
        "prod" => one(x.prod()),
        "prod_dim" => one(x.prod_dim(case.int(1))),
        "prod_dims" => one(x.prod_dims(&case.ints(1))),
        "cumsum" => one(x.cumsum(case.int(1))),
        "cumprod" => one(x.cumprod(case.int(1))),
        "cummin" => one(x.cummin(case.int(1))),
        "cummax" => one(x.cummax(case.int(1))),
        "triu" => one(x.triu(case.int(1))),
        "tril" => one(x.tril(case.int(1))),
        "bool" => one(x.bool()),
        "pad" => {
            let pairs = case.list(1).iter().map(crate::args::sizes_of).map(|it| (it[0], it[1])).collect::<Vec<_>>();
            one(x.pad(
                pairs,
                match case.args[2].as_str() {
                    Some("Reflect") => PadMode::Reflect,
                    Some("Edge") => PadMode::Edge,
                    _ => PadMode::Constant(case.float(2) as f32),
                },
            ))
        }
        "sort" => one(x.sort(case.int(1))),
        "sort_descending" => one(x.sort_descending(case.int(1))),
        "sort_with_indices" => two(x.sort_with_indices(case.int(1))),
        "sort_descending_with_indices" => two(x.sort_descending_with_indices(case.int(1))),
        "argsort" => one(x.argsort(case.int(1))),
        "argsort_descending" => one(x.argsort_descending(case.int(1))),
        "topk" => one(x.topk(case.size(1), case.int(2))),
        "topk_with_indices" => two(x.topk_with_indices(case.size(1), case.int(2))),
        "argtopk" => one(x.argtopk(case.size(1), case.int(2))),
        "argmax" => one(x.argmax(case.int(1))),
        "argmin" => one(x.argmin(case.int(1))),
        "max" => one(x.max()),
        "max_dim" => one(x.max_dim(case.int(1))),
        "max_dims" => one(x.max_dims(&case.ints(1))),
        "max_dim_with_indices" => two(x.max_dim_with_indices(case.int(1))),
        "max_abs" => one(x.max_abs()),
        "max_abs_dim" => one(x.max_abs_dim(case.int(1))),
        "max_abs_dims" => one(x.max_abs_dims(&case.ints(1))),
        "max_pair" => one(x.max_pair(case.tensor(1))),
        "min" => one(x.min()),
        "min_dim" => one(x.min_dim(case.int(1))),
        "min_dims" => one(x.min_dims(&case.ints(1))),
        "min_dim_with_indices" => two(x.min_dim_with_indices(case.int(1))),
        "min_pair" => one(x.min_pair(case.tensor(1))),
        "clamp" => one(x.clamp(number(1), number(2))),
        "clamp_min" => one(x.clamp_min(number(1))),
        "clamp_max" => one(x.clamp_max(number(1))),
        "one_hot" => with_rank!(case.rank(), R, one(x.one_hot::<R>(case.size(1)))),
        "one_hot_fill" => with_rank!(case.rank(), R, {
            one(x.one_hot_fill::<R>(case.size(1), case.float(2) as f32, case.float(3) as f32, case.int(4)))
        }),
        "greater" => one(x.greater(case.tensor(1))),
        "greater_equal" => one(x.greater_equal(case.tensor(1))),
        "lower" => one(x.lower(case.tensor(1))),
        "lower_equal" => one(x.lower_equal(case.tensor(1))),
        "greater_elem" => one(x.greater_elem(number(1))),
        "greater_equal_elem" => one(x.greater_equal_elem(number(1))),
        "lower_elem" => one(x.lower_elem(number(1))),
        "lower_equal_elem" => one(x.lower_equal_elem(number(1))),
        "greater_scalar" => one(x.greater_scalar(number(1))),
        "greater_equal_scalar" => one(x.greater_equal_scalar(number(1))),
        "lower_scalar" => one(x.lower_scalar(number(1))),
        "lower_equal_scalar" => one(x.lower_equal_scalar(number(1))),
        "linalg.l0_norm" => one(burn::linalg::l0_norm(x, case.int(1))),
        "linalg.l1_norm" => one(burn::linalg::l1_norm(x, case.int(1))),
        "linalg.max_abs_norm" => one(burn::linalg::max_abs_norm(x, case.int(1))),
        "linalg.min_abs_norm" => one(burn::linalg::min_abs_norm(x, case.int(1))),
        "linalg.l0_norm_dims" => one(burn::linalg::l0_norm_dims(x, &case.ints(1))),
        "linalg.l1_norm_dims" => one(burn::linalg::l1_norm_dims(x, &case.ints(1))),
        "linalg.max_abs_norm_dims" => one(burn::linalg::max_abs_norm_dims(x, &case.ints(1))),
        "linalg.min_abs_norm_dims" => one(burn::linalg::min_abs_norm_dims(x, &case.ints(1))),
        "linalg.outer" => with_rank!(case.rank(), R, one(burn::linalg::outer::<D, R, K>(x, case.tensor(1)))),
        "linalg.outer_dim" => {
            with_rank!(case.rank(), R, one(burn::linalg::outer_dim::<D, R, i64, K>(x, case.tensor(1), case.int(2))))
        }
        "linalg.matvec" => with_rank!(case.rank_of(1), V, one(burn::linalg::matvec::<D, V, K>(x, case.tensor(1)))),
        _ => return None,
    })
}

/// Operations of several tensors, or of tensors of one rank.
pub fn others<K: Kinded + Ordered>(case: &Case) -> Option<Outs> {
    Some(match case.op() {
        "dot" => one(case.tensor::<1, K>(0).dot(case.tensor(1))),
        "eye" => one(Tensor::<2, K>::eye(case.size(0), &case.device)),
        "einsum" => {
            let equation = case.word(0);
            let operands = case
                .list(1)
                .iter()
                .map(|it| with_rank!(it["shape"].as_array().expect("sizes").len(), D, case.read::<D, K>(it).into()));
            let operands: Vec<_> = operands.collect();
            with_rank!(case.rank(), R, one(Tensor::<R, K>::einsum(equation, operands)))
        }
        _ => return None,
    })
}

fn math<const D: usize, K: Kinded + FloatMath>(x: Tensor<D, K>, op: &str, case: &Case) -> Option<Outs> {
    Some(one(match op {
        "square" => x.square(),
        "exp" => x.exp(),
        "log1p" => x.log1p(),
        "log" => x.log(),
        "sqrt" => x.sqrt(),
        "cos" => x.cos(),
        "sin" => x.sin(),
        "tan" => x.tan(),
        "cosh" => x.cosh(),
        "sinh" => x.sinh(),
        "tanh" => x.tanh(),
        "acos" => x.acos(),
        "acosh" => x.acosh(),
        "asin" => x.asin(),
        "asinh" => x.asinh(),
        "atan" => x.atan(),
        "atanh" => x.atanh(),
        "atan2" => x.atan2(case.tensor(1)),
        _ => return None,
    }))
}

pub fn floats<const D: usize>(x: Tensor<D>, case: &Case) -> Option<Outs> {
    let op = case.op();
    if let Some(outs) = [
        "square", "exp", "log1p", "log", "sqrt", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "acosh", "asin",
        "asinh", "atan", "atanh", "atan2",
    ]
    .contains(&op)
    .then(|| math(x.clone(), op, case))
    {
        return outs;
    }
    Some(match op {
        "erf" => one(x.erf()),
        "recip" => one(x.recip()),
        "deg2rad" => one(x.deg2rad()),
        "rad2deg" => one(x.rad2deg()),
        "round" => one(x.round()),
        "floor" => one(x.floor()),
        "ceil" => one(x.ceil()),
        "trunc" => one(x.trunc()),
        "fmod" => one(x.fmod(case.tensor(1))),
        "fmod_scalar" => one(x.fmod_scalar(case.float(1) as f32)),
        "hypot" => one(x.hypot(case.tensor(1))),
        "powf" => one(x.powf(case.tensor(1))),
        "powf_scalar" => one(x.powf_scalar(case.float(1))),
        "is_nan" => one(x.is_nan()),
        "contains_nan" => one(x.contains_nan()),
        "is_inf" => one(x.is_inf()),
        "is_finite" => one(x.is_finite()),
        "is_close" => one(x.is_close(case.tensor(1), case.optional_float(2), case.optional_float(3))),
        "all_close" => plain(x.all_close(case.tensor(1), case.optional_float(2), case.optional_float(3))),
        "int" => one(x.int()),
        "detach" => one(x.detach()),
        "var" => one(x.var(case.int(1))),
        "var_bias" => one(x.var_bias(case.int(1))),
        "var_mean" => two(x.var_mean(case.int(1))),
        "var_mean_bias" => two(x.var_mean_bias(case.int(1))),
        "median" => one(x.median(case.int(1))),
        "median_with_indices" => two(x.median_with_indices(case.int(1))),
        "cov" => one(x.cov(case.int(1), case.size(2))),
        "cross" => one(x.cross(case.tensor(1), case.int(2))),
        "grid_sample_2d" => {
            let options = GridSampleOptions::new(match case.word(2) {
                "Nearest" => InterpolateMode::Nearest,
                "Bicubic" => InterpolateMode::Bicubic,
                _ => InterpolateMode::Bilinear,
            });
            let options = options.with_padding_mode(match case.word(3) {
                "Border" => GridSamplePaddingMode::Border,
                "Reflection" => GridSamplePaddingMode::Reflection,
                _ => GridSamplePaddingMode::Zeros,
            });
            one(x.grid_sample_2d(case.tensor(1), options.with_align_corners(case.flag(4))))
        }
        "categorical" => one(x.categorical(case.size(1))),
        "cast" => match case.word(1) {
            "f64" => one(x.cast(FloatDType::F64)),
            "f32" => one(x.cast(FloatDType::F32)),
            "f16" => one(x.cast(FloatDType::F16)),
            "bf16" => one(x.cast(FloatDType::BF16)),
            name => one(x.cast(int_of(name))),
        },
        _ => return None,
    })
}

pub fn cast_ints<const D: usize>(x: Tensor<D, Int>, case: &Case) -> Option<Outs> {
    if case.op() != "cast" {
        return None;
    }
    Some(match case.word(1) {
        "f64" => one(x.cast(FloatDType::F64)),
        "f32" => one(x.cast(FloatDType::F32)),
        "f16" => one(x.cast(FloatDType::F16)),
        "bf16" => one(x.cast(FloatDType::BF16)),
        name => one(x.cast(int_of(name))),
    })
}

pub fn cast_bools<const D: usize>(x: Tensor<D, Bool>, case: &Case) -> Option<Outs> {
    if case.op() != "cast" {
        return None;
    }
    Some(match case.word(1) {
        "f32" => one(x.cast(FloatDType::F32)),
        "f16" => one(x.cast(FloatDType::F16)),
        name => one(x.cast(int_of(name))),
    })
}

fn int_of(name: &str) -> IntDType {
    match name {
        "i64" => IntDType::I64,
        "i32" => IntDType::I32,
        "i16" => IntDType::I16,
        "i8" => IntDType::I8,
        "u64" => IntDType::U64,
        "u32" => IntDType::U32,
        "u16" => IntDType::U16,
        _ => IntDType::U8,
    }
}

pub fn registered(case: &Case) -> Outs {
    let (x, y) = (case.tensor::<2, burn::tensor::Float>(0), case.tensor::<1, Int>(1));
    let data = burn::tensor::Transaction::default().register(x).register(y).execute();
    all::<1, Int>([]).into_iter().chain(data.iter().flat_map(|it| plain(burn_cases::value_of(it)))).collect()
}
