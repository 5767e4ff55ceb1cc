"""freshper: freshness-aware prioritized experience replay for LLM reinforcement learning (arXiv 2604.16918)."""

__version__ = "0.1.0"
