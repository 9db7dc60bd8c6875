"""What a batch is of: pixels, encoded images and clips, and views of them."""
