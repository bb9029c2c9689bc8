"""What is given to the daemon, and what its parts exchange: protocols and values, no implementations.

Real ones are built by `app`, simulated ones by the tests. `system`: time, chance, keys, this machine, who is told; `names`:
the name service; `sts`: policies from the web; `smtp`: outbound sessions; `scheduling`: what a delivery is to the scheduler.
"""
