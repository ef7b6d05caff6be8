"""The release of the paper (arXiv 2605.31464), read from its five datasets and written in KernelCast's tables."""
