"""Strict configuration: a schema, cross-field validation, identity. Imports no torch."""
