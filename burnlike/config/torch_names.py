"""What torch and others call the fields of configs: whoever writes these names is told ours."""

OUR_NAMES = {
    "betas": ("beta_1",),
    "dim": ("d_model",),
    "dim_feedforward": ("d_ff",),
    "embed_dim": ("d_model",),
    "embedding_dim": ("d_model",),
    "eps": ("epsilon",),
    "hidden_size": ("d_hidden", "d_model"),
    "in_channels": ("channels",),
    "in_features": ("d_input",),
    "input_size": ("d_input",),
    "intermediate_size": ("d_ff",),
    "learning_rate": ("lr", "initial_lr"),
    "lr": ("initial_lr",),
    "max_epochs": ("epochs",),
    "mode": ("direction",),
    "monitor": ("metric",),
    "n_embd": ("d_model",),
    "n_head": ("n_heads",),
    "nhead": ("n_heads",),
    "normalized_shape": ("d_model",),
    "num_attention_heads": ("n_heads",),
    "num_embeddings": ("n_embedding",),
    "num_epochs": ("epochs",),
    "num_heads": ("n_heads",),
    "num_hidden_layers": ("n_layers",),
    "num_layers": ("n_layers",),
    "out_channels": ("channels",),
    "out_features": ("d_output",),
    "p": ("prob",),
    "patience": ("n_epochs",),
}
"""The names of fields that each may mean, the likeliest first."""

ELEMENT_TYPES = {
    "double": "float64",
    "float": "float32",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
    "single": "float32",
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
