"""The coordinator of a fleet: the service behind gRPC and HTTP, who may do what, and what is answered.

A *coordinator* joins the pure core to a store and a clock; the *service* orders all that arrives in one queue. It is
*active* while it holds the lease on the store, and stands by otherwise. A caller shows a secret or a certificate once
and gets a *token* with its *rights*; a member then has a *session*.

Promise: no caller is told anything before it is written, and only the active coordinator writes.

Limit: one process decides. Several share a database and take over from each other; they do not share the load.
"""
