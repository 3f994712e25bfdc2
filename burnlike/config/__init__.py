"""Configs: typed structs that are read from YAML, checked with file:line:column, and written back. Imports no torch."""

from msgspec import Meta, field

from .base import Config, apply_overrides
from .roles import (
    DatasetConfig,
    LoggerConfig,
    LrSchedulerConfig,
    MetricConfig,
    ModuleConfig,
    OptimizerConfig,
    StrategyConfig,
    TaskConfig,
    TransformConfig,
)

__all__ = [
    "Config",
    "DatasetConfig",
    "LoggerConfig",
    "LrSchedulerConfig",
    "Meta",
    "MetricConfig",
    "ModuleConfig",
    "OptimizerConfig",
    "StrategyConfig",
    "TaskConfig",
    "TransformConfig",
    "apply_overrides",
    "field",
]
