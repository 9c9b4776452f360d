"""What clients send and what they get: one file for each kind of object."""
