"""Copies of a data set with smaller images, made once so that training decodes less."""
