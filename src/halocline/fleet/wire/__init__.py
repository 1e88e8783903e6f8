"""The wire between a fleet and its clients, the only room that knows protobuf.

A *peer* is one end of the wire with what it provides and requires; in the *handshake* both ends judge each other. A
*call* is a request and its answer, each a value on either end and bytes in between. A refusal travels as a gRPC
status, and an *endpoint* is where a fleet is reached.

Promise: what arrives from outside is bounded and checked here, once. Field numbers and names of a released message
never change.

Limit: a client trusts the coordinator that it has chosen; its answers are bounded in size only.
"""
