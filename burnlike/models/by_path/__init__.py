"""Models that a directory describes: of transformers by its `config.json`, of a run, or of burnlike's tables."""
