"""The public names of `burnlike.module`: each is imported from where it is defined, at its first use."""

from .adapters.configs import Eva as Eva, LoraConfig as LoraConfig
from .adapters.layers import Lora as Lora, WeightNorm as WeightNorm, apply_lora as apply_lora
from .adapters.reparameterization import (
    Reparameterization as Reparameterization,
    apply_reparameterization as apply_reparameterization,
    materialize as materialize,
)
from .attributes.plain_attributes import constant as constant
from .containers.sequences import (
    ModuleArray as ModuleArray,
    ModuleDict as ModuleDict,
    ModuleEnum as ModuleEnum,
    ModuleTuple as ModuleTuple,
    ModuleVec as ModuleVec,
)
from .containers.user_containers import ModuleContainer as ModuleContainer
from .groups.param_group import ParamGroup as ParamGroup, ParamMatcher as ParamMatcher
from .identity.field_metadata import Kind as Kind
from .identity.param_id import ParamId as ParamId, seed_param_ids as seed_param_ids
from .module import Module as Module
from .printing.display import Content as Content, DisplaySettings as DisplaySettings, display as display
from .torch_objects.lazy_parameter import LazyParameter as LazyParameter
from .transforms.mapping import (
    ModuleMapper as ModuleMapper,
    ModuleVisitor as ModuleVisitor,
    map as map,
    map_ as map_,
    param_at as param_at,
    visit as visit,
)
from .transforms.placement import (
    clone as clone,
    devices as devices,
    fork as fork,
    freeze as freeze,
    initialize as initialize,
    no_grad as no_grad,
    num_params as num_params,
    to_device as to_device,
    train as train,
    unfreeze as unfreeze,
    valid as valid,
)
from .tree.param import Param as Param
from .tree.walk import agree_ids as agree_ids, fresh_ids as fresh_ids, params as params
