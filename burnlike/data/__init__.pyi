"""The public names of `burnlike.data`: each is imported from where it is defined, at its first use."""

from .dataset import Batcher as Batcher, Dataset as Dataset, InMemDataset as InMemDataset
from .loader import DataLoader as DataLoader
from .text import TextCorpus as TextCorpus
from .text_config import TextCorpusConfig as TextCorpusConfig
from .windows import TokenBatcher as TokenBatcher, TokenWindows as TokenWindows
