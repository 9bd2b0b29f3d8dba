"""Attacks that aim at talking to anybody but the parent. Targets are the test's own listeners."""

from __future__ import annotations

import ctypes
import os
import struct

from .calls import LIBC, NULL, call, raw, try_call
from .table import Bait, Outcome, attack, opened, read, refused

UNIX, INET, INET6, NETLINK, PACKET, BLUETOOTH, ALG, VSOCK = 1, 2, 10, 16, 17, 31, 38, 40
STREAM, DATAGRAM, RAW, SEQPACKET = 1, 2, 3, 5


def _connect(family: int, kind: int, address: bytes, protocol: int = 0) -> Outcome:
    descriptor, number = call("socket", family, kind, protocol)
    if descriptor < 0:
        return refused(number)
    buffer = ctypes.create_string_buffer(address, len(address))
    result, number = call("connect", descriptor, buffer, len(address))
    os.close(descriptor)
    return refused(number) if result < 0 else opened()


def _unix(path: bytes) -> bytes:
    return struct.pack("<H", UNIX) + path


def _inet(port: int, host: bytes = b"\x7f\x00\x00\x01") -> bytes:
    return struct.pack("<H", INET) + struct.pack(">H", port) + host + bytes(8)


@attack("stage two", "EPERM", control=True)
def tcp_to_host_loopback(bait: Bait) -> Outcome:
    return _connect(INET, STREAM, _inet(bait["tcp_port"]))


@attack("stage two", "EPERM")
def tcp_to_the_outside(bait: Bait) -> Outcome:
    return _connect(INET, STREAM, _inet(9, b"\xc0\x00\x02\x01"))  # 192.0.2.1: nobody's, RFC 5737


@attack("stage two", "EPERM", control=True)
def udp_socket(bait: Bait) -> Outcome:
    return _connect(INET, DATAGRAM, _inet(bait["tcp_port"]))


@attack("stage two", "EPERM")
def tcp_over_ipv6(bait: Bait) -> Outcome:
    address = struct.pack("<H", INET6) + struct.pack(">H", 9) + bytes(4) + bytes(15) + b"\x01"
    return _connect(INET6, STREAM, address + bytes(4))


@attack("stage two", "EPERM", control=True)
def unix_socket_by_path(bait: Bait) -> Outcome:
    return _connect(UNIX, STREAM, _unix(bait["unix_path"].encode() + b"\0"))


@attack("stage two", "EPERM", control=True)
def unix_socket_abstract(bait: Bait) -> Outcome:
    return _connect(UNIX, STREAM, _unix(b"\0" + bait["abstract_name"].encode()))


@attack("stage two", "EPERM")
def system_bus(bait: Bait) -> Outcome:
    return _connect(UNIX, STREAM, _unix(b"/run/dbus/system_bus_socket\0"))


@attack("stage two", "EPERM")
def x11_by_path(bait: Bait) -> Outcome:
    return _connect(UNIX, STREAM, _unix(b"/tmp/.X11-unix/X0\0"))


@attack("stage two", "EPERM")
def x11_abstract(bait: Bait) -> Outcome:
    return _connect(UNIX, STREAM, _unix(b"\0/tmp/.X11-unix/X0"))


@attack("stage two", "EPERM", control=True)
def netlink_route(bait: Bait) -> Outcome:
    return try_call("socket", NETLINK, RAW, 0)


@attack("stage two", "EPERM", control=True)
def netlink_uevents(bait: Bait) -> Outcome:
    return try_call("socket", NETLINK, RAW, 15)


@attack("stage two", "EPERM")
def vsock(bait: Bait) -> Outcome:
    return try_call("socket", VSOCK, STREAM, 0)


@attack("stage two", "EPERM")
def packet_socket(bait: Bait) -> Outcome:
    return try_call("socket", PACKET, RAW, 0x300)


@attack("stage two", "EPERM")
def kernel_crypto_socket(bait: Bait) -> Outcome:
    return try_call("socket", ALG, SEQPACKET, 0)


@attack("stage two", "EPERM")
def bluetooth_socket(bait: Bait) -> Outcome:
    return try_call("socket", BLUETOOTH, RAW, 1)


@attack("stage two", "EPERM")
def raw_icmp_socket(bait: Bait) -> Outcome:
    return try_call("socket", INET, RAW, 1)


@attack("stage two", "EPERM", control=True)
def listen_on_a_unix_socket(bait: Bait) -> Outcome:
    descriptor, number = call("socket", UNIX, STREAM, 0)
    if descriptor < 0:
        return refused(number)
    address = _unix(b"\0gg-engine-listens-%d" % os.getpid())
    LIBC.bind(descriptor, address, len(address))
    outcome = try_call("listen", descriptor, 1)
    os.close(descriptor)
    return outcome


@attack("seccomp", "EPERM", control=True)
def socket_pair(bait: Bait) -> Outcome:
    return try_call("socketpair", UNIX, STREAM, 0, (ctypes.c_int * 2)())


@attack("seccomp", "EPERM")
def reconnect_the_channel(bait: Bait) -> Outcome:
    address = _unix(bait["unix_path"].encode() + b"\0")
    return try_call("connect", bait["channel"], address, len(address))


@attack("seccomp", "EPERM")
def bind_the_channel(bait: Bait) -> Outcome:
    address = _unix(b"\0gg-engine-channel-%d" % os.getpid())
    return try_call("bind", bait["channel"], address, len(address))


@attack("seccomp", "EPERM")
def accept_on_the_channel(bait: Bait) -> Outcome:
    return try_call("accept", bait["channel"], NULL, NULL)


@attack("seccomp", "EPERM")
def options_of_the_channel(bait: Bait) -> Outcome:
    pass_credentials = ctypes.c_int(1)
    result, number = raw(54, bait["channel"], 1, 16, ctypes.byref(pass_credentials), 4)
    return refused(number) if result < 0 else opened()


@attack("seccomp", "EPERM", control=True)
def many_messages_in_one_call(bait: Bait) -> Outcome:
    return try_call("sendmmsg", bait["channel"], NULL, 0, 0)


@attack("-", expected="read")
def counters_of_the_loopback(bait: Bait) -> Outcome:
    with open("/proc/self/net/dev", encoding="ascii") as file:
        return read(file.read())
