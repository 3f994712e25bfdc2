//! Steps of optimizers, with clipping, groups, rates by group and records; accumulated gradients; L-BFGS on a problem.

use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::module_lr_scheduler::{ModuleLearningRate, ModuleLrScheduler};
use burn::module::{Module, Param, ParamGroup, ParamId};
use burn::optim::*;
use burn::tensor::{Bytes, DType, Device, Tensor, TensorData};
use burn_cases::{data_of, dtype_of, serve, shape_of, value_of};
use serde_json::{Value, json};

#[derive(Module, Debug)]
struct Net {
    vectors: Vec<Param<Tensor<1>>>,
    matrices: Vec<Param<Tensor<2>>>,
    kernels: Vec<Param<Tensor<4>>>,
}

/// The value of a field of a case as Burn's config or group.
fn parsed<T: for<'de> burn::serde::Deserialize<'de>>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| error.to_string())
}

fn floats_of(value: &Value) -> Vec<f32> {
    data_of(value).try_to_vec().expect("float32")
}

fn tensor<const D: usize>(values: &[f32], shape: &[usize], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape.to_vec()), device)
}

fn params<const D: usize>(values: &Value, device: &Device) -> Vec<Param<Tensor<D>>> {
    let param = |it: &Value| {
        let id = ParamId::from(it["id"].as_u64().expect("an id"));
        let value: Tensor<D> = tensor(
            &floats_of(&it["value"]),
            &shape_of(&it["value"]["shape"]),
            device,
        );
        let value = it["dtype"]
            .as_str()
            .map_or(value.clone(), |name| value.cast(dtype_of(name)));
        Param::initialized(id, value.require_grad())
    };
    values
        .as_array()
        .expect("parameters")
        .iter()
        .map(param)
        .collect()
}

fn net_of(case: &Value, device: &Device) -> Net {
    Net {
        vectors: params(&case["vectors"], device),
        matrices: params(&case["matrices"], device),
        kernels: params(&case["kernels"], device),
    }
}

macro_rules! with_rule {
    ($case:expr, $config:ident => $body:expr) => {
        match $case["type"].as_str().expect("type") {
            "Sgd" => with_rule!(SgdConfig, $case, $config => $body),
            "Adam" => with_rule!(AdamConfig, $case, $config => $body),
            "AdamW" => with_rule!(AdamWConfig, $case, $config => $body),
            "AdaGrad" => with_rule!(AdaGradConfig, $case, $config => $body),
            "RmsProp" => with_rule!(RmsPropConfig, $case, $config => $body),
            "Adan" => with_rule!(AdanConfig, $case, $config => $body),
            "Lion" => with_rule!(LionConfig, $case, $config => $body),
            "Lamb" => with_rule!(LambConfig, $case, $config => $body),
            "Adafactor" => with_rule!(AdafactorConfig, $case, $config => $body),
            "Muon" => with_rule!(MuonConfig, $case, $config => $body),
            other => Err(format!("no rule {other}")),
        }
    };
    ($type:ty, $case:expr, $config:ident => $body:expr) => {{
        let $config: $type = parsed(&$case["config"])?;
        Ok($body)
    }};
}

fn optimizer_of(case: &Value) -> Result<ModuleOptimizer, String> {
    let mut optimizer: ModuleOptimizer = with_rule!(case, config => config.init())?;
    for group in case["groups"].as_array().into_iter().flatten() {
        let params: ParamGroup = parsed(&group["params"])?;
        let clipping: Option<GradientClippingConfig> = parsed(&group["clipping"])?;
        let clipping = clipping.map(|it| it.init());
        let groups = optimizer;
        let added: Result<ModuleOptimizer, String> =
            with_rule!(group, config => groups.with_group(params, config.build(), clipping));
        optimizer = added?;
    }
    Ok(optimizer)
}

fn rates_of(case: &Value, step: usize) -> Result<ModuleLearningRate, String> {
    let rate = |it: &Value| it["rates"][step].as_f64().expect("a rate");
    let mut rates = ModuleLrScheduler::new(rate(case));
    for group in case["rate_groups"].as_array().into_iter().flatten() {
        rates = rates.with_group(parsed(&group["params"])?, rate(group));
    }
    Ok(rates.step())
}

