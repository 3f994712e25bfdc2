//! Rates of schedules, by group and nested, and their records.

use burn::lr_scheduler::LrSchedulerRecord;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrSchedulerConfig;
use burn::module::ParamId;
use burn::tensor::Bytes;
use burn_cases::serve;
use serde_json::{Value, json};

/// The rates of each step for the paths of the case, and the record after `record_at` steps.
fn rates(case: &Value) -> Result<Value, String> {
    let config: ModuleLrSchedulerConfig =
        serde_json::from_value(case["config"].clone()).map_err(|error| error.to_string())?;
    let mut schedule = config.init()?;
    if let Some(text) = case["record"].as_str() {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
        let bytes = Bytes::from_bytes_vec((0..text.len()).step_by(2).map(byte).collect());
        schedule = schedule
            .load_record(LrSchedulerRecord::from_bytes(bytes).map_err(|error| error.to_string())?);
    }
    let (mut answers, mut record) = (vec![], Value::Null);
    for step in 0..case["steps"].as_u64().expect("steps") {
        let rates = schedule.step();
        let of_path = |path: &Value| rates.lr_from_param(ParamId::from(1), path.as_str());
        let found: Vec<f64> = case["paths"]
            .as_array()
            .expect("paths")
            .iter()
            .map(of_path)
            .collect();
        // Bits, as JSON has no infinity.
        answers.push(
            found
                .iter()
                .chain(&[rates.base()])
                .map(|it| it.to_bits())
                .collect::<Vec<u64>>(),
        );
        if case["record_at"] == step + 1 {
            let bytes = schedule
                .to_record()
                .into_bytes()
                .map_err(|error| error.to_string())?;
            record = bytes
                .iter()
                .map(|it| format!("{it:02x}"))
                .collect::<String>()
                .into();
        }
    }
    Ok(json!({ "rates": answers, "record": record }))
}

fn main() {
    serve(rates);
}
