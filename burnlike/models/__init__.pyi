"""The public names of `burnlike.models`: each is imported from where it is defined, at its first use."""

from .lstm_lm import LstmLm as LstmLm, LstmLmOutput as LstmLmOutput
from .lstm_lm_configs import LstmLmConfig as LstmLmConfig
