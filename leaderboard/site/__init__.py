"""The site: the whole leaderboard as one static page, with no server and no network."""
