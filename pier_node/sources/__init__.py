"""What a node brings to the ring: files, databases and logs as tables of its own. The edge to disks."""
