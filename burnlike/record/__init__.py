"""Records: the states of modules, optimizers and training runs, in files of any format and precision.

Use one way for each job:

- weights: `save(model, path)`, `load(model, path)`;
- a whole training, which goes on with the same bits: `burnlike.train.TrainingState(...)`, its `save(path)` and
  `load(path)`;
- a file of another program: `save(model, path)`, whose extension says the format; `open_record(path)`, which knows the
  format by the first bytes, then `record.load_into(model)` with `remap` for its names.

The others are for more than that:

- `save_async` saves in the background; `verify` compares a file with its checksums;
- `init_from` builds a module from a config and a file, without running an initializer;
- `model.save`, `model.load`, `optimizer.save`, ... are `save` and `load` as methods;
- `model.into_record`, `model.load_record`, `record.load_into` and `record.into` go to and from records in memory: to
  look at one, change it, load a part, or make another object of it;
- recorders have options of their format: `SafetensorsRecorder(shard_bytes=...)` writes several files, `to_bytes` and
  `from_bytes` of any recorder are for memory, `DistributedRecorder` is for modules that are sharded among processes;
- `burnlike.models.save_pretrained` and `load_pretrained` are for directories of the Hugging Face Hub;
- `burnlike.train.Checkpointer` writes a training's checkpoints and keeps the last ones.
"""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
