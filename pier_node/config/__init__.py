"""A node's configuration: see `knobs.py` for what there is, `load.py` for where it comes from."""

from pier_node.config.knobs import Config
from pier_node.config.load import ConfigError, load
from pier_node.config.sources import SourceSpec, parse_source

__all__ = ["Config", "ConfigError", "SourceSpec", "load", "parse_source"]
