"""What a run writes and how it is read back: folder and lock, status, provenance, metrics, samples, curve, summary.

Imports neither torch nor ray. ``records`` is read by every other room.
"""
