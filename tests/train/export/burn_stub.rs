//! The names and signatures of Burn 0.22 that generated code uses, read from burn-nn's source: to check types without Burn.
//! Nothing here computes.
#![allow(unused_variables, dead_code, unused_imports)]

macro_rules! signatures {
    ($($(#[$m:meta])* fn $f:ident $(<const $d:ident: usize>)? (&self $(, $a:ident: $t:ty)*) -> $r:ty;)*) => {
        $(pub fn $f $(<const $d: usize>)? (&self $(, $a: $t)*) -> $r { todo!() })*
    };
}
macro_rules! layer {
    ($n:ident $c:ident($($a:ident: $t:ty),*) [$(fn $w:ident($o:ty);)*] init($($v:ident: $vt:ty)?) $($f:tt)*) => {
        pub struct $c;
        impl $c {
            pub fn new($($a: $t),*) -> Self { $c }
            $(pub fn $w(self, value: $o) -> Self { self })*
            pub fn init(self $(, $v: $vt)?) -> $n { $n }
        }
        #[derive(Debug)]
        pub struct $n;
        impl $n { signatures! { $($f)* } }
        impl crate::module::Module for $n {}
    };
}
macro_rules! plain {
    ($n:ident($($a:ident: $t:ty)?) $($f:tt)*) => {
        #[derive(Debug)]
        pub struct $n;
        impl $n { pub fn new($($a: $t)?) -> Self { $n } signatures! { $($f)* } }
        impl crate::module::Module for $n {}
    };
}

pub mod tensor {
    use std::ops;
    pub use crate::s;
    #[derive(Clone, Debug)]
    pub struct Device;
    #[derive(Clone, Debug)]
    pub struct Float;
    #[derive(Clone, Debug)]
    pub struct Int;
    #[derive(Clone, Debug)]
    pub struct Bool;
    #[derive(Clone, Debug)]
    pub struct Tensor<const D: usize, K = Float>(std::marker::PhantomData<K>);
    pub trait AsIndex {}
    impl AsIndex for i32 {}
    impl AsIndex for usize {}
    impl AsIndex for isize {}
    pub struct Slice;
    impl<const D: usize, K> Tensor<D, K> {
        pub fn flatten<const E: usize>(self, start_dim: impl AsIndex, end_dim: impl AsIndex) -> Tensor<E, K> { todo!() }
        pub fn reshape<const E: usize>(self, shape: [i32; E]) -> Tensor<E, K> { todo!() }
        pub fn permute<I: AsIndex>(self, axes: [I; D]) -> Self { todo!() }
        pub fn squeeze_dims<const E: usize>(self, dims: &[impl AsIndex]) -> Tensor<E, K> { todo!() }
        pub fn squeeze_dim<const E: usize>(self, dim: impl AsIndex) -> Tensor<E, K> { todo!() }
        pub fn slice_dim(self, dim: impl AsIndex, slice: impl Into<Slice>) -> Self { todo!() }
        pub fn cat(tensors: Vec<Self>, dim: impl AsIndex) -> Self { todo!() }
        pub fn stack<const E: usize>(tensors: Vec<Self>, dim: impl AsIndex) -> Tensor<E, K> { todo!() }
        pub fn transpose(self) -> Self { todo!() }
        pub fn unsqueeze<const E: usize>(self) -> Tensor<E, K> { todo!() }
        pub fn mean_dims<I: AsIndex>(self, dims: &[I]) -> Self { todo!() }
        pub fn sum_dims<I: AsIndex>(self, dims: &[I]) -> Self { todo!() }
    }
    impl<const D: usize> Tensor<D> {
        pub fn matmul(self, other: Self) -> Self { todo!() }
        pub fn exp(self) -> Self { todo!() }
        pub fn log(self) -> Self { todo!() }
        pub fn sqrt(self) -> Self { todo!() }
        pub fn neg(self) -> Self { todo!() }
    }
    macro_rules! operator {
        ($($o:ident $f:ident)*) => {
            $(impl<const D: usize> ops::$o for Tensor<D> { type Output = Self; fn $f(self, other: Self) -> Self { todo!() } })*
        };
    }
    operator! { Add add Sub sub Mul mul Div div }
    pub mod activation {
        pub fn softmax<const D: usize>(tensor: super::Tensor<D>, dim: impl super::AsIndex) -> super::Tensor<D> { todo!() }
    }
}

#[macro_export]
macro_rules! s { ($r:expr) => {{ let _ = $r; burn::tensor::Slice }}; }

pub mod module {
    pub use burn_derive::Module;
    pub trait Module: Sized {
        fn load_record(self, record: crate::store::ModuleRecord) -> Self { self }
    }
    impl<M: Module> Module for Vec<M> {}
    #[derive(Debug)]
    pub struct Param<T>(pub T);
    impl<T: Clone> Param<T> { pub fn val(&self) -> T { self.0.clone() } }
    #[derive(Clone)]
    pub enum Initializer {
        Constant { value: f64 }, Ones, Zeros, Uniform { min: f64, max: f64 }, Normal { mean: f64, std: f64 },
        KaimingUniform { gain: f64, fan_out_only: bool }, KaimingNormal { gain: f64, fan_out_only: bool },
        XavierUniform { gain: f64 }, XavierNormal { gain: f64 }, Orthogonal { gain: f64 },
    }
}

pub mod store {
    pub struct ModuleRecord;
    #[derive(Debug)]
    pub struct RecordError;
    impl ModuleRecord {
        pub fn load<P: AsRef<std::path::Path>>(path: P) -> Result<Self, RecordError> { todo!() }
    }
}

pub mod nn {
    pub use crate::module::Initializer;
    use crate::tensor::{Bool, Device, Int, Tensor};
    pub use activation::{Celu, CeluConfig, Elu, EluConfig, GLU, Gelu, HardShrink, HardShrinkConfig, HardSigmoid, HardSigmoidConfig, LeakyRelu, LeakyReluConfig, PRelu, PReluConfig, Relu, Selu, Shrink, ShrinkConfig, Sigmoid, SoftShrink, SoftShrinkConfig, Softplus, SoftplusConfig, Softsign, SwiGlu, SwiGluConfig, Tanh, ThresholdedRelu, ThresholdedReluConfig};
    pub enum LinearLayout { Row, Col }
    pub enum PaddingConfig1d { Valid, Same, Explicit(usize, usize) }
    pub enum PaddingConfig2d { Valid, Same, Explicit(usize, usize, usize, usize) }
    pub enum PaddingConfig3d { Valid, Same, Explicit(usize, usize, usize) }
    #[derive(Debug, Clone)]
    pub struct LstmState<const D: usize> { pub cell: Tensor<D>, pub hidden: Tensor<D> }
    #[derive(Debug, Clone)]
    pub struct RnnState<const D: usize> { pub hidden: Tensor<D> }
    use activation::ActivationConfig;
    layer! { BatchNorm BatchNormConfig(num_features: usize) [fn with_epsilon(f64); fn with_momentum(f64);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { BiGru BiGruConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_reset_after(bool); fn with_initializer(Initializer); fn with_batch_first(bool); fn with_gate_activation(ActivationConfig); fn with_hidden_activation(ActivationConfig); fn with_clip(Option<f64>);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>); }
    layer! { BiLstm BiLstmConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_initializer(Initializer); fn with_batch_first(bool); fn with_clip(Option<f64>); fn with_input_forget(bool); fn with_gate_activation(ActivationConfig); fn with_cell_activation(ActivationConfig); fn with_hidden_activation(ActivationConfig);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<LstmState<3>>) -> (Tensor<3>, LstmState<3>); }
    layer! { BiRnn BiRnnConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_initializer(Initializer); fn with_batch_first(bool); fn with_clip(Option<f64>); fn with_hidden_activation(ActivationConfig);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<RnnState<3>>) -> (Tensor<3>, RnnState<3>); }
    layer! { CosineSimilarity CosineSimilarityConfig() [fn with_dim(isize); fn with_eps(f64);] init() fn forward(&self, x1: Tensor<2>, x2: Tensor<2>) -> Tensor<1>; }
    layer! { Dropout DropoutConfig(prob: f64) [] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { Fold4d Fold4dConfig(output_size: [usize; 2], kernel_size: [usize; 2]) [fn with_stride([usize; 2]); fn with_dilation([usize; 2]); fn with_padding([usize; 2]);] init() fn forward(&self, input: Tensor<3>) -> Tensor<4>; }
    layer! { GaussianNoise GaussianNoiseConfig(std: f64) [] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { GroupNorm GroupNormConfig(num_groups: usize, num_channels: usize) [fn with_epsilon(f64); fn with_affine(bool);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { Gru GruConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_reset_after(bool); fn with_initializer(Initializer); fn with_gate_activation(ActivationConfig); fn with_hidden_activation(ActivationConfig); fn with_clip(Option<f64>);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<Tensor<2>>) -> Tensor<3>; }
    layer! { InstanceNorm InstanceNormConfig(num_channels: usize) [fn with_epsilon(f64); fn with_affine(bool);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { LayerNorm LayerNormConfig(d_model: usize) [fn with_epsilon(f64); fn with_bias(bool);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { Linear LinearConfig(d_input: usize, d_output: usize) [fn with_bias(bool); fn with_initializer(Initializer); fn with_layout(LinearLayout);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { LocalResponseNorm LocalResponseNormConfig(size: usize) [fn with_alpha(f64); fn with_beta(f64); fn with_k(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    layer! { Lstm LstmConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_initializer(Initializer); fn with_batch_first(bool); fn with_reverse(bool); fn with_clip(Option<f64>); fn with_input_forget(bool); fn with_gate_activation(ActivationConfig); fn with_cell_activation(ActivationConfig); fn with_hidden_activation(ActivationConfig);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<LstmState<2>>) -> (Tensor<3>, LstmState<2>); }
    layer! { PairwiseDistance PairwiseDistanceConfig() [fn with_p(f64); fn with_eps(f64);] init() fn forward(&self, x1: Tensor<2>, x2: Tensor<2>) -> Tensor<1>; }
    layer! { PixelShuffle PixelShuffleConfig(upscale_factor: usize) [] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
    layer! { PixelUnshuffle PixelUnshuffleConfig(downscale_factor: usize) [] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
    layer! { PositionalEncoding PositionalEncodingConfig(d_model: usize) [fn with_max_sequence_size(usize); fn with_max_timescale(usize);] init(device: &Device) fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
    layer! { RmsNorm RmsNormConfig(d_model: usize) [fn with_epsilon(f64);] init(device: &Device) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>; }
    layer! { Rnn RnnConfig(d_input: usize, d_hidden: usize, bias: bool) [fn with_initializer(Initializer); fn with_batch_first(bool); fn with_reverse(bool); fn with_clip(Option<f64>); fn with_hidden_activation(ActivationConfig);] init(device: &Device) fn forward(&self, batched_input: Tensor<3>, state: Option<RnnState<2>>) -> (Tensor<3>, RnnState<2>); }
    layer! { RotaryEncoding RotaryEncodingConfig(max_sequence_length: usize, d_model: usize) [fn with_theta(f32);] init(device: &Device) fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>; }
    layer! { Unfold4d Unfold4dConfig(kernel_size: [usize; 2]) [fn with_stride([usize; 2]); fn with_dilation([usize; 2]); fn with_padding([usize; 2]);] init() fn forward(&self, input: Tensor<4>) -> Tensor<3>; }
    plain! { Identity() fn forward<const R: usize>(&self, input: Tensor<R>) -> Tensor<R>; }
    pub struct EmbeddingConfig;
    impl EmbeddingConfig {
        pub fn new(n_embedding: usize, d_model: usize) -> Self { Self }
        pub fn with_initializer(self, value: Initializer) -> Self { self }
        pub fn init(self, device: &Device) -> Embedding { todo!() }
    }
    #[derive(Debug)]
    pub struct Embedding { pub weight: crate::module::Param<Tensor<2>> }
    impl Embedding { pub fn forward(&self, input: Tensor<2, Int>) -> Tensor<3> { todo!() } }
    impl crate::module::Module for Embedding {}
    pub mod activation {
        use super::*;
        pub enum ActivationConfig {
            Identity, Gelu, GeluApproximate, PRelu(PReluConfig), Relu, LeakyRelu(LeakyReluConfig), SwiGlu(SwiGluConfig), Selu,
            Sigmoid, Tanh, HardSigmoid(HardSigmoidConfig), HardSwish, Softplus(SoftplusConfig), Softsign, Elu(EluConfig),
            Celu(CeluConfig), ThresholdedRelu(ThresholdedReluConfig),
        }
        impl Gelu { pub fn new_approximate() -> Self { Gelu } }
        layer! { Celu CeluConfig() [fn with_alpha(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { Elu EluConfig() [fn with_alpha(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { HardShrink HardShrinkConfig() [fn with_lambda(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { HardSigmoid HardSigmoidConfig() [fn with_alpha(f64); fn with_beta(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { Hardtanh HardtanhConfig() [fn with_min_val(f64); fn with_max_val(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { LeakyRelu LeakyReluConfig() [fn with_negative_slope(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { PRelu PReluConfig() [fn with_num_parameters(usize); fn with_alpha(f64);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { RRelu RReluConfig() [fn with_lower(f64); fn with_upper(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { Shrink ShrinkConfig() [fn with_lambda(f64); fn with_bias(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { SoftShrink SoftShrinkConfig() [fn with_lambda(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { Softplus SoftplusConfig() [fn with_beta(f64); fn with_threshold(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { SwiGlu SwiGluConfig(d_input: usize, d_output: usize) [fn with_bias(bool); fn with_initializer(Initializer); fn with_layout(LinearLayout);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { Threshold ThresholdConfig(threshold: f64, value: f64) [] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { ThresholdedRelu ThresholdedReluConfig() [fn with_alpha(f64);] init() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Relu() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Gelu() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Sigmoid() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Selu() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Softsign() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Tanh() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { HardSwish() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { LogSigmoid() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Mish() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Relu6() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { SiLU() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { Tanhshrink() fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        plain! { GLU(dim: i32) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
    }
    pub mod conv {
        use super::*;
        layer! { Conv1d Conv1dConfig(channels_in: usize, channels_out: usize, kernel_size: usize) [fn with_stride(usize); fn with_dilation(usize); fn with_groups(usize); fn with_padding(PaddingConfig1d); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { Conv2d Conv2dConfig(channels: [usize; 2], kernel_size: [usize; 2]) [fn with_stride([usize; 2]); fn with_dilation([usize; 2]); fn with_groups(usize); fn with_padding(PaddingConfig2d); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
        layer! { Conv3d Conv3dConfig(channels: [usize; 2], kernel_size: [usize; 3]) [fn with_stride([usize; 3]); fn with_dilation([usize; 3]); fn with_groups(usize); fn with_padding(PaddingConfig3d); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<5>) -> Tensor<5>; }
        layer! { ConvTranspose1d ConvTranspose1dConfig(channels: [usize; 2], kernel_size: usize) [fn with_stride(usize); fn with_dilation(usize); fn with_groups(usize); fn with_padding(usize); fn with_padding_out(usize); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { ConvTranspose2d ConvTranspose2dConfig(channels: [usize; 2], kernel_size: [usize; 2]) [fn with_stride([usize; 2]); fn with_dilation([usize; 2]); fn with_groups(usize); fn with_padding([usize; 2]); fn with_padding_out([usize; 2]); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
        layer! { ConvTranspose3d ConvTranspose3dConfig(channels: [usize; 2], kernel_size: [usize; 3]) [fn with_stride([usize; 3]); fn with_dilation([usize; 3]); fn with_groups(usize); fn with_padding([usize; 3]); fn with_padding_out([usize; 3]); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<5>) -> Tensor<5>; }
        layer! { DeformConv2d DeformConv2dConfig(channels: [usize; 2], kernel_size: [usize; 2]) [fn with_stride([usize; 2]); fn with_dilation([usize; 2]); fn with_weight_groups(usize); fn with_offset_groups(usize); fn with_padding(PaddingConfig2d); fn with_bias(bool); fn with_initializer(Initializer);] init(device: &Device) fn forward(&self, input: Tensor<4>, offset: Tensor<4>, mask: Option<Tensor<4>>) -> Tensor<4>; }
    }
    pub mod pool {
        use super::*;
        layer! { AdaptiveAvgPool1d AdaptiveAvgPool1dConfig(output_size: usize) [] init() fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { AdaptiveAvgPool2d AdaptiveAvgPool2dConfig(output_size: [usize; 2]) [] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
        layer! { AdaptiveAvgPool3d AdaptiveAvgPool3dConfig(output_size: [usize; 3]) [] init() fn forward(&self, input: Tensor<5>) -> Tensor<5>; }
        layer! { AvgPool1d AvgPool1dConfig(kernel_size: usize) [fn with_stride(usize); fn with_padding(PaddingConfig1d); fn with_count_include_pad(bool); fn with_ceil_mode(bool);] init() fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { AvgPool2d AvgPool2dConfig(kernel_size: [usize; 2]) [fn with_strides([usize; 2]); fn with_padding(PaddingConfig2d); fn with_count_include_pad(bool); fn with_ceil_mode(bool);] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
        layer! { MaxPool1d MaxPool1dConfig(kernel_size: usize) [fn with_stride(usize); fn with_padding(PaddingConfig1d); fn with_dilation(usize); fn with_ceil_mode(bool);] init() fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { MaxPool2d MaxPool2dConfig(kernel_size: [usize; 2]) [fn with_strides([usize; 2]); fn with_padding(PaddingConfig2d); fn with_dilation([usize; 2]); fn with_ceil_mode(bool);] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
    }
    pub mod attention {
        use super::*;
        pub struct MhaInput;
        impl MhaInput {
            pub fn self_attn(tensor: Tensor<3>) -> Self { Self }
            pub fn new(query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> Self { Self }
        }
        #[derive(Debug, Clone)]
        pub struct MhaOutput { pub weights: Tensor<4>, pub context: Tensor<3> }
        layer! { CrossAttention CrossAttentionConfig(d_model: usize, d_context: usize, n_heads: usize, n_heads_kv: usize, d_head: usize) [fn with_dropout(f64); fn with_min_float(f64); fn with_quiet_softmax(bool);] init(device: &Device) fn forward(&self, query: Tensor<3>, context: Tensor<3>, mask: Option<Tensor<2, Bool>>) -> Tensor<3>; }
        layer! { MultiHeadAttention MultiHeadAttentionConfig(d_model: usize, n_heads: usize) [fn with_dropout(f64); fn with_min_float(f64); fn with_quiet_softmax(bool); fn with_initializer(Initializer); fn with_key_bias(bool); fn with_value_bias(bool); fn with_query_bias(bool); fn with_output_bias(bool);] init(device: &Device) fn forward(&self, input: MhaInput) -> MhaOutput; }
    }
    pub mod transformer {
        use super::*;
        pub struct TransformerEncoderInput;
        impl TransformerEncoderInput { pub fn new(tensor: Tensor<3>) -> Self { Self } }
        pub struct TransformerDecoderInput;
        impl TransformerDecoderInput { pub fn new(target: Tensor<3>, memory: Tensor<3>) -> Self { Self } }
        layer! { PositionWiseFeedForward PositionWiseFeedForwardConfig(d_model: usize, d_ff: usize) [fn with_dropout(f64); fn with_initializer(Initializer); fn with_activation(ActivationConfig);] init(device: &Device) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D>; }
        layer! { TransformerDecoder TransformerDecoderConfig(d_model: usize, d_ff: usize, n_heads: usize, n_layers: usize) [fn with_dropout(f64); fn with_norm_first(bool); fn with_quiet_softmax(bool); fn with_initializer(Initializer); fn with_activation(ActivationConfig); fn with_layer_norm_eps(f64);] init(device: &Device) fn forward(&self, input: TransformerDecoderInput) -> Tensor<3>; }
        layer! { TransformerEncoder TransformerEncoderConfig(d_model: usize, d_ff: usize, n_heads: usize, n_layers: usize) [fn with_dropout(f64); fn with_norm_first(bool); fn with_quiet_softmax(bool); fn with_initializer(Initializer); fn with_activation(ActivationConfig); fn with_layer_norm_eps(f64);] init(device: &Device) fn forward(&self, input: TransformerEncoderInput) -> Tensor<3>; }
    }
    pub mod interpolate {
        use super::*;
        pub enum InterpolateMode { Nearest, NearestExact, Linear, Cubic, Lanczos }
        layer! { Interpolate1d Interpolate1dConfig() [fn with_output_size(Option<usize>); fn with_scale_factor(Option<f32>); fn with_mode(InterpolateMode); fn with_align_corners(bool);] init() fn forward(&self, input: Tensor<3>) -> Tensor<3>; }
        layer! { Interpolate2d Interpolate2dConfig() [fn with_output_size(Option<[usize; 2]>); fn with_scale_factor(Option<[f32; 2]>); fn with_mode(InterpolateMode); fn with_align_corners(bool);] init() fn forward(&self, input: Tensor<4>) -> Tensor<4>; }
    }
}
