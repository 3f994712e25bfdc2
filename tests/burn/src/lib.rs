//! Programs that compute cases with Burn: one JSON object a line in, one a line out.

use std::cell::RefCell;
use std::io::{BufRead, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use burn::tensor::{BoolStore, DType, TensorData};
use serde_json::{Value, json};

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Answers each line of the standard input by `answer`; a panic or an error is `{"refused": its message}`.
pub fn serve(answer: impl Fn(&Value) -> Result<Value, String>) {
    set_hook(Box::new(|info| PANIC.with(|it| *it.borrow_mut() = info.to_string())));
    for line in stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line.expect("a line of text")).expect("JSON");
        let answer = match catch_unwind(AssertUnwindSafe(|| answer(&case))) {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => json!({ "refused": error }),
            Err(_) => json!({ "refused": PANIC.with(|it| it.take()) }),
        };
        let mut out = stdout().lock();
        writeln!(out, "{answer}").expect("standard output");
        out.flush().expect("standard output");
    }
}

/// A tensor of a case: `{"dtype": "f32", "shape": [2], "bytes": hexadecimal, little-endian}`.
pub fn data_of(value: &Value) -> TensorData {
    let text = value["bytes"].as_str().expect("bytes");
    let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"));
    TensorData::from_bytes_vec(bytes.collect(), shape_of(&value["shape"]), dtype_of(value["dtype"].as_str().expect("dtype")))
}

/// A list of sizes.
pub fn shape_of(value: &Value) -> Vec<usize> {
    value.as_array().expect("sizes").iter().map(|it| it.as_u64().expect("a size") as usize).collect()
}

/// The dtype of a name, as `f32` or `bool`.
pub fn dtype_of(name: &str) -> DType {
    match name {
        "f64" => DType::F64,
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "i64" => DType::I64,
        "i32" => DType::I32,
        "i16" => DType::I16,
        "i8" => DType::I8,
        "u64" => DType::U64,
        "u32" => DType::U32,
        "u16" => DType::U16,
        "u8" => DType::U8,
        "bool" => DType::Bool(BoolStore::Native),
        _ => panic!("no dtype {name}"),
    }
}

/// A tensor for an answer, in the form of `data_of`.
pub fn value_of(data: &TensorData) -> Value {
    let dtype = match data.dtype() {
        DType::Bool(_) => "bool".to_string(),
        other => format!("{other:?}").to_lowercase(),
    };
    let bytes: String = data.as_bytes().iter().map(|it| format!("{it:02x}")).collect();
    json!({ "dtype": dtype, "shape": data.shape().to_vec(), "bytes": bytes })
}

pub mod modules;
