"""From file bytes to pixels: headers, orientation, decoders."""
