"""The three real servers that come as wheels, each described as a Program.

Every one listens on loopback alone and asks for a password.  None of them may be started by its
wheel's own Python helper: those add system users, open folders to the world, or fix the port.
"""
