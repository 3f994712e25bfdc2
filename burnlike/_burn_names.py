"""Burn's public names (0.22.1) that are called otherwise here, and what there is instead of others.

Every other name of burn-core, burn-nn, burn-optim, burn-train, burn-dataset and burn-store is the same here.
`docs/reference/burn_names.md` is made of these tables, and `_lazy.py` names them where an attribute is missing.
"""

from collections.abc import Mapping


def _schedules(**names: str) -> dict[str, str]:
    """A schedule and its config, `LinearLrScheduler` and `LinearLrSchedulerConfig`, by their names here."""
    return {
        f"{theirs}LrScheduler{end}": f"optim.{ours}{end}" for theirs, ours in names.items() for end in ("", "Config")
    }


def _metrics(*names: str, **renamed: str) -> dict[str, str]:
    """Metrics that end with `Metric` in Burn."""
    pairs = {**{name: name for name in names}, **renamed}
    return {f"{theirs}Metric": f"train.metrics.{ours}" for theirs, ours in pairs.items()}


RENAMED: Mapping[str, Mapping[str, str]] = {
    "burn-core": {
        "DataLoaderBuilder": "data.DataLoader",
        "ModuleRecord": "record.Record",
        "RecordError": "errors.RecordError",
        "ConfigError": "errors.ConfigError",
        "ParamGroupError": "errors.ParamPathError",
        "Quantizer": "interop.quantize_",
    },
    "burn-nn": {},
    "burn-optim": {
        **_schedules(
            Composed="ComposedLr",
            CosineAnnealing="CosineAnnealing",
            Exponential="ExponentialLr",
            Linear="LinearLr",
            Noam="NoamLr",
            Sequential="SequentialLr",
            Step="StepLr",
        ),
        "LBFGS": "optim.Lbfgs",
        "LBFGSConfig": "optim.LbfgsConfig",
        "LBFGSState": "optim.LbfgsState",
        "GradientClippingConfig": "optim.GradientClipping",
        "ModuleOptimizer": "optim.OptimizerAdaptor",
        "OptimizerRecord": "record.Record",
        "LrSchedulerRecord": "record.Record",
        "Momentum": "optim.MomentumConfig",
        "DynLrScheduler": "optim.LrScheduler",
        "DynOptimizer": "optim.SimpleOptimizer",
    },
    "burn-train": {
        **_metrics(
            "Accuracy", "AucPr", "Auroc", "Dice", "FBetaScore", "IterationSpeed", "LearningRate", "Loss", "MsSsim",
            "Perplexity", "Precision", "Psnr", "Recall", "Ssim", "TopKAccuracy", Cuda="CudaUse",
        ),
        "BleuScore": "train.metrics.Bleu",
        "CharErrorRate": "train.metrics.CharErrorRate",
        "CpuMemory": "train.metrics.CpuMemory",
        "CpuUse": "train.metrics.CpuUse",
        "HammingScore": "train.metrics.Hamming",
        "RougeLScore": "train.metrics.RougeL",
        "WordErrorRate": "train.metrics.WordErrorRate",
        "ConfusionStatsState": "train.metrics.ConfusionStats",
        "DiceMetricConfig": "train.metrics.DiceConfig",
        "MsSsimMetricConfig": "train.metrics.MsSsimConfig",
        "PsnrMetricConfig": "train.metrics.PsnrConfig",
        "SsimMetricConfig": "train.metrics.SsimConfig",
        "SupervisedTraining": "train.Learner",
        "LearnerModel": "train.Learner",
        "InferenceStep": "train.ValidStep",
        "TrainOutput": "train.StepOutput",
        "ClassificationOutput": "train.StepOutput",
        "MultiLabelClassificationOutput": "train.StepOutput",
        "RegressionOutput": "train.StepOutput",
        "SequenceOutput": "train.StepOutput",
        "EarlyStoppingStrategy": "train.MetricEarlyStoppingStrategy",
        "Interruption": "train.Interrupted",
        "FileCheckpointer": "train.Checkpointer",
        "AsyncCheckpointer": "train.Checkpointer",
        "LearningCheckpointer": "train.Checkpointer",
        "ComposedCheckpointingStrategyBuilder": "train.ComposedCheckpointingStrategy",
        "MetricsRenderer": "train.Renderer",
        "CliMetricsRenderer": "train.PlainRenderer",
        "TuiMetricsRendererWrapper": "train.RichRenderer",
        "FileMetricLogger": "train.MetricsLog",
        "MetricLogger": "train.Logger",
        "CheckpointerError": "errors.CheckpointError",
        "TrainingError": "errors.TrainingError",
        "SupervisedLearningStrategy": "train.SingleProcess",
        "TrainingStrategy": "config.StrategyConfig",
    },
    "burn-dataset": {
        "HuggingfaceDatasetLoader": "data.HuggingFaceDataset",
        "Mapper": "data.MapperDataset",
        "TextFolderDataset": "data.TextCorpus",
        "Windows": "data.WindowsDataset",
        "Window": "data.WindowsDataset",
        "WindowsIterator": "data.WindowsDataset",
        "SamplerDatasetOptions": "data.SamplerConfig",
        "DatasetError": "errors.DataError",
    },
    "burn-store": {
        "BurnpackStore": "record.BurnpackRecorder",
        "SafetensorsStore": "record.SafetensorsRecorder",
        "PytorchStore": "record.open_record",
        "PyTorchToBurnAdapter": "interop.record_from_torch",
        "BurnToPyTorchAdapter": "interop.record_to_torch",
        "ApplyResult": "record.LoadReport",
        "HalfPrecisionAdapter": "record.HalfPrecision",
        "FloatCastAdapter": "record.Precision",
        "KeyRemapper": "record.LoadOptions",
        "PathFilter": "module.ParamGroup",
        "ModuleStore": "record.Recorder",
        "ApplyError": "errors.RecordMismatchError",
        "PytorchStoreError": "errors.RecordFormatError",
        "SafetensorsStoreError": "errors.RecordFormatError",
        "ModuleSnapshot": "record.Record",
    },
}  # fmt: skip
"""Crate -> Burn's name -> the name here, below `burnlike`."""

