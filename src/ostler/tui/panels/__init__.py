"""What a person is asked: what would run, what an answer would allow, and fields to fill in."""
