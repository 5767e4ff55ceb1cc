"""Maths problems with a checked answer and several tries: GSM8K, AIME."""
