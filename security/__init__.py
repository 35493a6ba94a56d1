"""Security, as both ends of a connection share it: who a client is, and which node may speak.

Owns principals, the authorizer, logins, TLS, and the seal of the control plane. Opens no socket,
and knows no request handler; metadata is handed in.
"""
