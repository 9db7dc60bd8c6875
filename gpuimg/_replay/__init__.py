"""Recorded plans as files and in words."""
