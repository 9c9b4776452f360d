"""The laws where the database sees them: actors on real functions, lightning, and a witness."""
