"""Training a surrogate with rewards: rewards, policy gradient, the compact policy, and the loop that trains it."""
