"""The seek index: a file beside a data set that says where in its JPEG files the rows of blocks begin."""
