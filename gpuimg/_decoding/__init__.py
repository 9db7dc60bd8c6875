"""Decoding of images: headers, orientation, and decoders of file bytes."""
