"""What tensorboardX and torch.utils.tensorboard have in common, so that it is written once."""
