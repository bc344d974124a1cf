"""The network of what is confined to named hosts: `network_proxy.py` decides about each connection, outside the sandbox;
`proxy_socket.py` is the one way from inside to it.
"""
