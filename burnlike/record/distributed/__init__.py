"""Records of sharded modules, through torch.distributed.checkpoint."""
