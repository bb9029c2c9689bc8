"""One claim after the other: resolve, route, attempt, classify, settle (RFC 5321 sections 3.3, 4.5.4, 5)."""
