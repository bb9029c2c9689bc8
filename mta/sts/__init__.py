"""MTA-STS policies, from the web servers that have them."""
