"""Settings of the environments, one file per family; `freshper.config.env.EnvConfig` is their union."""
