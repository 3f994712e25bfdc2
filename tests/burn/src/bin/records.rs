//! Files of modules, optimizers, schedules and drawn packs, written and read by Burn.
//!
//! A case loads the file `load`, steps where there is something to step, saves `save`, and answers what it holds then.

use burn::config::Config;
use burn::lr_scheduler::module_lr_scheduler::{ModuleLrScheduler, ModuleLrSchedulerConfig};
use burn::lr_scheduler::{LrSchedulerConfig, LrSchedulerRecord};
use burn::module::{Module, Param, ParamId};
use burn::nn::activation::{PReluConfig, SwiGluConfig};
use burn::nn::attention::MultiHeadAttentionConfig;
use burn::nn::conv::*;
use burn::nn::transformer::*;
use burn::nn::*;
use burn::optim::*;
use burn::store::burn_pack::{Bytes, Reader, Scalar, Tensor as Entry, Writer};
use burn::store::*;
use burn::tensor::{BoolStore, DType, Device, Int, Tensor, TensorData};
use burn_cases::{data_of, dtype_of, serve, shape_of, value_of};
use serde_json::{Value, json};

type Answer = Result<Value, String>;

fn text(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// The config of a case, whose fields may be left out where `default` has the same.
fn config<C: Config>(default: C, case: &Value) -> Result<C, String> {
    let mut fields = serde_json::to_value(&default).map_err(text)?;
    for (name, value) in case["config"].as_object().into_iter().flatten() {
        fields[name] = value.clone();
    }
    C::load_binary(fields.to_string().as_bytes()).map_err(text)
}

// ---- modules

#[derive(Module, Debug)]
enum Choice {
    Linear(Linear),
    Conv(Conv2d),
    Nothing(Relu),
}

/// What a module may hold, in sizes that the case says.
#[derive(Module, Debug)]
struct Tree {
    first: Linear,
    tied: Linear,
    list: Vec<Option<Linear>>,
    grid: Vec<Vec<Linear>>,
    array: [Linear; 2],
    pair: (Linear, LayerNorm),
    choice: Choice,
    maybe: Option<Conv2d>,
    norm: BatchNorm,
    recurrent: Lstm,
    ints: Param<Tensor<1, Int>>,
    flags: Param<Tensor<1, burn::tensor::Bool>>,
    deep: Param<Tensor<5>>,
    raw: Tensor<1>,
    width: usize,
    sizes: [usize; 2],
    rate: Option<f64>,
}

impl Tree {
    fn new(case: &Value, device: &Device) -> Self {
        let size = |name: &str| case[name].as_u64().expect("a size") as usize;
        let (a, b) = (size("a"), size("b"));
        let linear = |bias: bool| LinearConfig::new(a, b).with_bias(bias).init(device);
        let first = linear(true);
        let mut tied = linear(false);
        if case["tied"] == true {
            tied.weight = first.weight.clone();
        }
        let list = case["list"].as_array().expect("a list").iter();
        let ints: Vec<i64> = (0..b as i64).map(|it| it * 1_000_003 - 7).collect();
        let flags: Vec<bool> = (0..a).map(|it| it % 3 == 1).collect();
        Self {
            first,
            tied,
            list: list.map(|it| it.as_bool().map(linear)).collect(),
            grid: (0..size("rows"))
                .map(|row| (0..row).map(|_| linear(row % 2 == 1)).collect())
                .collect(),
            array: [linear(true), linear(false)],
            pair: (
                linear(true),
                LayerNormConfig::new(a).with_bias(a % 2 == 1).init(device),
            ),
            choice: match case["choice"].as_str() {
                Some("Linear") => Choice::Linear(linear(true)),
                Some("Conv") => Choice::Conv(Conv2dConfig::new([a, b], [1, 2]).init(device)),
                _ => Choice::Nothing(Relu::new()),
            },
            maybe: case["maybe"].as_bool().map(|bias| {
                Conv2dConfig::new([b, a], [2, 1])
                    .with_bias(bias)
                    .init(device)
            }),
            norm: BatchNormConfig::new(b).init(device),
            recurrent: LstmConfig::new(a, b, true).init(device),
            ints: Param::initialized(
                ParamId::new(),
                Tensor::from_data(TensorData::new(ints, [b]), (device, DType::I64)),
            ),
            flags: Param::initialized(
                ParamId::new(),
                Tensor::from_data(TensorData::new(flags, [a]), device),
            ),
            deep: Param::from_tensor(Tensor::random(
                [1, a, 1, b, 2],
                burn::tensor::Distribution::Default,
                device,
            )),
            raw: Tensor::ones([3], device),
            width: a,
            sizes: [a, b],
            rate: None,
        }
    }
}

/// An online network and its target, which Burn's clone gives the same ids.
#[derive(Module, Debug)]
struct Networks {
    online: Linear,
    target: Linear,
}

impl Networks {
    fn new(case: &Value, device: &Device) -> Self {
        let target = LinearConfig::new(3, 2).init(device);
        let mut online = target.clone();
        if case["trained"].as_bool() == Some(true) {
            online.weight = online.weight.map(|it| it + 1.0);
        }
        Self { online, target }
    }
}

fn tensors_of<M: ModuleSnapshot>(module: &M) -> Answer {
    let tensors = module.collect(None, None, false);
    Ok(Value::Array(
        tensors
            .into_iter()
            .map(value_of_entry)
            .collect::<Result<_, _>>()?,
    ))
}

fn value_of_entry(entry: Entry) -> Answer {
    let (name, dtype, shape, id, bytes) = entry.into_parts().map_err(text)?;
    let dtype_text = format!("{dtype:?}");
    // The bytes as they lie, whose dtype burn_cases may not name.
    let value = match dtype {
        DType::Flex32 => value_of(&TensorData::from_bytes(bytes, shape, DType::F32)),
        DType::Bool(BoolStore::U8) => value_of(&TensorData::from_bytes(bytes, shape, DType::U8)),
        DType::Bool(BoolStore::U32) => value_of(&TensorData::from_bytes(bytes, shape, DType::U32)),
        _ => value_of(&TensorData::from_bytes(bytes, shape, dtype)),
    };
    Ok(
        json!({ "name": name, "id": id.map(|it| it.to_string()), "dtype": dtype_text, "value": value }),
    )
}

fn burnpack(path: &str, case: &Value) -> BurnpackStore {
    let mut store = BurnpackStore::from_file(path).allow_partial(case["partial"] == true);
    if let Some(pattern) = case["only"].as_str() {
        store = store.with_regex(pattern);
    }
    match case["adapter"].as_str() {
        Some("half") => store
            .with_to_adapter(HalfPrecisionAdapter::new())
            .with_from_adapter(HalfPrecisionAdapter::new()),
        Some("bf16") => store.with_to_adapter(FloatCastAdapter::to(DType::BF16)),
        _ => store,
    }
}

fn safetensors(path: &str, case: &Value) -> SafetensorsStore {
    let mut store = SafetensorsStore::from_file(path).allow_partial(case["partial"] == true);
    if let Some(pattern) = case["only"].as_str() {
        store = store.with_regex(pattern);
    }
    match case["adapter"].as_str() {
        Some("torch") => store
            .with_to_adapter(BurnToPyTorchAdapter)
            .with_from_adapter(PyTorchToBurnAdapter),
        _ => store,
    }
}

/// Loads and saves a module, by a record or, where `store` names one, a store.
fn module<M: Module + ModuleSnapshot>(mut module: M, case: &Value) -> Answer {
    let mut found = json!({});
    if let Some(path) = case["load"].as_str() {
        match case["store"].as_str() {
            Some("burnpack") => drop(
                module
                    .load_from(&mut burnpack(path, case))
                    .map_err(|it| format!("{it:?}"))?,
            ),
            Some("safetensors") => drop(
                module
                    .load_from(&mut safetensors(path, case))
                    .map_err(|it| format!("{it:?}"))?,
            ),
            _ => {
                let mut record = ModuleRecord::load(path).map_err(text)?;
                if case["cast"] == true {
                    record = record.cast_to_module_dtype();
                }
                module = module.try_load_record(record).map_err(text)?;
            }
        }
    }
    found["tensors"] = tensors_of(&module)?;
    if let Some(path) = case["save"].as_str() {
        match case["store"].as_str() {
            Some("burnpack") => module
                .save_into(&mut burnpack(path, case))
                .map_err(|it| format!("{it:?}"))?,
            Some("safetensors") => module
                .save_into(&mut safetensors(path, case))
                .map_err(|it| format!("{it:?}"))?,
            _ => module.into_record().save(path).map_err(text)?,
        }
    }
    Ok(found)
}

macro_rules! layers {
    ($case:ident, $device:ident, $kind:ident: $($name:literal $config:expr,)*) => {
        match $kind {
            $($name => module(config($config, $case)?.init($device), $case),)*
            _ => Err(format!("no layer {}", $kind)),
        }
    };
}

fn layer(case: &Value, device: &Device) -> Answer {
    let kind = case["layer"].as_str().expect("a layer");
    layers!(case, device, kind:
        "Linear" LinearConfig::new(1, 1),
        "Embedding" EmbeddingConfig::new(1, 1),
        "Conv1d" Conv1dConfig::new(1, 1, 1),
        "Conv2d" Conv2dConfig::new([1, 1], [1, 1]),
        "Conv3d" Conv3dConfig::new([1, 1], [1, 1, 1]),
        "ConvTranspose1d" ConvTranspose1dConfig::new([1, 1], 1),
        "ConvTranspose2d" ConvTranspose2dConfig::new([1, 1], [1, 1]),
        "ConvTranspose3d" ConvTranspose3dConfig::new([1, 1], [1, 1, 1]),
        "DeformConv2d" DeformConv2dConfig::new([1, 1], [1, 1]),
        "BatchNorm" BatchNormConfig::new(1),
        "LayerNorm" LayerNormConfig::new(1),
        "RmsNorm" RmsNormConfig::new(1),
        "GroupNorm" GroupNormConfig::new(1, 1),
        "InstanceNorm" InstanceNormConfig::new(1),
        "PRelu" PReluConfig::new(),
        "SwiGlu" SwiGluConfig::new(1, 1),
        "Rnn" RnnConfig::new(1, 1, true),
        "Lstm" LstmConfig::new(1, 1, true),
        "BiLstm" BiLstmConfig::new(1, 1, true),
        "Gru" GruConfig::new(1, 1, true),
        "BiGru" BiGruConfig::new(1, 1, true),
        "MultiHeadAttention" MultiHeadAttentionConfig::new(1, 1),
        "PositionWiseFeedForward" PositionWiseFeedForwardConfig::new(1, 1),
        "TransformerEncoder" TransformerEncoderConfig::new(1, 1, 1, 1),
        "TransformerDecoder" TransformerDecoderConfig::new(1, 1, 1, 1),
        "PositionalEncoding" PositionalEncodingConfig::new(2),
        "RotaryEncoding" RotaryEncodingConfig::new(1, 2),
    )
}

// ---- packs: names, dtypes and shapes that no struct need have

fn pack(case: &Value) -> Answer {
    if let Some(path) = case["load"].as_str() {
        let reader = Reader::from_file(path).map_err(text)?;
        let metadata = json!(reader.metadata());
        let scalars: Value = reader
            .scalars()
            .iter()
            .map(|(key, it)| (key.clone(), Value::from(format!("{it:?}"))))
            .collect();
        let tensors = reader
            .into_tensors()
            .map_err(text)?
            .into_iter()
            .map(value_of_entry);
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        return Ok(json!({ "metadata": metadata, "scalars": scalars, "tensors": tensors }));
    }
    let tensors = case["tensors"]
        .as_array()
        .expect("tensors")
        .iter()
        .map(|it| {
            let data = data_of(&it["value"]);
            let dtype = match it["dtype"].as_str() {
                Some("flex32") => DType::Flex32,
                Some("bool8") => DType::Bool(BoolStore::U8),
                Some("bool32") => DType::Bool(BoolStore::U32),
                _ => dtype_of(it["value"]["dtype"].as_str().expect("a dtype")),
            };
            let id = it["id"].as_str().map(|id| id.parse().expect("an id"));
            let bytes = Bytes::from_bytes_vec(data.as_bytes().to_vec());
            Entry::new(
                it["name"].as_str().expect("a name").into(),
                dtype,
                shape_of(&it["value"]["shape"]),
                id,
                bytes,
            )
        });
    let mut writer = Writer::new(tensors.collect());
    for (key, value) in case["metadata"].as_object().expect("metadata") {
        writer = writer.with_metadata(key, value.as_str().expect("a text"));
    }
    for (key, value) in case["scalars"].as_object().expect("scalars") {
        let scalar = match value {
            Value::Bool(it) => Scalar::Bool(*it),
            Value::Number(it) if it.is_u64() => Scalar::UInt(it.as_u64().expect("u64")),
            Value::Number(it) if it.is_i64() => Scalar::Int(it.as_i64().expect("i64")),
            other => Scalar::Float(other.as_f64().expect("f64")),
        };
        writer = writer.with_scalar(key, scalar);
    }
    writer
        .write_to_file(case["save"].as_str().expect("a path"))
        .map_err(text)?;
    Ok(json!({}))
}

// ---- optimizers and schedules

fn optimizer_of(case: &Value) -> Result<ModuleOptimizer, String> {
    Ok(match case["optimizer"].as_str().expect("an optimizer") {
        "Adafactor" => config(AdafactorConfig::new(), case)?.init(),
        "AdaGrad" => config(AdaGradConfig::new(), case)?.init(),
        "Adam" => config(AdamConfig::new(), case)?.init(),
        "AdamW" => config(AdamWConfig::new(), case)?.init(),
        "Adan" => config(AdanConfig::new(), case)?.init(),
        "Lamb" => config(LambConfig::new(), case)?.init(),
        "Lion" => config(LionConfig::new(), case)?.init(),
        "Muon" => config(MuonConfig::new(), case)?.init(),
        "RmsProp" => config(RmsPropConfig::new(), case)?.init(),
        "Sgd" => config(SgdConfig::new(), case)?.init(),
        other => panic!("no optimizer {other}"),
    })
}

fn optimizer(case: &Value) -> Answer {
    let device = Device::default().autodiff();
    let record = ModuleRecord::load(case["module"].as_str().expect("a module")).map_err(text)?;
    let sizes = shape_of(&case["sizes"]);
    let bias = case["bias"] == true;
    let mut module: Linear = LinearConfig::new(sizes[0], sizes[1])
        .with_bias(bias)
        .init(&device);
    module = module.try_load_record(record).map_err(text)?;
    let mut optimizer = optimizer_of(case)?;
    if let Some(path) = case["load"].as_str() {
        optimizer = optimizer.load(path).map_err(text)?;
    }
    for (index, grads) in case["grads"]
        .as_array()
        .expect("gradients")
        .iter()
        .enumerate()
    {
        if case["save_at"] == index {
            optimizer
                .save(case["save"].as_str().expect("a path"))
                .map_err(text)?;
        }
        let mut params = GradientsParams::new();
        let inner = Device::default();
        params.register(
            module.weight.id,
            Tensor::<2>::from_data(data_of(&grads["weight"]), &inner),
        );
        if let Some(bias) = &module.bias {
            params.register(
                bias.id,
                Tensor::<1>::from_data(data_of(&grads["bias"]), &inner),
            );
        }
        module = optimizer.step(case["lr"].as_f64().expect("a rate"), module, params);
    }
    Ok(json!({ "tensors": tensors_of(&module)? }))
}

fn schedule(case: &Value) -> Answer {
    let mut schedule: ModuleLrScheduler = config(
        ModuleLrSchedulerConfig::new(LrSchedulerConfig::Constant(0.1)),
        case,
    )?
    .init()?;
    if let Some(path) = case["load"].as_str() {
        schedule = schedule.load_record(LrSchedulerRecord::load(path).map_err(text)?);
    }
    let mut rates = vec![];
    for index in 0..case["steps"].as_u64().expect("steps") {
        if case["save_at"] == index {
            schedule
                .to_record()
                .save(case["save"].as_str().expect("a path"))
                .map_err(text)?;
        }
        rates.push(
            schedule
                .step()
                .lr_from_param(ParamId::from(1), Some(""))
                .to_bits(),
        );
    }
    Ok(json!({ "rates": rates }))
}

fn main() {
    let device = Device::default();
    serve(|case| match case["kind"].as_str() {
        Some("tree") => module(Tree::new(case, &device), case),
        Some("networks") => module(Networks::new(case, &device), case),
        Some("layer") => layer(case, &device),
        Some("pack") => pack(case),
        Some("optimizer") => optimizer(case),
        Some("schedule") => schedule(case),
        _ => Err("no such kind".into()),
    });
}
