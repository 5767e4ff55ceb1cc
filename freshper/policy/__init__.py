"""Load a language model as a policy: model, tokenizer, chat format, log-probs."""
