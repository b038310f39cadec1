"""What a node brings to the ring: files, databases and logs as tables of its own (rows D1, D2). The edge to disks."""
