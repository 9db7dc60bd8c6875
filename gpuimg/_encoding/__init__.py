"""Encoding of images as files: options, segments of JPEGs, and encoders of others."""
