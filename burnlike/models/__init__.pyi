"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from .bert import BertEncoder as BertEncoder, BertOutput as BertOutput
from .bert_configs import (
    BertClassifierConfig as BertClassifierConfig,
    BertEncoderConfig as BertEncoderConfig,
    BertMaskedLmConfig as BertMaskedLmConfig,
)
from .bert_heads import BertClassifier as BertClassifier, BertMaskedLm as BertMaskedLm
from .lstm_lm import LstmLm as LstmLm, LstmLmOutput as LstmLmOutput
from .lstm_lm_configs import LstmLmConfig as LstmLmConfig
