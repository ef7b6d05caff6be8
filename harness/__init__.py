"""What runs: measurement, search, surrogates and the command line."""
