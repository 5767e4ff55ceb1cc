"""Prioritised replay with freshness: decay laws, priorities, an exact index, packed storage. Imports no torch."""
