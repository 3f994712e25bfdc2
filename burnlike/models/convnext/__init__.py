"""ConvNeXt."""
