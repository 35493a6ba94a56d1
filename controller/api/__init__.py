"""The answers of a controller to each request, and the connections that requests come on."""
