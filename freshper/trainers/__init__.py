"""Who runs a learner."""
