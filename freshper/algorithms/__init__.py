"""Advantages, losses and schedules of policy-gradient algorithms."""
