"""Build the machine code that wheels bring; nothing here is installed."""
