//! Methods and functions of tensors: a case names the operation and has its arguments, in the order of burnlike's.

mod args;
mod every;
mod functions;
mod host;
mod numbers;

use burn::tensor::kind::Kind;
use burn::tensor::{Bool, Device, DeviceConfig, Float, Int, IntDType};
use burn_cases::serve;
use serde_json::{Value, json};

use crate::args::{Case, Kinded, Outs};

fn main() {
    let mut device = Device::default();
    device.configure(DeviceConfig::default().int_dtype(IntDType::I64)).expect("a device of 64 bits");
    serve(|fields| {
        let case = Case::new(fields, device.clone());
        let outs = answer(&case).ok_or_else(|| format!("no operation {}", case.op()))?;
        let grads = case.gradients(&outs);
        Ok(json!({ "outs": outs.into_iter().map(|out| out.value).collect::<Vec<Value>>(), "grads": grads }))
    });
}

fn answer(case: &Case) -> Option<Outs> {
    if let Some(outs) = host::answer(case).or_else(|| functions::answer(case)).or_else(|| every::others(case)) {
        return Some(outs);
    }
    match case.kind() {
        Kind::Float => every::creation::<Float>(case).or_else(|| numbers::others::<Float>(case)),
        Kind::Int => every::creation::<Int>(case).or_else(|| numbers::others::<Int>(case)),
        Kind::Bool => every::creation::<Bool>(case),
    }
    .or_else(|| if case.op().starts_with("grid.meshgrid") { Some(grids(case)) } else { None })
    .or_else(|| match case.rank_of(0) {
        1 => method::<1>(case),
        2 => method::<2>(case),
        3 => method::<3>(case),
        4 => numbers::floats::<4>(case.tensor(0), case), // images; the other methods are the same in each rank
        rank => panic!("rank {rank} is not among the cases"),
    })
}

fn grids(case: &Case) -> Outs {
    match case.kind() {
        Kind::Float => every::grids::<Float>(case),
        Kind::Int => every::grids::<Int>(case),
        Kind::Bool => every::grids::<Bool>(case),
    }
}

fn method<const D: usize>(case: &Case) -> Option<Outs> {
    fn first<const D: usize, K: Kinded>(case: &Case) -> burn::tensor::Tensor<D, K> {
        case.tensor(0)
    }
    match case.kind() {
        Kind::Float => {
            let x = first::<D, Float>(case);
            every::method(x.clone(), case)
                .or_else(|| numbers::method(x.clone(), case))
                .or_else(|| numbers::floats(x, case))
        }
        Kind::Int => {
            let x = first::<D, Int>(case);
            every::method(x.clone(), case)
                .or_else(|| numbers::method(x.clone(), case))
                .or_else(|| every::of_ints(x, case))
        }
        Kind::Bool => {
            let x = first::<D, Bool>(case);
            every::method(x.clone(), case).or_else(|| every::of_bools(x, case))
        }
    }
}
