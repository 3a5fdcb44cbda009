"""What can be chosen while somebody types: commands, and files of a project."""
