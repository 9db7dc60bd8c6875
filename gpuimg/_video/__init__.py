"""Video files: where their frames are, which of them a clip takes, and decoding exactly these."""
