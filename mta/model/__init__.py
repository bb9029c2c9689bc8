"""The frozen vocabulary: values that every other package speaks in. No I/O, no clock, no randomness."""
