"""The runtime on a real host: trio, one UDP socket, one timer heap, threads for long computations."""

from runtime.native.address import AddressError, format_address, is_loopback, split_address
from runtime.native.memory import settle
from runtime.native.process import NativeRuntime, open_native
from runtime.native.statistics import NativeStatistics

__all__ = [
    "AddressError",
    "NativeRuntime",
    "NativeStatistics",
    "format_address",
    "is_loopback",
    "open_native",
    "settle",
    "split_address",
]
