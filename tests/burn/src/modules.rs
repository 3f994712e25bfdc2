//! Modules of a case: built of a config and a burnpack, called in evaluation and in training, with all gradients.

use std::cell::RefCell;
use std::fmt::Display;

use burn::config::Config;
use burn::module::{Module, ModuleVisitor, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Bool, Device, Gradients, Int, Tensor, TensorData};
use serde_json::{Map, Value, json};

use crate::{data_of, dtype_of, value_of};

type Leaf = (String, Box<dyn Fn(&Gradients) -> Option<TensorData>>);

/// The inputs of a call by name, and what it gives.
pub struct Call<'a> {
    case: &'a Value,
    pub device: Device,
    tracked: bool,
    leaves: RefCell<Vec<Leaf>>,
    outputs: RefCell<Vec<Value>>,
    total: RefCell<Option<Tensor<1>>>,
}

impl<'a> Call<'a> {
    pub fn new(case: &'a Value, tracked: bool) -> Self {
        let device = if tracked {
            Device::flex().autodiff()
        } else {
            Device::flex()
        };
        Self {
            case,
            device,
            tracked,
            leaves: Default::default(),
            outputs: Default::default(),
            total: Default::default(),
        }
    }

    /// The number of dimensions of an input.
    pub fn rank(&self, name: &str) -> usize {
        self.case["inputs"][name]["shape"]
            .as_array()
            .expect("an input")
            .len()
    }

    /// An input whose gradient is asked for, in training.
    pub fn float<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.maybe_float(name)
            .unwrap_or_else(|| panic!("no input {name}"))
    }

    pub fn maybe_float<const D: usize>(&self, name: &str) -> Option<Tensor<D>> {
        let value = self.case["inputs"].get(name)?;
        let tensor = Tensor::<D>::from_data(
            data_of(value),
            (
                &self.device,
                dtype_of(value["dtype"].as_str().expect("a dtype")),
            ),
        );
        if !self.tracked {
            return Some(tensor);
        }
        let leaf = tensor.require_grad();
        let same = leaf.clone();
        let gradient = move |gradients: &Gradients| same.grad(gradients).map(|it| it.into_data());
        self.leaves
            .borrow_mut()
            .push((name.to_string(), Box::new(gradient)));
        Some(leaf)
    }

    pub fn int<const D: usize>(&self, name: &str) -> Tensor<D, Int> {
        Tensor::from_data(data_of(&self.case["inputs"][name]), &self.device)
    }

    pub fn maybe_bool<const D: usize>(&self, name: &str) -> Option<Tensor<D, Bool>> {
        self.case["inputs"]
            .get(name)
            .map(|it| Tensor::from_data(data_of(it), &self.device))
    }

    /// Takes an output. What is differentiated is the sum of all of them, each times the case's weights for it.
    pub fn output<const D: usize>(&self, tensor: Tensor<D>) {
        let index = self.outputs.borrow().len();
        self.outputs.borrow_mut().push(value_of(&tensor.to_data()));
        if self.tracked {
            let weights =
                Tensor::<D>::from_data(data_of(&self.case["weights"][index]), &self.device);
            let part = (tensor * weights).sum();
            let total = self.total.take();
            *self.total.borrow_mut() = Some(match total {
                None => part,
                Some(before) => before + part,
            });
        }
    }

    fn values(&self) -> Value {
        Value::Array(self.outputs.take())
    }

    /// The gradients of the inputs and of a module's parameters, by name and by path.
    fn gradients<M: Module>(&self, module: &M) -> (Value, Value) {
        let Some(total) = self.total.take().filter(|it| it.is_tracked()) else {
            return (json!({}), json!({}));
        };
        let gradients = total.backward();
        let leaves = self.leaves.take();
        let inputs: Map<String, Value> = leaves
            .iter()
            .filter_map(|(name, gradient)| {
                gradient(&gradients).map(|it| (name.clone(), value_of(&it)))
            })
            .collect();
        let mut visitor = OfParameters {
            path: vec![],
            gradients: &gradients,
            by_path: Map::new(),
        };
        module.visit(&mut visitor);
        (Value::Object(inputs), Value::Object(visitor.by_path))
    }
}

struct OfParameters<'a> {
    path: Vec<String>,
    gradients: &'a Gradients,
    by_path: Map<String, Value>,
}

impl ModuleVisitor for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.gradients) {
            self.by_path
                .insert(self.path.join("."), value_of(&gradient.into_data()));
        }
    }

    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
}

/// The config of a case.
pub fn config<C: Config>(case: &Value) -> Result<C, String> {
    C::load_binary(case["config"].to_string().as_bytes()).map_err(|it| it.to_string())
}

/// Calls a module in evaluation with the record `after`, and in training with the record `before`; saves it to `saved`.
pub fn answer<M: Module + Display>(
    case: &Value,
    make: impl Fn(&Device) -> M,
    forward: impl Fn(&M, &Call),
) -> Result<Value, String> {
    let of = |call: &Call, record: &str| -> Result<M, String> {
        let Some(path) = case[record].as_str() else {
            return Ok(make(&call.device));
        };
        let record = ModuleRecord::load(path).map_err(|it| it.to_string())?;
        let record = if case["cast"] == true {
            record.cast_to_module_dtype()
        } else {
            record
        };
        make(&call.device)
            .try_load_record(record)
            .map_err(|it| it.to_string())
    };
    let call = Call::new(case, false);
    let module = of(&call, "after")?;
    let display = module.to_string();
    forward(&module, &call);
    let evaluation = call.values();
    if case["training"] == false {
        return Ok(json!({ "display": display, "evaluation": evaluation }));
    }
    let call = Call::new(case, true);
    let module = of(&call, "before")?;
    forward(&module, &call);
    let (inputs, parameters) = call.gradients(&module);
    if let Some(path) = case["saved"].as_str() {
        // Statistics that are kept while training are written by `valid`.
        module
            .valid()
            .save_file(path)
            .map_err(|it| it.to_string())?;
    }
    Ok(json!({
        "display": display,
        "evaluation": evaluation,
        "training": call.values(),
        "inputs": inputs,
        "parameters": parameters,
    }))
}
