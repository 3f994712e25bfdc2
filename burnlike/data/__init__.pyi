"""The public names of `burnlike.data`: each is imported from where it is defined, at its first use."""

from .configs import TextCorpusConfig as TextCorpusConfig
from .dataset import Batcher as Batcher, Dataset as Dataset, InMemDataset as InMemDataset
from .loader import DataLoader as DataLoader
from .text import TextCorpus as TextCorpus
from .windows import TokenBatcher as TokenBatcher, TokenWindows as TokenWindows
