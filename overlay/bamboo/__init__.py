"""Bamboo: a ring that keeps routing while its nodes come and go (PIER 2.3.1)."""

from overlay.bamboo.config import BambooConfig
from overlay.bamboo.messages import MESSAGES
from overlay.bamboo.router import BambooRouter

__all__ = ["MESSAGES", "BambooConfig", "BambooRouter"]