INSTEAD: Mapping[str, tuple[tuple[str, str], ...]] = {
    "burn-core": (
        ("Flag", "`module.train()`, `module.eval()` and `module.training`, as in PyTorch"),
        ("RunningState", "a buffer: `self.register_buffer(...)`, or `Param.running`"),
        ("Ignored Attribute ParameterValue", "a plain attribute, which is no part of records; `bl.constant(value)`"),
        ("DTypePolicy", "`dtype=` of `record.load`"),
        ("QLora", "`type: LoRA` with `quantize: nf4` in a config"),
        ("LoraAdapter Reparameterizer", "`module.apply_lora`, `module.apply_reparameterization`"),
        ("ParamMapper", "the load and save mappers of a `Param`"),
        ("ModuleDisplay ModuleDisplayDefault", "`custom_settings` and `custom_content` of a Module"),
        (
            "BatchDataLoader BatchStrategy DataLoaderIterator FixBatchStrategy MultiThreadDataLoader Progress",
            "`DataLoader(..., num_workers=...)`, and iterating over it",
        ),
        ("Devices", "a list of `torch.device`s"),
    ),
    "burn-nn": (
        ("InterpolateMode LinearLayout", 'a text in the config: `mode="Nearest"`, `layout="row"`'),
        ("MhaInput", "the arguments of `MultiHeadAttention.forward`: query, key, value, mask_pad, mask_attn"),
        (
            "TransformerDecoderInput TransformerEncoderInput",
            "the arguments of `forward`: the input, its masks, the memory and its masks",
        ),
        ("OptionalInitialLstmState", "`LstmState` or None"),
        ("SeqLengthOption", "`max_length` of `generate_padding_mask`"),
        ("TensorCache", "the caches that layers give: `MhaCache`, `TransformerDecoderAutoregressiveCache`"),
    ),
    "burn-optim": (
        ("LearningRate", "a float, or `ModuleLearningRate`"),
        ("AdjustLrFn LineSearchFn SchedulerReduction", 'a text in the config: `adjust_lr_fn="Original"`'),
        ("WeightDecay WeightDecayConfig WeightDecayState", "a number: `weight_decay=0.1`"),
        ("RmsPropMomentum", "`momentum` of `RmsPropConfig`"),
        (
            "CosineAnnealingLrSchedulerState ExponentialLrSchedulerState LinearLrSchedulerState NoamLrSchedulerState"
            " StepLrSchedulerState",
            "`scheduler.into_record()`",
        ),
        (
            "DynState GradAdaptor LrSchedulerClone RecordState StateSink StateSource",
            "dataclasses: the state of a rule of your own is one",
        ),
    ),
    "burn-train": (
        ("CpuTemperature", "nothing; a `torchmetrics.Metric` of your own is taken"),
        ("Evaluator EvaluatorBuilder", "`Learner.evaluate`, or `burnlike evaluate RUN`"),
        (
            "Metric Adaptor Numeric Aggregate Direction Split MetricAttributes MetricDefinition MetricEntry MetricError"
            " MetricId MetricMetadata MetricName MetricState NumericAttributes NumericEntry NumericMetricState"
            " NumericMetricUpdate PredictionAccumulatorState SerializedEntry FormatOptions BleuSmoothing",
            "`torchmetrics.Metric`, of which each metric here is one",
        ),
        (
            "AccuracyInput BleuInput CerInput ConfusionStatsInput DiceInput HammingScoreInput LossInput MsSsimInput"
            " PerplexityInput PsnrInput RougeLInput SsimInput TopKAccuracyInput WerInput",
            "the arguments of a metric's `update`: predictions, targets",
        ),
        (
            "Fid FidConfig Lpips LpipsConfig LpipsNet LpipsAlex LpipsSqueeze LpipsVgg Dists DistsConfig"
            " InceptionV3FeatureExtractor AlexFeatureExtractor SqueezeFeatureExtractor VggFeatureExtractor FireModule"
            " ClipOutput ClipVisualEncoder ClipVisualEncoderConfig Afine AfineConfig AfineDHead AfineDHeadConfig"
            " AfineQHead AfineQHeadConfig",
            "those of torchmetrics, `FrechetInceptionDistance`, `LearnedPerceptualImagePatchSimilarity`,"
            " `DeepImageStructureAndTextureSimilarity`: a Learner takes them",
        ),
        (
            "AgentEnvAsyncLoop AgentEnvBaseLoop AgentEnvLoop AgentEvaluationEvent AgentMetricRegistration"
            " AgentTextMetricRegistration AsyncAgentEnvLoopConfig CumulativeRewardInput CumulativeRewardMetric"
            " CustomRLStrategy EpisodeLengthInput EpisodeLengthMetric EpisodeMetricRegistration EpisodeSummary"
            " EpisodeTextMetricRegistration ExplorationRateInput ExplorationRateMetric MultiAgentEnvLoop"
            " OffPolicyConfig"
            " OffPolicyStrategy RLAgentRecord RLCheckpointer RLComponents RLComponentsMarker RLComponentsTypes RLEvent"
            " RLEventProcessor RLEventProcessorType RLPolicyRecord RLResult RLStrategies RLStrategy RLTraining TimeStep"
            " Trajectory",
            "no reinforcement learning: Stable-Baselines3, TorchRL or CleanRL, whose networks may be of these"
            " layers and"
            " optimizers",
        ),
        (
            "ApplicationLoggerInstaller FileApplicationLoggerInstaller AsyncLogger FileLogger InMemoryLogger"
            " InMemoryMetricLogger",
            "Python's `logging`, the files of a run, and `Logger` (`TensorBoard`, `WandB`, `MLflow`)",
        ),
        (
            "Event EventStore EventStoreClient EventProcessorError EventProcessorEvaluation EventProcessorFailure"
            " EventProcessorTraining LearnerEvent EvaluatorEvent SupervisedTrainingEventProcessor"
            " AsyncProcessorEvaluation AsyncProcessorTraining TrainingItem EvaluationItem EvaluationName"
            " EvaluationResult"
            " EvaluationProgressLogger TrainingProgressLogger ProgressSnapshot WorkerFailure ItemLazy"
            " EpochSummary MetricSummary SummaryMetrics"
            " LearnerSummaryConfig MetricsRendererEvaluation MetricsRendererTraining MetricsUpdate",
            "the methods of a `Callback`, which is told of each event, and `metrics.jsonl` of a run",
        ),
        (
            "TrainingComponents EvaluatorComponentTypes EvaluatorComponentTypesMarker MetricRegistration"
            " EvalMetricRegistration EvalTextMetricRegistration TrainMetricRegistration TrainTextMetricRegistration"
            " TextMetricRegistration TrainLoader ValidLoader CustomLearningStrategy",
            "arguments of `Learner` and of its `fit`",
        ),
        (
            "ExecutionStrategy ModuleSharder MultiDeviceOptim MultiDeviceStepError MultiDevicesTrainStep"
            " MultiTrainOutput",
            "`Ddp` and `Fsdp2`, a process for each device",
        ),
        ("Checkpoint CheckpointingAction StoppingCondition CloneEarlyStoppingStrategy", "arguments of the strategies"),
    ),
    "burn-dataset": (
        ("MnistDataset MnistItem", "`type: HuggingFace` with `path: mnist`, `type: Digits`, or torchvision's dataset"),
        (
            "AgNewsDataset AgNewsItem CifarDataset CifarType SpeechCommandClass SpeechCommandsDataset SpeechItem"
            " SpeechItemRaw",
            "`HuggingFaceDataset`, or those of torchvision and torchaudio: a DataLoader takes any dataset of PyTorch",
        ),
        (
            "SqliteDataset SqliteDatasetError SqliteDatasetStorage SqliteDatasetWriter RowError",
            "`ParquetConfig`, `JsonLinesConfig`, `CsvConfig`, or a dataset of shards: `StreamDataset`",
        ),
        ("DataframeDataset DataframeDatasetError", '`InMemDataset(frame.to_dict("records"))`, or `ParquetConfig`'),
        ("FakeDataset", "`InMemDataset` of what Faker gives"),
        (
            "ImageDatasetItem Annotation BoundingBox PixelData PixelDepth SegmentationMask ImageLoaderError",
            "what an `ImageFolderDataset` gives: tensors and the number of the class",
        ),
        ("TextData TextDatasetItem TextLoaderError", "what `TextRows` give"),
        ("DatasetIterator ImporterError RngSource SizeConfig", "`iter(dataset)`, exceptions, a `torch.Generator`"),
    ),
    "burn-store": (
        (
            "ChainAdapter IdentityAdapter ModuleAdapter ModuleContext Applier Collector MaybeSendSync",
            "options of `record.load` (`remap`, `filter`, `dtype`) and of `Precision`",
        ),
    ),
    "other crates": (
        ("burn-vision", "torchvision and kornia: images are tensors of PyTorch"),
        ("burn-rl", "Stable-Baselines3, TorchRL or CleanRL"),
        ("burn-onnx", "`burnlike export RUN --to onnx` writes what it reads"),
        ("burn-communication, burn-collective", "`torch.distributed`; `burnlike launch`"),
        ("burn-fusion, burn-cubecl, burn-wgpu, burn-cuda, burn-tch", "`torch.compile`, and native ops of burnlike"),
    ),
}
"""Crate -> names, and what a Python user takes instead."""

