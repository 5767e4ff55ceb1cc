"""The small base model: tokenizer, architecture, pretraining recipe and (in `base/`) its shipped weights."""
