"""Language models as surrogates: one prompt, two ways to reach a model (an endpoint, or weights on disk)."""
