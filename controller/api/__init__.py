"""What a controller answers to each request, and the connections the requests come on."""