/// A parameter with its gradients of all steps, and its values after them.
struct Course<const D: usize> {
    id: ParamId,
    dtype: DType,
    shape: Vec<usize>,
    grads: Vec<f32>,
    has_grad: Vec<bool>,
    values: Vec<f32>,
}

impl<const D: usize> Course<D> {
    fn of(params: &[Param<Tensor<D>>], cases: &Value) -> Vec<Self> {
        let course = |(param, case): (&Param<Tensor<D>>, &Value)| Self {
            id: param.id,
            dtype: param.dtype(),
            shape: param.dims().to_vec(),
            grads: floats_of(&case["grads"]),
            has_grad: case["has_grad"]
                .as_array()
                .expect("booleans")
                .iter()
                .map(|it| it == true)
                .collect(),
            values: vec![],
        };
        params
            .iter()
            .zip(cases.as_array().expect("parameters"))
            .map(course)
            .collect()
    }

    fn register(&self, grads: &mut GradientsParams, step: usize, device: &Device) {
        if self.has_grad[step] {
            let size: usize = self.shape.iter().product();
            let grad: Tensor<D> = tensor(
                &self.grads[step * size..(step + 1) * size],
                &self.shape,
                device,
            );
            grads.register::<D>(self.id, grad.cast(self.dtype));
        }
    }

    fn note(&mut self, param: &Param<Tensor<D>>) {
        self.values.extend(
            param
                .val()
                .cast(DType::F32)
                .into_data()
                .try_to_vec::<f32>()
                .expect("float32"),
        );
    }

