"""The client protocol: what a client and a node say to each other over one TCP stream.

Bytes go in, events come out; messages go in, bytes come out. No file here touches a socket or a clock.

    frames.py    bytes  <->  frames, a length and a body
    messages.py  bodies <->  messages, one struct each
    arrow.py     record batches  <->  bytes inside messages, checked when they come from outside
    flow.py      batches in one direction of one request, paid for with byte credit
    server.py    the node's end of a connection
    client.py    the client's end
"""
