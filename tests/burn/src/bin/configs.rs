//! Configs that are loaded from a file and saved to another one.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::lr_scheduler::composed::ComposedLrSchedulerConfig;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrSchedulerConfig;
use burn::lr_scheduler::noam::NoamLrSchedulerConfig;
use burn::lr_scheduler::sequential::SequentialLrSchedulerConfig;
use burn::lr_scheduler::step::StepLrSchedulerConfig;
use burn::nn::activation::*;
use burn::nn::attention::*;
use burn::nn::conv::*;
use burn::nn::gru::*;
use burn::nn::interpolate::*;
use burn::nn::loss::*;
use burn::nn::norm::NormalizationConfig;
use burn::nn::pool::*;
use burn::nn::transformer::*;
use burn::nn::*;
use burn::optim::momentum::MomentumConfig;
use burn::optim::*;
use burn_cases::serve;
use serde_json::{Value, json};

macro_rules! copied {
    ($case:expr, $($kind:ident),* $(,)?) => {
        match $case["kind"].as_str().expect("a kind") {
            $(stringify!($kind) => {
                let config = $kind::load($case["from"].as_str().expect("a path")).map_err(|it| it.to_string())?;
                config.save($case["to"].as_str().expect("a path")).map_err(|it| it.to_string())?;
            })*
            other => panic!("no config {other}"),
        }
    };
}

fn answer(case: &Value) -> Result<Value, String> {
    copied!(
        case,
        ActivationConfig,
        AdaGradConfig,
        AdafactorConfig,
        AdamConfig,
        AdamWConfig,
        AdanConfig,
        AdaptiveAvgPool1dConfig,
        AdaptiveAvgPool2dConfig,
        AdaptiveAvgPool3dConfig,
        AvgPool1dConfig,
        AvgPool2dConfig,
        BatchNormConfig,
        BiGruConfig,
        BiLstmConfig,
        BiRnnConfig,
        BinaryCrossEntropyLossConfig,
        CTCLossConfig,
        CeluConfig,
        ComposedLrSchedulerConfig,
        Conv1dConfig,
        Conv2dConfig,
        Conv3dConfig,
        ConvTranspose1dConfig,
        ConvTranspose2dConfig,
        ConvTranspose3dConfig,
        CosineAnnealingLrSchedulerConfig,
        CosineEmbeddingLossConfig,
        CosineSimilarityConfig,
        CrossAttentionConfig,
        CrossEntropyLossConfig,
        DeformConv2dConfig,
        DropoutConfig,
        EluConfig,
        EmbeddingConfig,
        ExponentialLrSchedulerConfig,
        GaussianNLLLossConfig,
        GaussianNoiseConfig,
        GradientClippingConfig,
        GroupNormConfig,
        GruConfig,
        HardShrinkConfig,
        HardSigmoidConfig,
        HardtanhConfig,
        HingeEmbeddingLossConfig,
        HuberLossConfig,
        Initializer,
        InstanceNormConfig,
        Interpolate1dConfig,
        Interpolate2dConfig,
        KLDivLossConfig,
        LBFGSConfig,
        LambConfig,
        LayerNormConfig,
        LeakyReluConfig,
        LinearConfig,
        LinearLrSchedulerConfig,
        LionConfig,
        LocalResponseNormConfig,
        LpLossConfig,
        LstmConfig,
        MarginRankingLossConfig,
        MaxPool1dConfig,
        MaxPool2dConfig,
        ModuleLrSchedulerConfig,
        MomentumConfig,
        MultiHeadAttentionConfig,
        MultiMarginLossConfig,
        MuonConfig,
        NoamLrSchedulerConfig,
        NormalizationConfig,
        PReluConfig,
        PairwiseDistanceConfig,
        PixelShuffleConfig,
        PixelUnshuffleConfig,
        PoissonNllLossConfig,
        PositionWiseFeedForwardConfig,
        PositionalEncodingConfig,
        RNNTLossConfig,
        RReluConfig,
        RmsNormConfig,
        RmsPropConfig,
        RnnConfig,
        RotaryEncodingConfig,
        SequentialLrSchedulerConfig,
        SgdConfig,
        ShrinkConfig,
        SmoothL1LossConfig,
        SoftShrinkConfig,
        SoftplusConfig,
        StepLrSchedulerConfig,
        SwiGluConfig,
        ThresholdConfig,
        ThresholdedReluConfig,
        TransformerDecoderConfig,
        TransformerEncoderConfig,
        TripletMarginLossConfig,
        Unfold4dConfig,
        Fold4dConfig,
    );
    Ok(json!({}))
}

fn main() {
    serve(answer);
}
