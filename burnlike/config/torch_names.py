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
