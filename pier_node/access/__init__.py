"""Who may do what at a node's door: tokens, roles, rights and rates."""
