"""The model of a run for other programs: ONNX, torch.export, Hugging Face, Burn. A file for each."""
