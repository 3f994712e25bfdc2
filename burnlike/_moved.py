"""Finds modules that have moved, for pickles of older versions.

A pickle names a class by the module that defined it.
"""

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Folder: what was beside it and is in it now, as far as pickles can name it; `old>new` where the name changed, too.
_FOLDERS = """
data: text_config>configs
module.adapters: lora_config>configs lora parametrized reparameterization weight_norm
module.containers: named_containers>mappings held>user_containers
module.groups: param_group param_matchers
module.identity: constants slots>field_metadata lazy>lazy_parameter param_id
module.printing: displaying>display display_settings>settings
module.transforms: mapping modes moving>placement visiting
module.tree: ranks>id_agreement param registry>walk
nn.activation: swiglu_config>configs swiglu
nn.attention: causal_attention causal_attention_config>configs rotary_encoding_config>configs rotary_encoding
nn.dropout: dropout_config>configs
nn.embedding: embedding_config>configs
nn.initializers: initializer_config>configs initializer>initialize
nn.linear: linear_config>configs
nn.norm: rms_norm_config>configs rms_norm
ops: step_options>_step_lists
optim.core: treatment>gradient_transform ranks>step_checks state
optim.gradients: clipping clipping_config>configs gradients_accumulator multi_gradients>gradients
optim.lbfgs: lbfgs_config>configs lbfgs_flat>flat_parameters lbfgs_state>state
optim.rules: adafactor adagrad adam adamw adan adaptive_momentum adaptive_momentum_config>config_base
  module_optimizer_config>config_base momentum_config>config_base adafactor_config>configs adagrad_config>configs
  adam_config>configs adamw_config>configs adan_config>configs lamb_config>configs lion_config>configs
  muon_config>configs rmsprop_config>configs schedule_free_adamw_config>configs sgd_config>configs foreach_optimizer
  lamb lion moments muon rmsprop rule_set schedule_free_adamw sgd simple_optimizer
optim.schedules: composed_lr>combined sequential_lr>combined warmup_lr>combined composed_lr_config>combined_configs
  module_lr_scheduler_config>combined_configs sequential_lr_config>combined_configs warmup_lr_config>combined_configs
  constant_lr_config>configs cosine_annealing_config>configs exponential_lr_config>configs linear_lr_config>configs
  noam_lr_config>configs step_lr_config>configs learning_rates lr_scheduler lr_records>records
  module_lr_scheduler>combined constant_lr>simple cosine_annealing>simple exponential_lr>simple linear_lr>simple
  noam_lr>simple step_lr>simple
optim.states: optimizer_report>matching state_keeper>persistence kept_states>store torch_records torch_rules
optim.step: adaptor runs>batches skipped_steps>step_plan
tensor.activation: activation_shrink>pointwise activation_softmax>softmaxes
tensor.core: base dtypes kinds slices spec
tensor.host: data distribution tolerance
tensor.inspection: display transaction>reading
tensor.linalg: linalg_decompositions>decompositions einsum linalg_norms>norms linalg_products>products
tensor.module: module_conv>convolutions module_interpolate>interpolation module_layers>layers module_pool>pools
  module_attention>scaled_attention module_unfold>unfolding
tensor.options: options_base>base options_conv>windows options_pool>windows
tensor.shape: grid_sample joining padding scattering>gather_scatter
tensor.signal: windows>short_time short_time
train.job: configs
train.learner: interrupt window
train.runs: run_dir
train.view: progress>renderers
tensor.torch_bridge: checkpointing>torch_function interop lifting>torch_function registration
record: opening>shortcuts verifying>shortcuts
record.safetensors: safetensors_recorder>recorder
func: forward>gradients
mlax: combining>partitioning levels>pytrees parameter_pytree>pytrees predicates>filters selecting>partitioning
  unbound>holding
train: config>configs
"""

# What went into another part, whole files.
_ELSEWHERE = {
    "burnlike.backend.torch_ops.module": "burnlike.backend.torch_ops.kinds",
    "burnlike.nn.decoder_lm": "burnlike.models.decoder_lm",
    "burnlike.nn.decoder_lm_config": "burnlike.models.decoder_lm_configs",
    "burnlike.nn.transformer.decoder_lm": "burnlike.models.decoder_lm",
}

# What is there today, but without all that it had before: a folder that was a file, or a file that lost a class.
# Where that is today, and what pickles ask for.
_FILES = {
    "burnlike.module.containers": ("burnlike.module.containers.sequences", "ModuleArray ModuleTuple ModuleVec"),
    "burnlike.nn.dropout": ("burnlike.nn.dropout.dropout", "Dropout"),
    "burnlike.nn.embedding": ("burnlike.nn.embedding.embedding", "Embedding"),
    "burnlike.nn.linear": ("burnlike.nn.linear.linear", "Linear transposed"),
    "burnlike.nn.transformer.configs": ("burnlike.models.decoder_lm_configs", "DecoderLmConfig"),
    "burnlike.optim.lbfgs": ("burnlike.optim.lbfgs.lbfgs", "Lbfgs"),
}


def _moves() -> dict[str, str]:
    moves = {}
    for line in _FOLDERS.replace("\n  ", " ").strip().splitlines():
        folder, _, names = line.partition(": ")
        for name in names.split():
            old, _, new = name.partition(">")
            moves[f"burnlike.{folder.partition('.')[0]}.{old}"] = f"burnlike.{folder}.{new or old}"
    return moves


MOVED = _moves() | _ELSEWHERE
"""Name of a module before -> its name now."""


def names_of_file(old: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that had more before: what pickles ask for."""
    module, names = _FILES[old]

    def __getattr__(name: str) -> Any:
        if name not in names.split():
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module), name)

    return __getattr__


class _Finder:
    """Imports a module that has moved under its old name: the module itself, no copy."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: ModuleSpec) -> None:
        """As the import does by itself."""

    def exec_module(self, module: ModuleType) -> None:
        # What is in sys.modules after this is what the import gives.
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


def find_moved() -> None:
    """Let imports find what has moved; asked last, for what nobody else finds."""
    sys.meta_path.append(_Finder())  # pyright: ignore[reportArgumentType]
