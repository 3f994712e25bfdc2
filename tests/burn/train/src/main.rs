//! Metrics of burn-train, and trainings that stop early or keep checkpoints: JSON lines in and out.

#[path = "../../src/lib.rs"]
#[allow(dead_code)]
mod cases;
mod metrics;
mod training;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use serde_json::{Value, json};

/// A number, which JSON has as a text where it is not finite.
fn number_of(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| value.as_str().expect("a number").parse().expect("a number"))
}

fn value_of(number: f64) -> Value {
    if number.is_finite() {
        json!(number)
    } else {
        json!(number.to_string())
    }
}

fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, value_of)
}

fn numbers_of(value: &Value) -> Vec<f64> {
    value["values"]
        .as_array()
        .expect("values")
        .iter()
        .map(number_of)
        .collect()
}

/// A tensor of a case: `{"shape": [2], "values": [1.5, "NaN"]}`.
fn floats<const D: usize>(value: &Value) -> Tensor<D> {
    let values: Vec<f32> = numbers_of(value).iter().map(|it| *it as f32).collect();
    Tensor::from_data(
        TensorData::new(values, cases::shape_of(&value["shape"])),
        &Device::default(),
    )
}

fn ints<const D: usize>(value: &Value) -> Tensor<D, Int> {
    let values: Vec<i64> = numbers_of(value).iter().map(|it| *it as i64).collect();
    Tensor::from_data(
        TensorData::new(values, cases::shape_of(&value["shape"])),
        &Device::default(),
    )
}

fn bools<const D: usize>(value: &Value) -> Tensor<D, Bool> {
    ints::<D>(value).equal_scalar(1)
}

fn main() {
    cases::serve(|case| match case["task"].as_str().expect("task") {
        "metric" => metrics::answer(case),
        "stopping" => training::stopping(case),
        "accumulated" => training::accumulated(case),
        "checkpoints" => training::checkpoints(case),
        other => Err(format!("no task {other}")),
    });
}
