"""May a call run? First rules decide, then the profile, for each part of a command."""
