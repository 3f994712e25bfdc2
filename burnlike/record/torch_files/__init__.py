"""Files of torch.save, read without running anything in them. Imports no torch."""
