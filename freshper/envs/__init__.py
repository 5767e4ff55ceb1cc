"""Text environments: gymnasium.Env with text observations and text actions, one file per family."""
