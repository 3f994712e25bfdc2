//! Modules and their parameters: what rows of the page of deviations say that Burn does.

use burn::module::{Lora, Module, ModuleMapper, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_cases::serve;
use serde_json::{Value, json};

#[derive(Module, Debug)]
struct Net {
    dropout: Dropout,
    first: Linear,
    second: Linear,
}

#[derive(Module, Debug)]
struct Odd {
    count: Param<Tensor<1, Int>>,
    size: Option<usize>,
    absent: Option<Linear>,
    layers: Vec<Linear>,
}

fn net(device: &Device) -> Net {
    Net {
        dropout: DropoutConfig::new(0.5).init(),
        first: LinearConfig::new(2, 2).init(device),
        second: LinearConfig::new(2, 2).init(device),
    }
}

/// What a traversal meets: paths of parameters, and of modules.
#[derive(Default)]
struct Walk {
    path: Vec<String>,
    modules: Vec<String>,
    params: Vec<(String, String)>,
}

impl Walk {
    fn met<const D: usize>(&mut self, id: ParamId) {
        self.params.push((self.path.join("."), format!("{id} {D}")));
    }
}

impl ModuleVisitor for Walk {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.met::<D>(param.id);
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.met::<D>(param.id);
    }
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
        self.modules.push(self.path.join("."));
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}

fn walk<M: Module>(module: &M) -> Walk {
    let mut found = Walk::default();
    module.visit(&mut found);
    found
}

fn ids<M: Module>(module: &M) -> Vec<String> {
    walk(module).params.into_iter().map(|it| it.1).collect()
}

fn drops(net: &Net, device: &Device) -> bool {
    let x = Tensor::<2>::ones([64, 64], device);
    net.dropout
        .forward(x)
        .equal_elem(0.0)
        .any()
        .into_scalar::<bool>()
}

fn trainable(layer: &Linear) -> bool {
    layer.weight.val().is_require_grad()
}

fn refusal<T, E: std::fmt::Debug>(result: Result<T, E>) -> Value {
    json!(result.err().map(|it| format!("{it:?}")))
}

struct Double;

impl ModuleMapper for Double {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        Param::from_mapped_value(id, tensor * 2.0, mapper)
    }
}

fn answer(case: &Value) -> Result<Value, String> {
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    Ok(match case["row"].as_str().expect("a row") {
        "dropout" => {
            let net = net(&device);
            json!({ "autodiff": drops(&net, &device), "valid": drops(&net.valid(), &plain),
                    "frozen": drops(&net.clone().freeze(), &device), "no_grad": drops(&net.no_grad(), &device) })
        }
        "valid" => {
            let before = net(&device);
            let (valid, same) = (before.valid(), ids(&before.valid()) == ids(&before));
            let after = before.map(&mut Double);
            let gap = after.first.weight.val().inner() - valid.first.weight.val() * 2.0;
            json!({ "same ids": same, "gap": gap.abs().max().into_scalar::<f32>(),
                    "largest": valid.first.weight.val().abs().max().into_scalar::<f32>() })
        }
        "copies" => {
            let net = net(&device);
            let expected = ids(&net);
            let moved = net.clone().to_device(&device);
            json!({ "to_device": ids(&moved) == expected, "fork": ids(&net.clone().fork(&device)) == expected,
                    "forked trainable": trainable(&net.clone().fork(&device).first),
                    "map": ids(&net.map(&mut Double)) == expected })
        }
        "tied" => {
            let mut net = net(&device);
            net.second = net.first.clone();
            let y = net.first.forward(Tensor::<2>::ones([1, 2], &device));
            let loss = net.first.forward(Tensor::<2>::zeros([1, 2], &device)).sum()
                + net.second.forward(y).sum();
            let grads = GradientsParams::from_grads(loss.backward(), &net);
            let mut names = ids(&net);
            let visited = names.len();
            names.sort();
            names.dedup();
            let gradients = grads.len();
            let before = net.first.weight.val();
            let net = SgdConfig::new().init().step(1.0, net, grads);
            let moved = |layer: &Linear| {
                !layer
                    .weight
                    .val()
                    .equal(before.clone())
                    .all()
                    .into_scalar::<bool>()
            };
            json!({ "visited": visited, "ids": names.len(), "gradients": gradients,
                    "stepped": [moved(&net.first), moved(&net.second)] })
        }
        "moved" => {
            let mut net = net(&device);
            let id = net.second.weight.id;
            net.first.weight = net.second.weight.clone();
            json!({ "kept": net.first.weight.id == id })
        }
        "new ids" => json!({ "ids": ids(&net(&device)) }),
        "odd" => {
            let odd = Odd {
                count: Param::initialized(ParamId::new(), Tensor::from_ints([1, 2, 3], &device)),
                size: Some(3),
                absent: None,
                layers: vec![],
            };
            let found = walk(&odd);
            let paths: Vec<_> = found.params.iter().map(|it| it.0.clone()).collect();
            json!({ "parameters": paths, "numbers": odd.num_params(), "modules": found.modules, "display": format!("{odd}") })
        }
        "lazy" => {
            let layer = LinearConfig::new(2, 2).init(&device);
            let before = layer.weight.is_initialized();
            let _ = layer.weight.val();
            json!({ "before": before, "after": layer.weight.is_initialized() })
        }
        "groups" => {
            let none = net(&device).freeze_group(ParamGroup::from_path("first.wieght"));
            let some = net(&device).freeze_group(ParamGroup::from_path("first.weight"));
            json!({ "of a typing mistake": trainable(&none.first), "of a path": trainable(&some.first),
                    "lookahead": refusal(ParamGroup::from_regex("a(?=b)")), "plain": refusal(ParamGroup::from_regex("a+b")) })
        }
        "lora" => {
            let net = net(&device)
                .apply_lora(Lora::new(2, 4.0).set_param_group(ParamGroup::from_predicate("bias")));
            let of_bias = (net.first.weight.adapter().is_some(), trainable(&net.first));
            let net = self::net(&device).apply_lora(Lora::new(2, 4.0));
            let paths: Vec<_> = walk(&net).params.into_iter().map(|it| it.0).collect();
            json!({ "an adapter of a bias": of_bias.0, "paths": paths })
        }
        other => panic!("no row {other}"),
    })
}

fn main() {
    serve(answer);
}
