"""The program that `tenure demo` runs."""
