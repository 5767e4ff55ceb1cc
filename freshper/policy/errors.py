"""What is wrong with a model."""


class ModelError(ValueError):
    """A model folder that cannot be used as a policy."""
