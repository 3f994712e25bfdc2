//! Arguments of a case, and what an operation returns.

use std::cell::RefCell;

use burn::tensor::kind::{Basic, Kind};
use burn::tensor::{Bool, DType, Device, Element, ElementConversion, Float, Gradients, Int, Slice, Tensor, TensorData};
use burn_cases::{data_of, dtype_of, value_of};
use serde_json::{Value, json};

type Gradient = Box<dyn Fn(&Gradients) -> Option<Value>>;

/// An operation's arguments. Float tensors among them are leaves where gradients are asked for.
pub struct Case<'a> {
    pub fields: &'a Value,
    pub args: &'a [Value],
    pub device: Device,
    tracked: bool,
    leaves: RefCell<Vec<Gradient>>,
}

/// A result, and its weighted sum for gradients.
pub struct Out {
    pub value: Value,
    loss: Option<Tensor<1>>,
}

pub type Outs = Vec<Out>;

/// A kind of tensors, the numbers beside them, and their place among the arguments.
pub trait Kinded: Basic + Sized {
    type Number: ElementConversion + Element + Copy;

    fn number(value: &Value) -> Self::Number;
    fn leaf<const D: usize>(tensor: Tensor<D, Self>, case: &Case) -> Tensor<D, Self>;
    fn out<const D: usize>(tensor: Tensor<D, Self>) -> Out;
}

impl Kinded for Float {
    type Number = f64;

    fn number(value: &Value) -> f64 {
        float_of(value)
    }

    fn leaf<const D: usize>(tensor: Tensor<D>, case: &Case) -> Tensor<D> {
        if !case.tracked {
            return tensor;
        }
        let leaf = tensor.require_grad();
        let kept = leaf.clone();
        case.leaves.borrow_mut().push(Box::new(move |grads| Some(value_of(&kept.grad(grads)?.into_data()))));
        leaf
    }

    fn out<const D: usize>(tensor: Tensor<D>) -> Out {
        let loss = tensor.is_tracked().then(|| {
            let weights = (0..tensor.shape().num_elements()).map(|at| ((at * 7) % 11) as f32 / 4.0 - 1.0).collect();
            let weights = TensorData::new::<f32, _>(weights, tensor.shape());
            let weights = Tensor::<D>::from_data(weights, (&tensor.device(), tensor.dtype()));
            tensor.clone().mul(weights).sum()
        });
        Out { value: value_of(&tensor.into_data()), loss }
    }
}

impl Kinded for Int {
    type Number = i64;

    fn number(value: &Value) -> i64 {
        value.as_i64().unwrap_or_else(|| value.as_u64().expect("an integer") as i64)
    }

    fn leaf<const D: usize>(tensor: Tensor<D, Int>, _case: &Case) -> Tensor<D, Int> {
        tensor
    }

    fn out<const D: usize>(tensor: Tensor<D, Int>) -> Out {
        Out { value: value_of(&tensor.into_data()), loss: None }
    }
}

impl Kinded for Bool {
    type Number = bool;

    fn number(value: &Value) -> bool {
        value.as_bool().expect("true or false")
    }

    fn leaf<const D: usize>(tensor: Tensor<D, Bool>, _case: &Case) -> Tensor<D, Bool> {
        tensor
    }

    fn out<const D: usize>(tensor: Tensor<D, Bool>) -> Out {
        let mut value = value_of(&tensor.into_data());
        value["dtype"] = json!("bool"); // that of a selection says u8
        Out { value, loss: None }
    }
}

impl<'a> Case<'a> {
    pub fn new(fields: &'a Value, device: Device) -> Self {
        let tracked = fields["grad"].as_bool().unwrap_or(false);
        let device = if tracked { device.autodiff() } else { device };
        Case {
            fields,
            args: fields["args"].as_array().expect("arguments"),
            device,
            tracked,
            leaves: Default::default(),
        }
    }

