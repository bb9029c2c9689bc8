"""The configuration: TOML in, frozen values out; every mistake at once, each with its key and what was expected.

Nothing is imported here: a command that only asks the daemon needs the control socket's path (`find`) and must not pay
for the models (`load`).
"""
