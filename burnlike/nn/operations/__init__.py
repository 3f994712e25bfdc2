"""Operations on tensors as layers, for models that are put together in YAML."""
