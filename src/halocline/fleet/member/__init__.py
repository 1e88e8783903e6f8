"""The clients of a fleet: a driver that is a member of it, and an operator's program.

A *link* is one caller's connection, from the handshake on. A member's *loop* joins over its link and keeps the lease
alive in the background. The *handle* is what a program holds of its fleet, and the *gatekeeper* is asked on its behalf
before a table requires more. The *admin client* asks questions and gives commands.

Promise: a gate is open only while the lease runs, up to a level that was heard. While the fleet is not reached, reads
and writes go on and nothing new is switched on. After a refusal nothing more is sent.

Limit: the driver is the member. Executors open no channel, and a process that forks must join by itself.
"""
