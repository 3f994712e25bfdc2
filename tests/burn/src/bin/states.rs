//! Steps of optimizers that go on from files: of the weights, and of the optimizer's states.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::{
    Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, Lstm, LstmConfig,
};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer, RmsPropConfig,
    SgdConfig,
};
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_cases::{data_of, serve};
use serde_json::{Value, json};

const SIZE: usize = 4;

#[derive(Module, Debug)]
struct Net {
    embedding: Embedding,
    lstm: Lstm,
    gru: Gru,
    attention: MultiHeadAttention,
    norm: LayerNorm,
    one: Linear,
    head: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            embedding: EmbeddingConfig::new(7, SIZE).init(device),
            lstm: LstmConfig::new(SIZE, SIZE, true).init(device),
            gru: GruConfig::new(SIZE, SIZE, true).init(device),
            attention: MultiHeadAttentionConfig::new(SIZE, 2)
                .with_dropout(0.0)
                .init(device),
            norm: LayerNormConfig::new(SIZE).init(device),
            one: LinearConfig::new(SIZE, SIZE).init(device),
            head: LinearConfig::new(SIZE, SIZE).init(device),
        }
    }

    fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let x = self.lstm.forward(self.embedding.forward(ids), None).0;
        let x = self.gru.forward(x, None);
        let seen = self
            .attention
            .forward(MhaInput::self_attn(x.clone()))
            .context;
        self.head
            .forward(self.one.forward(self.norm.forward(x + seen)).tanh())
    }
}

fn optimizer(rule: &str) -> ModuleOptimizer {
    match rule {
        "AdamW" => AdamWConfig::new()
            .with_epsilon(1e-8)
            .with_weight_decay(1e-2)
            .init(),
        "Adam" => AdamConfig::new()
            .with_epsilon(1e-8)
            .with_amsgrad(true)
            .init(),
        "SGD" => SgdConfig::new()
            .with_momentum(Some(
                MomentumConfig::new().with_momentum(0.8).with_dampening(0.0),
            ))
            .init(),
        "RMSprop" => RmsPropConfig::new()
            .with_epsilon(1e-6)
            .with_momentum(0.8)
            .with_centered(true)
            .init(),
        "Adagrad" => AdaGradConfig::new()
            .with_epsilon(1e-8)
            .with_lr_decay(0.1)
            .init(),
        other => panic!("no rule {other}"),
    }
}

fn answer(case: &Value) -> Result<Value, String> {
    let text = |name: &str| case[name].as_str().expect("a path").to_string();
    // Rounding would grow too much in a hundred steps of float32.
    let mut device = Device::flex();
    if device.settings().float_dtype != FloatDType::F64 {
        device
            .configure(FloatDType::F64)
            .map_err(|it| format!("{it:?}"))?;
    }
    let device = device.autodiff();
    let mut net = Net::new(&device).load_file(text("model"));
    let mut rule = optimizer(&text("rule"))
        .load(text("optimizer"))
        .map_err(|it| format!("{it:?}"))?;
    let (ids, target): (TensorData, TensorData) = (data_of(&case["ids"]), data_of(&case["target"]));
    let mut losses = Vec::new();
    for _ in 0..case["steps"].as_u64().expect("steps") {
        let output = net.forward(Tensor::from_data(ids.clone(), &device));
        let loss = (output - Tensor::<3>::from_data(target.clone(), &device))
            .powi_scalar(2)
            .mean();
        losses.push(loss.clone().into_scalar::<f64>());
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = rule.step(case["lr"].as_f64().expect("a rate"), net, grads);
    }
    rule.save(text("optimizer"))
        .map_err(|it| format!("{it:?}"))?;
    net.save_file(text("model"))
        .map_err(|it| format!("{it:?}"))?;
    Ok(json!({ "losses": losses }))
}

fn main() {
    serve(answer);
}
