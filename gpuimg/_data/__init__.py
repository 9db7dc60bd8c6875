"""The data of a batch: pixels, encoded images and clips, and selections of them."""
