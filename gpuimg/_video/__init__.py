"""Video files: indexes of frames, selection of frames for clips, and exact decoding."""
