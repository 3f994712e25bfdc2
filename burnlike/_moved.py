"""Where pickles of older versions find the modules that have moved since.

A pickle names a class by the module that defined it. What is a folder today and was a file before has a stub that
names the classes that such pickles ask it for.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Folder: the modules in it, which were beside it before; `old>new` where the name of the module changed, too.
_FOLDERS = """
module.adapters: lora lora_config parametrized reparameterization weight_norm
module.containers: wrapping>assignment named_containers>mappings held>user_containers
module.groups: param_group param_matchers
module.identity: attributes constants device slots>field_metadata id_source items lazy>lazy_parameter meta_build
  nested param_id paths plain_tensors memory>tensor_memory torch_internals wrappers>torch_wrappers
  loose_parts>unregistered
module.printing: displaying>display display_parts>parts display_settings>settings display_values>values
module.transforms: mapping modes moving>placement references>rebinding replacing shell>structural_copy visiting
module.tree: ranks>id_agreement identities kept_param param param_values registry>walk
optim.core: foreach treatment>gradient_transform missing_gradients ranks>rank_agreement sharded state
  state_dtype
optim.gradients: clipping clipping_config placing>gradient_placement gradients_accumulator multi_gradients norms
optim.lbfgs: lbfgs_flat>flat_parameters lbfgs_config lbfgs_line_search>line_search lbfgs_state>state
optim.rules: adafactor adafactor_config adagrad adagrad_config adam adam_config adamw adamw_config adan
  adan_config adaptive_momentum adaptive_momentum_config foreach_optimizer kernel_optimizer lamb lamb_config
  lion lion_config module_optimizer_config moments momentum_config muon muon_config newton_schulz rmsprop
  rmsprop_config rule_set schedule_free_adamw schedule_free_adamw_config sgd sgd_config simple_optimizer
optim.schedules: composed_lr composed_lr_config constant_lr constant_lr_config cosine_annealing
  cosine_annealing_config exponential_lr exponential_lr_config learning_rates linear_lr linear_lr_config
  lr_scheduler module_lr_scheduler module_lr_scheduler_config noam_lr noam_lr_config lr_records>records
  sequential_lr sequential_lr_config step_lr step_lr_config warmup_lr warmup_lr_config
optim.states: state_entries>matching optimizer_report state_keeper>persistence kept_states>store torch_records
  torch_rules torch_translation
optim.step: adaptor runs>batches copies eval_weights skipped_steps step_plan whole_step
tensor.activation: activation_shrink>shrinking activation_softmax>softmaxes
tensor.arithmetic: clamping comparison cumulative extremes float_checks float_math inequality int_math logic
  matmul numeric ordered reductions stats trigonometry
tensor.core: axes base created dtypes kinds operands receiver scalars sizes slices spec tensor_operands
  torch_arguments
tensor.creation: conversion filled filled_like random
tensor.host: data distribution host_values tolerance
tensor.inspection: autodiff display metadata reading transaction
tensor.linalg: linalg_decompositions>decompositions einsum einsum_equation linalg_norms>norms
  linalg_operands>operands linalg_products>products
tensor.module: module_conv>convolutions module_interpolate>interpolation module_layers>layers module_pool>pools
  module_attention>scaled_attention module_unfold>unfolding
tensor.options: options_base>base options_conv>convolutions options_pool>pools
tensor.shape: gathering grid_sample indexing joining masks one_hot padding scattering squeezing transposing
tensor.signal: windows>cosine_windows short_time
tensor.torch_bridge: checkpointing dlpack exporting interop lifting registration torch_function writes
"""


def _moves() -> dict[str, str]:
    moves = {}
    for line in _FOLDERS.replace("\n  ", " ").strip().splitlines():
        folder, _, names = line.partition(": ")
        for name in names.split():
            old, _, new = name.partition(">")
            moves[f"burnlike.{folder.partition('.')[0]}.{old}"] = f"burnlike.{folder}.{new or old}"
    return moves


MOVED = _moves()
"""Name of a module before -> its name now."""


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