    fn answer(courses: Vec<Self>) -> Vec<Value> {
        let value = |it: Self| {
            let count = it.values.len();
            value_of(&TensorData::new(it.values, [count]))
        };
        courses.into_iter().map(value).collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> Value {
    bytes
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect::<String>()
        .into()
}

fn bytes_of(value: &Value) -> Option<Bytes> {
    let text = value.as_str()?;
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    Some(Bytes::from_bytes_vec(
        (0..text.len()).step_by(2).map(byte).collect(),
    ))
}

/// The values of each parameter after each step, and the record after `record_at` steps.
fn steps(case: &Value) -> Result<Value, String> {
    let device = Device::default().autodiff();
    let inner = Device::default();
    let mut net = net_of(case, &device);
    let mut vectors = Course::of(&net.vectors, &case["vectors"]);
    let mut matrices = Course::of(&net.matrices, &case["matrices"]);
    let mut kernels = Course::of(&net.kernels, &case["kernels"]);
    let mut optimizer = optimizer_of(&case["optimizer"])?;
    if let Some(record) = bytes_of(&case["record"]) {
        optimizer = optimizer
            .from_bytes(record)
            .map_err(|error| error.to_string())?;
    }
    let mut record = Value::Null;
    for step in 0..case["rates"].as_array().expect("rates").len() {
        let mut grads = GradientsParams::new();
        vectors
            .iter()
            .for_each(|it| it.register(&mut grads, step, &inner));
        matrices
            .iter()
            .for_each(|it| it.register(&mut grads, step, &inner));
        kernels
            .iter()
            .for_each(|it| it.register(&mut grads, step, &inner));
        net = optimizer.step(rates_of(case, step)?, net, grads);
        vectors
            .iter_mut()
            .zip(&net.vectors)
            .for_each(|(it, param)| it.note(param));
        matrices
            .iter_mut()
            .zip(&net.matrices)
            .for_each(|(it, param)| it.note(param));
        kernels
            .iter_mut()
            .zip(&net.kernels)
            .for_each(|(it, param)| it.note(param));
        if case["record_at"] == step + 1 {
            record = hexadecimal(&optimizer.into_bytes().map_err(|error| error.to_string())?);
        }
    }
    let values = [
        Course::answer(vectors),
        Course::answer(matrices),
        Course::answer(kernels),
    ]
    .concat();
    Ok(json!({ "values": values, "record": record }))
}

/// The sum of gradients that were registered one after another.
fn accumulated(case: &Value) -> Result<Value, String> {
    let device = Device::default().autodiff();
    let net = net_of(case, &device);
    let courses = Course::of(&net.vectors, &case["vectors"]);
    let mut accumulator = GradientsAccumulator::new();
    for step in 0..case["rates"].as_array().expect("rates").len() {
        let mut grads = GradientsParams::new();
        courses
            .iter()
            .for_each(|it| it.register(&mut grads, step, &Device::default()));
        accumulator.accumulate(&net, grads);
    }
    let grads = accumulator.grads();
    let sums = net
        .vectors
        .iter()
        .map(|it| grads.get::<1>(it.id).map(|sum| value_of(&sum.into_data())));
    Ok(json!({ "values": sums.collect::<Vec<_>>() }))
}

fn loss_of(case: &Value, net: &Net) -> Tensor<1> {
    let device = net.vectors[0].device();
    let constant = |name: &str| -> Tensor<2> {
        tensor(
            &floats_of(&case[name]),
            &shape_of(&case[name]["shape"]),
            &device,
        )
    };
    let x = net.vectors[0].val();
    match case["problem"].as_str().expect("problem") {
        "quadratic" => {
            (constant("a").matmul(x.unsqueeze_dim(1)) - constant("b"))
                .square()
                .sum()
                * 0.5
        }
        "rosenbrock" => {
            let count = x.dims()[0];
            let (first, second) = (x.clone().narrow(0, 0, count - 1), x.narrow(0, 1, count - 1));
            ((second - first.clone().square()).square() * 100.0 + (first * -1.0 + 1.0).square())
                .sum()
        }
        "logistic" => {
            let margins =
                (constant("a").matmul(net.matrices[0].val()) + x.unsqueeze_dim(1)) * constant("b");
            ((margins * -1.0).exp() + 1.0).log().mean()
        }
        // Of numbers above 0; below, it is NaN.
        "barrier" => (x.clone() - x.log()).sum(),
        other => panic!("no problem {other}"),
    }
}

fn lbfgs(case: &Value) -> Result<Value, String> {
    let device = Device::default().autodiff();
    let mut net = net_of(case, &device);
    let mut optimizer = parsed::<LBFGSConfig>(&case["config"])?.init();
    if let Some(record) = bytes_of(&case["record"]) {
        optimizer = optimizer
            .from_bytes(record)
            .map_err(|error| error.to_string())?;
    }
    let (mut calls, mut losses, mut values, mut record) = (vec![], vec![], vec![], Value::Null);
    for step in 0..case["steps"].as_u64().expect("steps") {
        let mut count = 0;
        let (stepped, loss) =
            optimizer.step(case["rate"].as_f64().expect("a rate"), net, |net: Net| {
                count += 1;
                let loss = loss_of(case, &net);
                let value: f32 = loss.clone().into_scalar();
                (
                    value as f64,
                    GradientsParams::from_grads(loss.backward(), &net),
                )
            });
        net = stepped;
        calls.push(count);
        losses.push(loss);
        let mut flat = net.vectors[0]
            .val()
            .into_data()
            .try_to_vec::<f32>()
            .expect("float32");
        net.matrices
            .iter()
            .for_each(|it| flat.extend(it.val().into_data().try_to_vec::<f32>().expect("float32")));
        let size = flat.len();
        values.push(value_of(&TensorData::new(flat, [size])));
        if case["record_at"] == step + 1 {
            record = hexadecimal(&optimizer.into_bytes().map_err(|error| error.to_string())?);
        }
    }
    Ok(json!({ "values": values, "losses": losses, "calls": calls, "record": record }))
}

fn main() {
    serve(|case| match case["task"].as_str().expect("task") {
        "steps" => steps(case),
        "accumulated" => accumulated(case),
        "lbfgs" => lbfgs(case),
        // A config that Burn takes, or why not.
        "config" => with_rule!(case, config => json!({ "text": config.to_string() })),
        other => Err(format!("no task {other}")),
    });
}
