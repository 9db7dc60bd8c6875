"""Random functions, which draw parameters and then call the functions of ``_ops``; the generator they draw from."""
