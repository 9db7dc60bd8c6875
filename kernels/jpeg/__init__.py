"""A decoder of baseline JPEG files on the CPU: the pixels of libjpeg-turbo (islow, fancy upsampling), bit for bit.

Formats: JPEG (ITU-T T.81), JFIF (T.871), EXIF 2.32 (CIPA DC-008).
"""
