"""What torch and others call the fields of configs: whoever writes these names is told ours."""

_OTHER_FIELDS = {
    "beta_1": "betas",
    "d_hidden": "hidden_size",
    "d_model": "hidden_size dim embed_dim embedding_dim n_embd normalized_shape",
    "d_ff": "dim_feedforward intermediate_size",
    "epsilon": "eps",
    "channels": "in_channels out_channels",
    "d_input": "in_features input_size",
    "d_output": "out_features",
    "lr": "learning_rate",
    "initial_lr": "learning_rate lr",
    "epochs": "max_epochs num_epochs",
    "n_epochs": "patience",
    "direction": "mode",
    "metric": "monitor",
    "n_heads": "n_head nhead num_attention_heads num_heads",
    "n_embedding": "num_embeddings",
    "n_layers": "num_hidden_layers num_layers",
    "prob": "p",
}
OUR_NAMES: dict[str, tuple[str, ...]] = {}
"""The names of fields that each may mean, the likeliest first."""
for _ours, _theirs in _OTHER_FIELDS.items():
    OUR_NAMES |= {name: (*OUR_NAMES.get(name, ()), _ours) for name in _theirs.split()}

ELEMENT_TYPES = {
    **dict.fromkeys(("double", "fp64"), "float64"),
    **dict.fromkeys(("float", "fp32", "single"), "float32"),
    **dict.fromkeys(("half", "fp16"), "float16"),
}
"""Names of element types that are none of burnlike's."""

_OTHER_NAMES = {
    "AdaptiveAvgPool2d": "globalaveragepooling2d",
    "BatchNorm": "batchnorm1d batchnorm2d batchnorm3d syncbatchnorm",
    "BinaryCrossEntropyLoss": "bceloss bcewithlogitsloss",
    "Concat": "cat concatenate",
    "CosineAnnealing": "cosineannealinglr",
    "Divide": "div",
    "EncoderDecoder": "transformer",
    "Fold4d": "fold",
    "Gru": "grucell",
    "HardSigmoid": "hsigmoid",
    "HardSwish": "hardsilu hswish",
    "InstanceNorm": "instancenorm1d instancenorm2d instancenorm3d",
    "Interpolate2d": "upsample upsamplingbilinear2d upsamplingnearest2d",
    "Linear": "dense fullyconnected",
    "LpLoss": "l1loss",
    "Lstm": "lstmcell",
    "MatMul": "bmm",
    "Multiply": "mul",
    "Negate": "neg",
    "Pad": (
        "constantpad1d constantpad2d constantpad3d reflectionpad1d reflectionpad2d reflectionpad3d "
        "replicationpad1d replicationpad2d replicationpad3d zeropad1d zeropad2d zeropad3d"
    ),
    "Permute": "transpose",
    "Reshape": "unflatten unsqueeze squeeze view",
    "Rnn": "rnnbase rnncell",
    "SiLU": "swish",
    "Subtract": "sub",
    "TransformerDecoder": "transformerdecoderlayer",
    "TransformerEncoder": "transformerencoderlayer",
    "Unfold4d": "unfold",
}
OUR_TYPES = {name: ours for ours, names in _OTHER_NAMES.items() for name in names.split()}
"""Types by other names, in small letters, that torch, Keras and papers have for them."""

_WITHOUT_TYPE = (
    "adaptivelogsoftmaxwithloss adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d alphadropout avgpool3d "
    "bilinear channelshuffle circularpad1d circularpad2d circularpad3d container crossmaplrn2d dataparallel "
    "dropout1d dropout2d dropout3d embeddingbag featurealphadropout fractionalmaxpool2d fractionalmaxpool3d "
    "linearcrossentropyloss logsoftmax lppool1d lppool2d lppool3d maxunpool1d maxunpool2d maxunpool3d module "
    "moduledict modulelist multilabelmarginloss multilabelsoftmarginloss nllloss nllloss2d parameterdict "
    "parameterlist rnncellbase softmax2d softmin tripletmarginwithdistanceloss"
)
OTHER_FUNCTIONS = frozenset(_WITHOUT_TYPE.split())
"""Layers of torch, in small letters, that no type computes: one of a similar name is not meant."""
