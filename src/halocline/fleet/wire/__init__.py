"""The wire: messages, the handshake, refusals as statuses, and where a fleet is reached."""
