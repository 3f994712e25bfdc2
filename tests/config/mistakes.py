"""Mistakes that people make in configs, each with the place, path and advice that it has to be reported with."""

from typing import NamedTuple

RUN = """\
seed: 1
data:
  type: Text
  context_length: 16
model:
  type: DecoderLm
  vocab_size: 256
  max_sequence_length: 16
  d_model: 16
  n_layers: 1
  n_heads: 2
  d_ff: 24
optimizer:
  type: AdamW
  weight_decay: 0.1
lr_scheduler:
  type: CosineAnnealing
  initial_lr: 1e-2
  warmup_steps: 5
training:
  epochs: 3
  steps_per_epoch: 20
  batch_size: 4
"""
"""A config without mistakes."""


class Mistake(NamedTuple):
    """One mistake.

    Attributes:
        text: of the file.
        place: line and column, or `--set` for an option.
        path: the dotted path that is named; empty for none.
        advice: words that the message must have.
        overrides: as `--set` takes them.
    """

    text: str
    place: str
    path: str
    advice: str
    overrides: tuple[str, ...] = ()


def run(old: str, new: str, place: str, path: str, advice: str) -> Mistake:
    """A mistake in the config of a run: `new` stands where `old` should."""
    assert RUN.count(old) == 1, old
    return Mistake(RUN.replace(old, new), place, path, advice)


def model(text: str, place: str, path: str, advice: str) -> Mistake:
    """A mistake in the file of a model alone; lines are divided by ` | `."""
    return Mistake(text.replace(" | ", "\n") + "\n", place, path, advice)


def option(override: str, path: str, advice: str) -> Mistake:
    """A mistake in an option."""
    return Mistake(RUN, "--set", path, advice, (override,))


