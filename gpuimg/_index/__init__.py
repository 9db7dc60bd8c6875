"""Seek indexes: where the parts of each sample's JPEG begin."""
