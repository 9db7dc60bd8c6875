"""The seek index: a file with the positions of the rows of blocks in the JPEG files of a data set."""
