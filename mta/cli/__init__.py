"""The command line: arguments, and what a person sees."""
