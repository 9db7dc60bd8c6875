"""Decoders of baseline and progressive JPEGs on the CPU: exactly the pixels of libjpeg-turbo (islow, fancy upsampling).

Formats: JPEG (ITU-T T.81), JFIF (T.871), EXIF 2.32 (CIPA DC-008).
"""
