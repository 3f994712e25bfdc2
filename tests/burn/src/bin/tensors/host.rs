//! What is on the host: data, tolerances, texts of slices, the display of tensors.

use std::str::FromStr;

use burn::tensor::{DType, Slice, TensorData, Tolerance, bf16, f16};
use burn_cases::{data_of, value_of};
use serde_json::json;

use crate::args::{Case, Outs, plain};

/// A tolerance for `$F`: a function would have to name a trait of another crate.
macro_rules! tolerance {
    ($F:ty, $case:expr, $at:expr) => {{
        let (case, at): (&Case, usize) = ($case, $at);
        match case.word(at) {
            "default" => Tolerance::<$F>::default(),
            "balanced" => Tolerance::<$F>::balanced(),
            "strict" => Tolerance::<$F>::strict(),
            "permissive" => Tolerance::<$F>::permissive(),
            "rel_abs" => Tolerance::<$F>::rel_abs(case.float(at + 1), case.float(at + 2)),
            "relative" => Tolerance::<$F>::relative(case.float(at + 1)),
            "absolute" => Tolerance::<$F>::absolute(case.float(at + 1)),
            "set_relative" => Tolerance::<$F>::default().set_relative(case.float(at + 1)),
            "set_absolute" => Tolerance::<$F>::default().set_absolute(case.float(at + 1)),
            "set_half_precision_relative" => Tolerance::<$F>::default().set_half_precision_relative(case.float(at + 1)),
            "set_single_precision_relative" => Tolerance::<$F>::default().set_single_precision_relative(case.float(at + 1)),
            "set_double_precision_relative" => Tolerance::<$F>::default().set_double_precision_relative(case.float(at + 1)),
            "set_half_precision_absolute" => Tolerance::<$F>::default().set_half_precision_absolute(case.float(at + 1)),
            "set_single_precision_absolute" => Tolerance::<$F>::default().set_single_precision_absolute(case.float(at + 1)),
            "set_double_precision_absolute" => Tolerance::<$F>::default().set_double_precision_absolute(case.float(at + 1)),
            word => panic!("no tolerance {word}"),
        }
    }};
}

pub fn answer(case: &Case) -> Option<Outs> {
    let data = |at: usize| data_of(&case.args[at]);
    Some(match case.op() {
        "data.convert_dtype" => plain(value_of(&data(0).convert_dtype(case.dtype(1)))),
        "data.try_cast" => plain(value_of(&data(0).try_cast(case.dtype(1)).expect("numbers of the type"))),
        "data.equal" => plain(data(0) == data(1)),
        "data.assert_eq" => {
            data(0).assert_eq(&data(1), case.flag(2));
            plain(true)
        }
        "data.assert_approx_eq" => {
            let (left, right) = (data(0), data(1));
            match left.dtype() {
                DType::F64 => left.assert_approx_eq(&right, tolerance!(f64, case, 2)),
                DType::F16 => left.assert_approx_eq(&right, tolerance!(f16, case, 2)),
                DType::BF16 => left.assert_approx_eq(&right, tolerance!(bf16, case, 2)),
                _ => left.assert_approx_eq(&right, tolerance!(f32, case, 2)),
            }
            plain(true)
        }
        "data.assert_within_range" => {
            data(0).assert_within_range(case.float(1) as f32..case.float(2) as f32);
            plain(true)
        }
        "data.assert_within_range_inclusive" => {
            data(0).assert_within_range_inclusive(case.float(1) as f32..=case.float(2) as f32);
            plain(true)
        }
        "data.full" => plain(value_of(&TensorData::full_dtype(case.sizes(0), case.float(1), case.dtype(2)))),
        "data.json" => plain(serde_json::to_string(&data(0)).expect("JSON")),
        "data.from_json" => plain(value_of(
            &serde_json::from_str::<TensorData>(case.word(0)).map_err(|it| it.to_string()).expect("data"),
        )),
        "tolerance.approx_eq" => plain(match case.word(2) {
            "f32" => tolerance!(f32, case, 3).approx_eq(case.float(0) as f32, case.float(1) as f32),
            _ => tolerance!(f64, case, 3).approx_eq(case.float(0), case.float(1)),
        }),
        "slice.parse" => {
            let slice = Slice::from_str(case.word(0)).map_err(|it| format!("{it:?}")).expect("a slice");
            let range = slice.to_range(case.size(1));
            plain(json!([range.start, range.end, slice.step(), slice.output_size(case.size(1))]))
        }
        "transaction" => crate::numbers::registered(case),
        _ => return None,
    })
}
