"""Collect multi-turn episodes: an inference engine generates, environments answer, tokens are kept as sampled."""
