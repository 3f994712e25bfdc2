"""The public names of `burnlike.data`: each is imported from where it is defined, at its first use."""

from .chat.configs import (
    ChatConfig as ChatConfig,
    ChatFormatConfig as ChatFormatConfig,
    PreferencesConfig as PreferencesConfig,
)
from .chat.splits import ChatData as ChatData
from .configs import TextCorpusConfig as TextCorpusConfig
from .dataset import (
    Batcher as Batcher,
    Dataset as Dataset,
    InMemDataset as InMemDataset,
    TensorDataset as TensorDataset,
)
from .loader import DataLoader as DataLoader
from .resumable import Resumable as Resumable
from .sources.configs import (
    ColumnConfig as ColumnConfig,
    ComposedConfig as ComposedConfig,
    CsvConfig as CsvConfig,
    DigitsConfig as DigitsConfig,
    HuggingFaceConfig as HuggingFaceConfig,
    ImageFolderConfig as ImageFolderConfig,
    JsonLinesConfig as JsonLinesConfig,
    ParquetConfig as ParquetConfig,
    TableSplitConfig as TableSplitConfig,
    TokensConfig as TokensConfig,
)
from .sources.hugging_face import HuggingFaceDataset as HuggingFaceDataset
from .sources.images import ImageFolderDataset as ImageFolderDataset
from .sources.splits import Splits as Splits, transformed as transformed
from .sources.tables import Table as Table
from .sources.tokens import MappedTokens as MappedTokens, TokenFile as TokenFile
from .streams.configs import StreamConfig as StreamConfig, StreamSourceConfig as StreamSourceConfig
from .streams.parts import StreamDataset as StreamDataset
from .streams.stream import Stream as Stream
from .text import TextCorpus as TextCorpus, TokenBatcher as TokenBatcher, TokenWindows as TokenWindows
from .texts.configs import (
    TaggedWordsConfig as TaggedWordsConfig,
    TextClassificationConfig as TextClassificationConfig,
    TextPairsConfig as TextPairsConfig,
    TextsConfig as TextsConfig,
)
from .texts.rows import TextRows as TextRows
from .transforms.configs import (
    CenterCropConfig as CenterCropConfig,
    ColorJitterConfig as ColorJitterConfig,
    CutMixConfig as CutMixConfig,
    MixUpConfig as MixUpConfig,
    NormalizeConfig as NormalizeConfig,
    PartialConfig as PartialConfig,
    RandomCropConfig as RandomCropConfig,
    RandomHorizontalFlipConfig as RandomHorizontalFlipConfig,
    RandomResizedCropConfig as RandomResizedCropConfig,
    ResizeConfig as ResizeConfig,
    SamplerConfig as SamplerConfig,
    SelectionConfig as SelectionConfig,
    ShuffledConfig as ShuffledConfig,
    WindowsConfig as WindowsConfig,
)
from .transforms.datasets import (
    ComposedDataset as ComposedDataset,
    MapperDataset as MapperDataset,
    PartialDataset as PartialDataset,
    SamplerDataset as SamplerDataset,
    SelectionDataset as SelectionDataset,
    ShuffledDataset as ShuffledDataset,
    WindowsDataset as WindowsDataset,
)
