"""What a tensor is and holds: metadata, reading, printing, gradients."""
