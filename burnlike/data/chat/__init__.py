"""Conversations and instructions, for fine-tuning language models."""