    pub fn op(&self) -> &'a str {
        self.fields["op"].as_str().expect("an operation")
    }

    /// The rank that the result has in its type.
    pub fn rank(&self) -> usize {
        self.fields["rank"].as_u64().expect("a rank") as usize
    }

    pub fn kind(&self) -> Kind {
        match self.fields["kind"].as_str().expect("a kind") {
            "Float" => Kind::Float,
            "Int" => Kind::Int,
            _ => Kind::Bool,
        }
    }

    pub fn tensor<const D: usize, K: Kinded>(&self, at: usize) -> Tensor<D, K> {
        self.read(&self.args[at])
    }

    pub fn read<const D: usize, K: Kinded>(&self, value: &Value) -> Tensor<D, K> {
        let data = data_of(value);
        let dtype = data.dtype();
        K::leaf(Tensor::from_data(data, (&self.device, dtype)), self)
    }

    pub fn optional<const D: usize, K: Kinded>(&self, at: usize) -> Option<Tensor<D, K>> {
        (!self.args[at].is_null()).then(|| self.tensor(at))
    }

    pub fn several<const D: usize, K: Kinded>(&self, at: usize) -> Vec<Tensor<D, K>> {
        self.list(at).iter().map(|it| self.read(it)).collect()
    }

    pub fn list(&self, at: usize) -> &'a [Value] {
        self.args[at].as_array().expect("a list")
    }

    pub fn rank_of(&self, at: usize) -> usize {
        self.args[at]["shape"].as_array().expect("a tensor").len()
    }

    pub fn number<K: Kinded>(&self, at: usize) -> K::Number {
        K::number(&self.args[at])
    }

    pub fn int(&self, at: usize) -> i64 {
        Int::number(&self.args[at])
    }

    pub fn size(&self, at: usize) -> usize {
        usize::try_from(self.int(at)).expect("a size")
    }

    pub fn float(&self, at: usize) -> f64 {
        float_of(&self.args[at])
    }

    pub fn optional_float(&self, at: usize) -> Option<f64> {
        self.args.get(at).filter(|it| !it.is_null()).map(float_of)
    }

    pub fn flag(&self, at: usize) -> bool {
        self.args[at].as_bool().expect("true or false")
    }

    pub fn word(&self, at: usize) -> &'a str {
        self.args[at].as_str().expect("a word")
    }

    pub fn ints(&self, at: usize) -> Vec<i64> {
        self.list(at).iter().map(Int::number).collect()
    }

    pub fn sizes(&self, at: usize) -> Vec<usize> {
        sizes_of(&self.args[at])
    }

    pub fn dims<const N: usize>(&self, at: usize) -> [i64; N] {
        self.ints(at).try_into().expect("as many integers as the type says")
    }

    pub fn fixed<const N: usize>(&self, at: usize) -> [usize; N] {
        self.sizes(at).try_into().expect("as many sizes as the type says")
    }

    pub fn dtype(&self, at: usize) -> DType {
        dtype_of(self.word(at))
    }

    pub fn slices(&self, at: usize) -> Vec<Slice> {
        self.list(at).iter().map(slice_of).collect()
    }

    /// Gradients of the sum of all results, weighted, for each leaf.
    pub fn gradients(&self, outs: &[Out]) -> Value {
        let losses = outs.iter().filter_map(|out| out.loss.clone());
        let Some(loss) = losses.reduce(|one, other| one.add(other)) else {
            return Value::Null;
        };
        let grads = loss.backward();
        self.leaves.borrow().iter().map(|leaf| leaf(&grads)).collect()
    }
}

pub fn slice_of(value: &Value) -> Slice {
    let part = |at: usize| value[at].as_i64().map(|it| it as isize);
    Slice::new(part(0).expect("a start"), part(1), part(2).expect("a step"))
}

pub fn sizes_of(value: &Value) -> Vec<usize> {
    let sizes = value.as_array().expect("a list").iter();
    sizes.map(|it| usize::try_from(Int::number(it)).expect("a size")).collect()
}

/// A number that may be one of those that JSON lacks.
pub fn float_of(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().expect("a number").parse().expect("a number"))
}

pub fn plain(value: impl Into<Value>) -> Outs {
    vec![Out { value: value.into(), loss: None }]
}

pub fn one<const D: usize, K: Kinded>(tensor: Tensor<D, K>) -> Outs {
    vec![K::out(tensor)]
}

pub fn two<const D: usize, const E: usize, K: Kinded, L: Kinded>((left, right): (Tensor<D, K>, Tensor<E, L>)) -> Outs {
    vec![K::out(left), L::out(right)]
}

pub fn all<const D: usize, K: Kinded>(tensors: impl IntoIterator<Item = Tensor<D, K>>) -> Outs {
    tensors.into_iter().map(K::out).collect()
}

/// Takes `$body` with the rank `$n` as the constant `$R`.
#[macro_export]
macro_rules! with_rank {
    ($n:expr, $R:ident, $body:expr) => {
        match $n {
            1 => {
                const $R: usize = 1;
                $body
            }
            2 => {
                const $R: usize = 2;
                $body
            }
            3 => {
                const $R: usize = 3;
                $body
            }
            4 => {
                const $R: usize = 4;
                $body
            }
            rank => panic!("rank {rank} is not among the cases"),
        }
    };
}