METHODS: Mapping[str, str] = {
    "XConfig::new(a, b)": "XConfig(a, b)",
    "config.with_y(value)": "config.replace(y=value)",
    "X::new()": "X()",
    "module.freeze_group(group)": "module.freeze(group)",
    "module.unfreeze_group(group)": "module.unfreeze(group)",
    "module.set_require_grad_group(group, false)": "module.freeze(group)",
    "module.into_record_group(group)": "module.into_record(group)",
    "module.apply_lora(Lora::new(2, 4.0))": "module.apply_lora(LoraConfig(2, 4.0))",
    "module.try_load_record(record)": "module.load_record(record)",
    "module.save_file(path)": "module.save(path)",
    "module.load_file(path)": "module.load(path)",
    "module.cast(dtype)": "module.to(dtype)",
    "module.list_param_ids()": "[it.id for it in module.params()]",
}
"""A call of Burn's -> the same here."""


def called_here(name: str) -> str:
    """The name here of Burn's name, or what there is instead, as the end of a message; empty for other names."""
    for crate, names in RENAMED.items():
        if name in names:
            return f"; {name} of {crate} is burnlike.{names[name]} here"
    for crate, rows in INSTEAD.items():
        for listed, instead in rows:
            if name in listed.split():
                return f"; {name} of {crate} is not here: take {instead}"
    return ""
