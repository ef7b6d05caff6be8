"""The leaderboard: submissions are forecasts, and every score is recomputed from them."""
