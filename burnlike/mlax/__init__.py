"""MLAX's module semantics: attributes are Parameter handles, modules can be filtered, partitioned and combined."""
