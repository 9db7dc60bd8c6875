"""gpuimg inside other libraries, which are imported by the modules here only."""