MISTAKES = [
    # unknown keys
    run("seed: 1", "sede: 1", "1:1", "sede", "did you mean 'seed'?"),
    run("seed: 1", "Seed: 1", "1:1", "Seed", "did you mean 'seed'?"),
    run("  d_model: 16", "  d_modle: 16", "9:3", "model.d_modle", "did you mean 'd_model'?"),
    run("  d_model: 16", "  dmodel: 16", "9:3", "model.dmodel", "did you mean 'd_model'?"),
    run("  d_model: 16", "  hidden_size: 16", "9:3", "model.hidden_size", "did you mean 'd_model'?"),
    run("  n_heads: 2", "  num_heads: 2", "11:3", "model.num_heads", "did you mean 'n_heads'?"),
    run("training:", "trainig:", "20:1", "trainig", "did you mean 'training'?"),
    run("  epochs: 3", "  epoch: 3", "21:3", "training.epoch", "did you mean 'epochs'?"),
    run("  epochs: 3", "  num_epochs: 3", "21:3", "training.num_epochs", "did you mean 'epochs'?"),
    run("  batch_size: 4", "  batchsize: 4", "23:3", "training.batchsize", "did you mean 'batch_size'?"),
    run("seed: 1", "seed: 1\nepochs: 2", "2:1", "epochs", "did you mean 'training.epochs'?"),
    run("seed: 1", "seed: 1\nlr: 1e-3", "2:1", "lr", "did you mean 'lr_scheduler.initial_lr'?"),
    run("  weight_decay: 0.1", "  lr: 0.1", "15:3", "optimizer.lr", "did you mean 'lr_scheduler.initial_lr'?"),
    run("  weight_decay: 0.1", "  betas: [0.9, 0.99]", "15:3", "optimizer.betas", "did you mean 'beta_1'?"),
    run("  initial_lr: 1e-2", "  lr: 1e-2", "18:3", "lr_scheduler.lr", "did you mean 'initial_lr'?"),
    run("  warmup_steps: 5", "  warmup: 5", "19:3", "lr_scheduler.warmup", "did you mean 'warmup_steps'?"),
    run("  batch_size: 4", "  batch_size: 4\n  device: cpu", "24:3", "training.device", "'device' at the root?"),
    run(
        "  batch_size: 4",
        "  batch_size: 4\n  keep_best: {metric: loss, mode: min}",
        "24:29",
        "training.keep_best.mode",
        "did you mean 'direction'?",
    ),
    run(
        "  batch_size: 4",
        "  batch_size: 4\n  keep_best: {metric: loss, modl: min}",
        "24:29",
        "training.keep_best.modl",
        "unknown key 'modl'; BestMetricConfig has metric, direction",
    ),
    run("seed: 1", "default: char_gpt", "1:1", "default", "did you mean 'defaults'?"),
    run(
        "seed: 1",
        "xyzzy: 1",
        "1:1",
        "xyzzy",
        "TrainConfig has data, transforms, model, init_from, freeze, trainable, task, metrics, optimizer, lr_scheduler",
    ),
    run("  initial_lr: 1e-2\n", "", "17:3", "lr_scheduler", "missing key 'initial_lr'; expected a number > 0"),
    run("context_length: 16", "context: 16", "4:3", "data.context", "did you mean 'context_length'?"),
    run(
        "weight_decay: 0.1",
        "groups:\n    - params: {match: [{type: Paths, paths: [head]}]}\n      wieght_decay: 0",
        "17:7",
        "optimizer.groups.0.wieght_decay",
        "did you mean 'weight_decay'?",
    ),
    # types
    run("  type: AdamW", "  type: adamw", "14:9", "optimizer.type", "unknown type 'adamw'; did you mean 'AdamW'?"),
    run("  type: DecoderLm", "  type: DecoderLM", "6:9", "model.type", "did you mean 'DecoderLm'?"),
    run("  type: DecoderLm", "  type: GPT", "6:9", "model.type", "in all; `burnlike schema --list` has all)"),
    run("  type: DecoderLm", "  type: AdamW", "6:9", "model.type", "'AdamW' is a type of OptimizerConfig"),
    run("  type: DecoderLm\n", "", "6:3", "model", "missing key 'type'; expected one of"),
    run("  type: CosineAnnealing", "  type: CosineAnnealingLr", "17:9", "lr_scheduler.type", "mean 'CosineAnnealing'?"),
    run("  type: Text", "  type: text", "3:9", "data.type", "did you mean 'Text'?"),
    run("  type: AdamW", "  type: 3", "14:9", "optimizer.type", "expected one of 'AdaGrad', "),
    run("  type: AdamW", "  type: MyAdam", "14:9", "optimizer.type", "by --import MODULE"),
    # values of another type
    run("d_model: 16", "d_model: sixteen", "9:12", "model.d_model", "expected an int >= 1, got 'sixteen' (a string)"),
    run("d_model: 16", 'd_model: "16"', "9:12", "model.d_model", "got '16' (a string); remove the quotes"),
    run("d_model: 16", "d_model: 16.0", "9:12", "model.d_model", "got 16.0 (a float); write 16"),
    run("d_model: 16", "d_model: 1e2", "9:12", "model.d_model", "got 1e2 (a float); write 100"),
    run("d_model: 16", "d_model: true", "9:12", "model.d_model", "expected an int >= 1, got true"),
    run("d_model: 16", "d_model:", "9:11", "model.d_model", "expected an int >= 1, got nothing"),
    run("d_model: 16", "d_model: [16]", "9:12", "model.d_model", "an int >= 1, got a list of 1 item"),
    run("d_model: 16", "d_model: {size: 16}", "9:12", "model.d_model", "expected an int >= 1, got a mapping"),
    run("d_model: 16", "d_model: 016", "9:12", "model.d_model", "a leading zero is ambiguous, write 16 or 0o16"),
    run("d_model: 16", "d_model: 16,", "9:12", "model.d_model", "got '16,' (a string); write 16"),
    run("weight_decay: 0.1", "weight_decay: 0,1", "15:17", "optimizer.weight_decay", "(a string); write 0.1"),
    run("weight_decay: 0.1", "weight_decay: none", "15:17", "optimizer.weight_decay", "a finite number >= 0, got"),
    run("weight_decay: 0.1", "amsgrad: yes", "15:12", "optimizer.amsgrad", "got 'yes' (a string); write true"),
    run(
        "weight_decay: 0.1",
        "grad_clipping: 1.0",
        "15:18",
        "optimizer.grad_clipping",
        "`type:` (one of 'ClipByGlobalNorm'",
    ),
    run(
        "weight_decay: 0.1", "grad_clipping: ClipByNorm", "15:18", "optimizer.grad_clipping", "write {type: ClipByNorm}"
    ),
    run("initial_lr: 1e-2", "initial_lr: 1e999", "18:15", "lr_scheduler.initial_lr", "1e999 is too large for a float"),
    run("seed: 1", "output: {precision: fp16}", "1:21", "output.precision", "got 'fp16'; did you mean 'float16'?"),
    run(
        "seed: 1",
        "task: {type: LanguageModel, prompt: 3}",
        "1:37",
        "task.prompt",
        'got 3 (an int); put it in quotes: "3"',
    ),
    run("seed: 1", "threads: none", "1:10", "threads", "(a string); write null"),
    Mistake(
        RUN.partition("  epochs")[0][:-1] + " 3", "20:11", "training", "mapping with keys of TrainingConfig (epochs, "
    ),
    run("  type: Text", "  type: Text\n  path: [a]", "4:9", "data.path", "expected a string or null"),
    run("weight_decay: 0.1", "groups: {params: 1}", "15:11", "optimizer.groups", "expected a list"),
    # ranges
    run("context_length: 16", "context_length: 0", "4:19", "data.context_length", "expected an int >= 1, got 0"),
    run("d_model: 16", "d_model: 0", "9:12", "model.d_model", "expected an int >= 1, got 0"),
    run("d_model: 16", "d_model: 99999999999", "9:12", "model.d_model", "expected at most 2147483647 ("),
    run("weight_decay: 0.1", "weight_decay: -0.1", "15:17", "optimizer.weight_decay", "a finite number >= 0, got -0.1"),
    run("weight_decay: 0.1", "weight_decay: .inf", "15:17", "optimizer.weight_decay", "a finite number >= 0, got .inf"),
    run("weight_decay: 0.1", "beta_1: 1.0", "15:11", "optimizer.beta_1", "expected a number >= 0 and < 1, got 1.0"),
    run("initial_lr: 1e-2", "initial_lr: 0", "18:15", "lr_scheduler.initial_lr", "a number > 0 and <= 1, got 0"),
    run("warmup_steps: 5", "warmup_steps: -1", "19:17", "lr_scheduler.warmup_steps", "expected an int >= 0, got -1"),
    run("n_layers: 1", "n_layers: 1\n  dropout: 50", "11:12", "model.dropout", "a number >= 0 and < 1, got 50"),
    run("epochs: 3", "epochs: 0", "21:11", "training.epochs", "expected an int >= 1, got 0"),
    run("seed: 1", "seed: -1", "1:7", "seed", "expected an int >= 0 and < 4294967296, got -1"),
    run("seed: 1", "task: {type: LanguageModel, prompt: ''}", "1:37", "task.prompt", "at least 1 character, got ''"),
    # rules across fields
    run("n_heads: 2", "n_heads: 3", "11:12", "model.n_heads", "expected a divisor of d_model (16), got 3"),
    run(
        "vocab_size: 256",
        "vocab_size: 255",
        "7:15",
        "model.vocab_size",
        "expected 256, the vocabulary of the data, got 255",
    ),
    run("max_sequence_length: 16", "max_sequence_length: 8", "8:24", "model.max_sequence_length", "at least 16, data."),
    run("warmup_steps: 5", "warmup_steps: 60", "19:17", "lr_scheduler.warmup_steps", "than the 60 steps of the run"),
    run("warmup_steps: 5", "min_lr: 1", "19:11", "lr_scheduler.min_lr", "expected at most initial_lr (0.01), got 1.0"),
    run("seed: 1", "device: gpu", "1:9", "device", "expected auto, cpu, cuda or cuda:N, such as cuda:0; got 'gpu'"),
    # YAML
    run("  type: AdamW", "  type: AdamW\n  type: Sgd", "15:3", "optimizer.type", "it stands first in line 14"),
    run("  epochs: 3", "\tepochs: 3", "21:1", "", "a tab can't indent YAML; use spaces"),
    run("  epochs: 3", "   epochs: 3", "22:3", "", "the indentation fits no line above it"),
    run("  epochs: 3", "  epochs 3", "21:3", "", "this line is neither `key: value` nor `- item`"),
    run("  epochs: 3", "  epochs:3", "21:3", "", "this line is neither `key: value` nor `- item`"),
    run("  epochs: 3", "  epochs: 3: 4", "21:12", "", "a second `: ` in one line"),
    run("  epochs: 3", "  epochs: [3", "22:18", "", "the bracket was opened in line 21, column 11"),
    run("  epochs: 3", "  epochs: 'three", "21:11", "", "this quote is not closed"),
    run("  epochs: 3", "  epochs: @3", "21:11", "", "a value can't begin with '@'; put it in quotes"),
    run("  epochs: 3", "  epochs: !!int 3", "21:11", "training.epochs", "the tag !!int is not allowed"),
    run(
        "  epochs: 3", "  epochs: !python/object:os.system 3", "21:11", "training.epochs", "write the value without it"
    ),
    run("  epochs: 3", "  epochs: *x", "21:11", "training.epochs", "alias *x has no anchor &x before it"),
    run("  epochs: 3", "  <<: 3\n  epochs: 3", "21:3", "training", "`<<` takes an alias of a mapping"),
    run("seed: 1", "seed: 1\n---", "2:1", "", "a config is one document, so remove the `---`"),
    model("- type: Linear", "1:1", "", "expected a mapping with `type:`"),
    model("Linear", "1:1", "", "expected a mapping with `type:`"),
    # references
    run("d_ff: 24", "d_ff: ${model.d_modle}", "12:9", "model.d_ff", "model has no 'd_modle'; did you mean 'd_model'?"),
    run("d_ff: 24", "d_ff: ${d_model}", "12:9", "model.d_ff", "did you mean 'model.d_model'?"),
    run("d_ff: 24", "d_ff: ${model.d_ff}", "12:9", "model.d_ff", "refers to itself: model.d_ff -> model.d_ff"),
    run(
        "d_ff: 24", "d_ff: ${training.rate}", "12:9", "model.d_ff", "finds what is written, and defaults beside `type`"
    ),
    run("d_ff: 24", "d_ff: ${model.dropout}", "12:9", "model.d_ff", "expected an int >= 1, got 0.0 (a float) from ${"),
    run("d_ff: 24", "d_ff: ${training}", "12:9", "model.d_ff", "expected an int >= 1, got a mapping from ${training}"),
    run("d_ff: 24", "d_ff: 4*${model.d_model}", "12:9", "model.d_ff", "got '4*16' (a string) from 4*${model.d_model}"),
    run("d_ff: 24", "d_ff: ${4 * model.d_model}", "12:9", "model.d_ff", "nothing is computed in `${...}`"),
    run(
        "d_ff: 24", "d_ff: ${model.d_model", "12:9", "model.d_ff", "the `${` of '${model.d_model' is not closed by `}`"
    ),
    run("d_ff: 24", "d_ff: $model.d_model", "12:9", "model.d_ff", "a reference is ${model.d_model}"),
    run("d_ff: 24", "d_ff: ${model.d_model[0]}", "12:9", "model.d_ff", "16 (an int), which has no '0'"),
    run("d_ff: 24", "d_ff: ${env:NO_SUCH_NAME}", "12:9", "model.d_ff", "write ${env:NO_SUCH_NAME,default}"),
    run("d_ff: 24", "d_ff: ${NO_SUCH_NAME}", "12:9", "model.d_ff", "an environment variable is ${env:NO_SUCH_NAME}"),
    run("d_ff: 24", "d_ff: ${env:NO_SUCH_NAME,wide}", "12:9", "model.d_ff", "got 'wide' (a string) from ${env:"),
    run("seed: 1", "task: {type: LanguageModel, prompt: ${data.type}}", "1:37", "", "a `${...}` stands in quotes"),
    # other files
    run("seed: 1", "defaults: no_such.yaml", "1:11", "defaults", "no_such.yaml: no such file; check the path"),
    run("seed: 1", "defaults: char_gtp", "1:11", "defaults", "no such file; did you mean 'char_gpt'?"),
    run("seed: 1", "defaults: {a: b}", "1:11", "defaults", "expected the path of a YAML file, the name of a shipped"),
    run("seed: 1", "defaults: [char_gpt, 3]", "1:22", "defaults.1", "or a list of such; got 3"),
    run("seed: 1", "defaults: ${env:HOME}", "1:11", "defaults", "`${...}` can't be used here"),
    run("  epochs: 3", "  defaults: char_gpt", "21:3", "training.defaults", "stands at the root of a file"),
    # layers
    model("type: Linear | in_features: 4 | d_output: 8", "2:1", "in_features", "did you mean 'd_input'?"),
    model("type: Linear | d_input: 4 | d_outptu: 8", "3:1", "d_outptu", "did you mean 'd_output'?"),
    model("type: Linear | d_input: 4 | d_output: 8 | bias: no", "4:7", "bias", "got 'no' (a string); write false"),
    model("type: Linear | d_input: 4 | d_output: 8 | initializer: Zeros", "4:14", "initializer", "write {type: Zeros}"),
    model("type: linear | d_input: 4 | d_output: 8", "1:7", "type", "did you mean 'Linear'?"),
    model("type: Conv2d | channels: [3, 8, 16] | kernel_size: 3", "2:11", "channels", "a list of 2 items"),
    model(
        "type: Conv2d | channels: [3, 8] | kernel_size: [3, 0]", "3:18", "kernel_size.1", "expected an int >= 1, got 0"
    ),
    model("type: Conv2d | channels: [3, eight] | kernel_size: 3", "2:15", "channels.1", "got 'eight' (a string)"),
    model(
        "type: Conv2d | channels: [3, 8] | kernel_size: 3 | padding: smae", "4:10", "padding", "did you mean 'Same'?"
    ),
    model(
        "type: Conv2d | channels: [3, 8] | kernel_size: 3 | groups: 2", "4:9", "groups", "a divisor of both channels"
    ),
    model(
        "type: BatchNorm | num_features: 8 | momentum: 2", "3:11", "momentum", "expected a number from 0 to 1, got 2"
    ),
    model("type: GroupNorm | num_groups: 3 | num_channels: 8", "2:13", "num_groups", "a divisor of num_channels"),
    model("type: LayerNorm | d_model: 8 | eps: 1e-5", "3:1", "eps", "did you mean 'epsilon'?"),
    model("type: Dropout | p: 0.5", "2:1", "p", "did you mean 'prob'?"),
    model("type: Embedding | num_embeddings: 8 | d_model: 2", "2:1", "num_embeddings", "did you mean 'n_embedding'?"),
    model("type: MultiHeadAttention | d_model: 10 | n_heads: 4", "3:10", "n_heads", "a divisor of d_model (10), got 4"),
    model("type: Relu | negative_slope: 0.1", "2:1", "negative_slope", "ReluConfig has no keys"),
    model("type: Sequential | layers: | - type: Rleu", "3:9", "layers.0.type", "did you mean 'Relu'?"),
    model("type: Sequential | layers: | - Rleu", "3:3", "layers.0", "got 'Rleu' (a string)"),
    model("type: Sequential | layers: []", "2:9", "layers", "expected a list of at least 1 item"),
    # options
    option("d_model=64", "d_model", "did you mean 'model.d_model'?"),
    option("model.d_model", "", "expected KEY=VALUE, such as training.epochs=3"),
    option("model.d_model=", "", "the value is missing; write null for none, '' for an empty string"),
    option("model.d_model=x", "model.d_model", "expected an int >= 1, got 'x' (a string)"),
    option("model.d_model.x=3", "model.d_model", "can't set a key of 16 (an int); a mapping is needed here"),
    option("model..d_model=3", "", "a path is keys joined by dots, with indices in brackets: model.layers[2].d_output"),
    option("model[0]=3", "model", "[0] is an item of a list, and here is a mapping with the keys type, vocab_size"),
    option("model.layers[0]=3", "model.layers", "no list is written here yet; set it whole, or add items by [+]"),
    option("model.layers[x]=3", "", "[x] is no index of a list; expected a number from 0, such as [2]"),
    option("optimizer.type=SGD", "optimizer.type", "did you mean 'Sgd'?"),
    option("model.n_heads=3", "model.n_heads", "expected a divisor of d_model (16), got 3"),
    option("model.d_ff=${model.dff}", "model.d_ff", "model has no 'dff'; did you mean 'd_ff'?"),
    option("defaults=char_gpt", "defaults", "stands in a file and can't be set by an option"),
    option("training.batch_size=[1, 2", "", "this '[' is not closed"),
]
