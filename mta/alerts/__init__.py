"""Ways to call a person that are no mail: a program, a web server."""
