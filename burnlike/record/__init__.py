"""Records: the states of modules, optimizers and training runs, in files of any format and precision.

- Weights: `save(model, path)` and `load(model, path)`, in the background `save_async`; `init_from` builds and loads.
- A whole training, which goes on with the same bits: `burnlike.train.TrainingState(...)`, its `save` and `load`.
- A file of another program: `open_record(path)` knows the format; `record.load_into(model)` with `remap` for its names.
- Records in memory, to look at one, change it or load a part: `model.into_record`, `record.load_into`, `record.into`.

docs/records.md has a table of all ways.
"""

from .._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
