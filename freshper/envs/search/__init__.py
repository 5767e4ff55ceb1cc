"""Question answering with a search engine: NQ Search."""
