"""Looks at the program: what is alive, how big it is, where it was made and who keeps it. Reads only."""
