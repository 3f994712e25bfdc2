"""The names that a layer in a container may have. Imports no torch."""

import re

from ...config import Meta

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

_TAKEN = (
    "T_destination add_module apply apply_lora apply_reparameterization bfloat16 buffers call_super_init "
    "children clone compile cpu cuda custom_content custom_settings devices double dump_patches eval "
    "extra_repr float fork forward freeze get_buffer get_extra_state get_parameter get_submodule half "
    "into_record ipu load load_record load_state_dict map map_ materialize modules mtia named_buffers "
    "named_children named_modules named_parameters no_grad num_params param parameters params "
    "register_backward_hook register_buffer register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook "
    "register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook "
    "register_state_dict_pre_hook requires_grad_ save set_extra_state set_submodule share_memory "
    "state_dict to to_device to_empty train training type unfreeze valid visit xpu zero_grad"
)
TAKEN = frozenset(_TAKEN.split())
"""The attributes of every module, which a layer in it can't take the names of."""


NAMED = Meta(
    min_length=1, extra_json_schema={"propertyNames": {"pattern": f"^{_NAME.pattern}$", "not": {"enum": sorted(TAKEN)}}}
)
"""Of a mapping by names of layers: what editors are told of them."""


def name_problem(name: str) -> str:
    """What is wrong with a name, or an empty string."""
    if not _NAME.fullmatch(name):
        return "expected a name of letters, digits and `_` that begins with a letter"
    if name in TAKEN:
        return f"'{name}' is an attribute of every module; use another name, such as '{name}_layer'"
    return ""
