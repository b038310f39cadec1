"""One UDP socket: batches of datagrams to a peer in one system call each way where the kernel can.

GSO (`UDP_SEGMENT`) sends a run of equally long datagrams, the last of which may be shorter, as one; GRO
(`UDP_GRO`) receives such a run as one. Both are tried at the start and given up at the first refusal, after
which every datagram takes a call of its own.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator, Sequence

from runtime.api import Address
from runtime.native.address import AddressError, SockAddr, family_of, from_sockaddr, to_sockaddr

#: From linux/udp.h.
UDP_SEGMENT, UDP_GRO = 103, 104
#: Datagrams in one GSO call: the kernel's UDP_MAX_SEGMENTS, of old.
SEGMENTS_MAX = 64
#: Bytes in one GSO call: a UDP datagram's largest payload.
RUN_BYTES_MAX = 65_507
#: Asked of the kernel for each direction; it grants up to net.core.[rw]mem_max.
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
#: Addresses remembered in both forms; the caches start over beyond.
ADDRESSES_MAX = 16_384
_ANCILLARY_BYTES = socket.CMSG_SPACE(4)
_U16 = struct.Struct("=H")
_INT = struct.Struct("=i")


class UdpSocket:
    def __init__(self, bind: Address, *, offload: bool = True) -> None:
        """Raises OSError when the address cannot be had. `offload=False` does without GSO and GRO."""
        self.family = family_of(bind)
        self.socket = socket.socket(self.family, socket.SOCK_DGRAM)
        try:
            self.socket.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                self.socket.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
            if self.family == socket.AF_INET6:
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.socket.bind(to_sockaddr(bind, self.family))
        except BaseException:
            self.socket.close()
            raise
        self.gso = offload and self._supports(UDP_SEGMENT, 0)
        self.gro = offload and self._supports(UDP_GRO, 1)
        self.sends = self.receives = 0
        self.datagrams_sent = self.datagrams_received = 0
        #: Datagrams not sent, by the reason.
        self.unsent: dict[str, int] = {}
        # One buffer for good: allocating the largest size for each call makes malloc grow and trim the heap.
        self._view = memoryview(bytearray(65_536))
        self._buffers = [self._view]
        self._to_sockaddr: dict[Address, SockAddr] = {}
        self._to_address: dict[SockAddr, Address] = {}

    def _supports(self, option: int, value: int) -> bool:
        try:
            self.socket.setsockopt(socket.IPPROTO_UDP, option, value)
        except OSError:
            return False
        return True

    @property
    def address(self) -> Address:
        return from_sockaddr(self.socket.getsockname())

    def send_many(self, to: Address, datagrams: Sequence[bytes]) -> None:
        """What the kernel does not take is dropped and counted, as a network does."""
        sockaddr = self._to_sockaddr.get(to)
        if sockaddr is None:
            try:
                sockaddr = to_sockaddr(to, self.family)
            except AddressError:
                self._not_sent("bad_address", len(datagrams))
                return
            if len(self._to_sockaddr) >= ADDRESSES_MAX:
                self._to_sockaddr.clear()
            self._to_sockaddr[to] = sockaddr
        count = len(datagrams)
        if count == 1 or not self.gso:
            for datagram in datagrams:
                self._send((datagram,), 0, sockaddr)
            return
        for run in runs(datagrams):
            self._send(run, len(run[0]) if len(run) > 1 else 0, sockaddr)

    def _send(self, run: Sequence[bytes], segment: int, sockaddr: SockAddr) -> None:
        self.sends += 1
        try:
            if segment:
                ancillary = [(socket.IPPROTO_UDP, UDP_SEGMENT, _U16.pack(segment))]
                self.socket.sendmsg(run, ancillary, 0, sockaddr)
            else:
                self.socket.sendto(run[0], sockaddr)
            self.datagrams_sent += len(run)
        except OSError as error:
            if segment and error.errno in (errno.EIO, errno.EINVAL, errno.EOPNOTSUPP, errno.EMSGSIZE):
                self.gso = False
                for datagram in run:
                    self._send([datagram], 0, sockaddr)
            else:
                self._not_sent(errno.errorcode.get(error.errno or 0, "unknown"), len(run))

    def _not_sent(self, reason: str, count: int) -> None:
        self.unsent[reason] = self.unsent.get(reason, 0) + count

    def receive(self, batch: list[tuple[Address, bytes]]) -> bool:
        """Adds what one system call yields. False: nothing is there."""
        try:
            size, ancillary, _, sockaddr = self.socket.recvmsg_into(self._buffers, _ANCILLARY_BYTES)
        except OSError:
            # Nothing there, or an error report about a datagram sent earlier: neither is a datagram.
            return False
        self.receives += 1
        data = self._view[:size].tobytes()
        sender = self._to_address.get(sockaddr)
        if sender is None:
            if len(self._to_address) >= ADDRESSES_MAX:
                self._to_address.clear()
            sender = self._to_address[sockaddr] = from_sockaddr(sockaddr)
        segment = _INT.unpack(ancillary[0][2][:4])[0] if ancillary else 0
        before = len(batch)
        if 0 < segment < len(data):
            batch.extend((sender, data[at : at + segment]) for at in range(0, len(data), segment))
        else:
            batch.append((sender, data))
        self.datagrams_received += len(batch) - before
        return True

    def close(self) -> None:
        self.socket.close()


def runs(datagrams: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Splits datagrams into runs that one GSO call may carry, in order."""
    run: list[bytes] = []
    size = total = 0
    for datagram in datagrams:
        length = len(datagram)
        if run and (length > size or len(run) == SEGMENTS_MAX or total + length > RUN_BYTES_MAX):
            yield run
            run, total = [], 0
        if not run:
            size = length
        run.append(datagram)
        total += length
        if length < size:
            yield run
            run, total = [], 0
    if run:
        yield run
