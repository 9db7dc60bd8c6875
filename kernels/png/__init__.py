"""A decoder of PNG files on the CPU, except for inflating: chunks, row filters, and pixels as they are requested.

Format: PNG, third edition (W3C, 2025).
"""
