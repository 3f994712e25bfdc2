"""The Learner: the training and validation loops over any module."""
