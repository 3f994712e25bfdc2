//! Methods and functions of tensors.

use burn_cases::{data_of, serve, value_of};

fn main() {
    serve(|case| Ok(value_of(&data_of(&case["x"]))));
}
