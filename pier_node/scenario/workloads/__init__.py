"""The workloads that come with the product, one file each, named like its kind."""
