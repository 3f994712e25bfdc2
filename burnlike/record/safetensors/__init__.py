"""The safetensors format: its header, read with suspicion, and its recorder. Imports no torch but in the recorder."""
