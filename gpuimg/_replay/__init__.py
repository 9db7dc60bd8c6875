"""Recorded plans as files and as text."""
