"""The same task in five packages, from the code that a user of each writes."""
