# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on idle connections. The attacked programs are victim.c. The outcome does not depend on timing, so the tests
show the effect of a correct guess, and of wrong guesses only."""
import pathlib
import random
import socket
from dataclasses import dataclass

import forge
import segment  # puts tests/system on the path
import apart
import pairs
import patience
from outcome import GOES_ON, Attack, Outcome

PORT = 7471
STRIDE = 1 << 14    # distance between the PSNs of a sweep; so a sweep tries 1024 PSNs, one of each 16384
TRIES = 20
GUESSES = 300       # guesses of keys, for each kind of request
OCTETS = b"forged!!"
HELLO, FORGED = "receive 0 cccccccc", "receive 0 forged!!"
BAD_RESPONSE, INVALID_ERROR, ACCESS_ERROR, REMOTE_ERROR = 7, 9, 10, 11  # enum ibv_wc_status
ANSWER_ERRORS = [f"request {status} -" for status in (BAD_RESPONSE, INVALID_ERROR, ACCESS_ERROR,
                                                      REMOTE_ERROR)]
NEVER = "none"


class Unexpected(Exception):
    """The outcome differs from the expected outcome."""


def expect(what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise Unexpected(f"{what}: {found!r}, not {wanted!r}")


def is_rep(roce: bytes) -> bool:
    return roce[5:8] == b"\0\0\1" and roce[36:38] == b"\0\x13"


class Voice:
    """The control connection of one attacked process: commands to it, and its answers."""

    def __init__(self, path: pathlib.Path, process) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(patience.seconds(60))
        if not pairs.wait_for(lambda: process.poll() is not None or self.called(path), 20):
            raise Unexpected(f"{path.name} does not answer")
        self.file = self.line.makefile("r")

    def called(self, path: pathlib.Path) -> bool:
        try:
            self.line.connect(str(path))
        except OSError:
            return False
        return True

    def write(self, line: str) -> None:
        self.line.sendall(line.encode() + b"\n")

    def read(self) -> str:
        return self.file.readline().strip()

    def ask(self, line: str) -> str:
        self.write(line)
        return self.read()


@dataclass
class Connection:
    """The numbers of both ends. `due` is the PSN that the server expects next."""
    server: int
    client: int
    server_qpn: int
    client_qpn: int
    due: int


class Stage:
    """A segment with two attacked processes."""

    def __init__(self, place: segment.Segment, build: pathlib.Path) -> None:
        victim = str(build / "tests" / "attack" / "victim")
        self.place = place
        self.asked = 0
        self.processes = {}
        for role, end in {"server": ["-a", "10.0.0.1"], "client": ["10.0.0.1"]}.items():
            self.processes[role] = place.start(role, [victim, "-s", str(self.path(role)), "-p", str(PORT), *end])
        self.voices = {role: Voice(self.path(role), process) for role, (process, _) in self.processes.items()}
        self.server, self.client = self.voices["server"], self.voices["client"]

    def path(self, role: str) -> pathlib.Path:
        return self.place.where / f"{role}.voice"

    def connect(self) -> Connection:
        self.server.write("accept")
        self.client.write("connect")
        passive, active = (voice.read().split() for voice in (self.server, self.client))
        if len(passive) != 4 or len(active) != 4:
            raise Unexpected(f"no connection: {passive}, {active}")
        made = Connection(int(passive[0]), int(active[0]), int(passive[1]), int(active[1]),
                          int(passive[2]))
        self.exchange(made)
        return made

    def exchange(self, on: Connection) -> None:
        """Checks that a message of the client arrives unchanged."""
        self.server.ask(f"post {on.server}")
        self.request(on, "send 0 0 8")
        expect("the server", self.completion("server", on), HELLO)
        expect("the client", self.completion("client", on), "request 0 -")

    def request(self, on: Connection, words: str) -> None:
        self.client.ask(f"request {on.client} {words}")
        on.due = on.due + 1 & forge.PSN_MASK

    def completion(self, role: str, on: Connection, wait_ms: int = 20000) -> str:
        return self.voices[role].ask(f"completion {getattr(on, role)} {wait_ms}")

    def ids(self) -> tuple[bytes, bytes]:
        """Returns the communication IDs of the latest connection: (ID of the server, ID of the client), read from packets."""
        found = None
        while (seen := self.place.overhear(is_rep, 1)) is not None:
            found = seen
        if found is None:
            raise Unexpected("no REP was overheard")
        return found[86:90], found[90:94]

    def state(self, on: Connection) -> tuple[str, str]:
        return tuple(self.voices[role].ask(f"state {getattr(on, role)}")
                     for role in ("server", "client"))

    def untouched(self) -> None:
        for role, voice in self.voices.items():
            expect(f"memory of the {role}", voice.ask("memory"), "same")

    def goes_on(self, on: Connection) -> str:
        """Checks that neither side got a completion or event, and that the connection still works."""
        for role in self.voices:
            expect(f"the {role}", self.completion(role, on, 0), NEVER)
        self.exchange(on)
        self.untouched()
        return GOES_ON

    def expect_receive(self, role: str, on: Connection) -> None:
        """Waits until the attacked process has processed all forged packets. For that, sends a DREQ for a connection that does
        not exist, and waits for its DREP."""
        for number in range(1, TRIES + 1):
            self.asked += 1
            tid = self.asked.to_bytes(8, "big")
            self.place.attacker.send(forge.cm_message(self.known(on, role), "DREQ", {}, tid=tid))
            if self.place.overhear(lambda roce: roce[5:8] == b"\0\0\1" and roce[28:36] == tid,
                                   number, role) is not None:
                return
        raise Unexpected(f"the {role} does not receive")

    def settle(self, on: Connection) -> None:
        for role in self.voices:
            self.expect_receive(role, on)

    def known(self, on: Connection, victim: str, psn: int = 0) -> forge.Known:
        address = {role: a[0].split("/")[0] for role, a in apart.ADDRESSES.items()}
        other = {"server": "client", "client": "server"}[victim]
        return forge.Known(self.place.mac(victim), address[other], address[victim],
                           getattr(on, f"{victim}_qpn"), psn)

    def keys(self) -> tuple[int, int, int, int, int]:
        return tuple(int(word) for word in self.server.ask("keys").split())

    def end(self) -> None:
        for role, voice in self.voices.items():
            voice.write("end")
            self.place.finish(role, *self.processes[role], 20)


def swept(due: int, lucky: bool) -> list[int]:
    """Returns every STRIDE-th PSN. With @lucky, the expected PSN is among them."""
    first = (due if lucky else due + STRIDE // 2) % STRIDE
    return list(range(first, 1 << 24, STRIDE))


# ---- requests --------------------------------------------------------------------------------------

def requests(known: forge.Known, psns, rng, kinds) -> list[bytes]:
    frames = []
    for i, psn in enumerate(psns):
        va, rkey = rng.getrandbits(47) & ~7, rng.getrandbits(32)
        frames.append(forge.request(known, kinds[i % len(kinds)], va, rkey, psn=psn))
    return frames


def request_psns(stage: Stage, rng) -> tuple[int, str]:
    on = stage.connect()
    frames = requests(stage.known(on, "server"), swept(on.due, False), rng, list(forge.REQUESTS))
    thrown = stage.place.throw(frames)
    stage.settle(on)
    return thrown, stage.goes_on(on)


def send_hits(stage: Stage, rng) -> tuple[int, str]:
    """Sends a message that is accepted in place of the peer's next message. The peer's message then counts as a duplicate."""
    on = stage.connect()
    stage.server.ask(f"post {on.server}")
    frames = requests(stage.known(on, "server"), swept(on.due, True), rng, ["SEND"])
    thrown = stage.place.throw(frames)
    expect("the server", stage.completion("server", on), FORGED)
    stage.request(on, "send 0 0 8")
    expect("the client", stage.completion("client", on), "request 0 -")
    expect("the server", stage.completion("server", on, 0), NEVER)
    stage.untouched()
    return thrown, "one message is the attacker's"


def key_guesses(stage: Stage, rng) -> tuple[int, str]:
    """Sends requests with guessed keys. The first wrong guess ends the connection, so each connection allows one guess."""
    thrown = 0
    for kind in forge.REQUESTS:
        if kind == "SEND":
            continue
        on = stage.connect()
        frames = requests(stage.known(on, "server"), [on.due] * GUESSES, rng, [kind])
        thrown += stage.place.throw(frames)
        stage.settle(on)
        expect(kind, stage.state(on)[0], "error")
        stage.untouched()
    return thrown, "fails at the first guess, memory unchanged"


def key_psns(stage: Stage, rng) -> tuple[int, str]:
    """Sends requests with wrong keys, and with many PSNs. One of them is the expected PSN."""
    on = stage.connect()
    frames = requests(stage.known(on, "server"), swept(on.due, True), rng, ["WRITE", "READ"])
    thrown = stage.place.throw(frames)
    stage.settle(on)
    expect("the server", stage.state(on)[0], "error")
    stage.untouched()
    return thrown, "fails at the first correct guess, memory unchanged"


def all_known(stage: Stage, rng) -> tuple[int, str]:
    """Sends a WRITE in which all numbers are correct. It must change the memory, so the forged frames are valid."""
    del rng
    on = stage.connect()
    va, rkey, *_ = stage.keys()
    thrown = stage.place.throw([forge.request(stage.known(on, "server"), "WRITE", va, rkey,
                                              psn=on.due)])
    stage.settle(on)
    expect("memory of the server", stage.server.ask("memory"), "0")
    expect("the server", stage.state(on)[0], "connected")
    return thrown, "accepts the WRITE, as from the peer"


# ---- responses -------------------------------------------------------------------------------------

ANSWERS = {"ACK": [(forge.ACK, forge.aeth(0x1f))],
           "NAK": [(forge.ACK, forge.aeth(0x60 + code)) for code in range(1, 4)],
           "RNR": [(forge.ACK, forge.aeth(0x20 + 1))],
           "READ": [(forge.READ_ONLY_RESPONSE, forge.aeth(0x1f) + OCTETS)]}


def answers(kind: str, lucky: bool):
    """Returns an attack that sends responses to a client whose message does not arrive, because the server is disconnected from
    the segment."""
    def attack(stage: Stage, rng) -> tuple[int, str]:
        on = stage.connect()
        psn = on.due
        known = stage.known(on, "client")
        frames = [forge.frame(known, *rng.choice(ANSWERS[kind]), psn=at) for at in swept(psn, lucky)]
        stage.server.ask(f"post {on.server}")
        with stage.place.without("server"):
            stage.request(on, "send 0 0 8")
            thrown = stage.place.throw(frames)
            stage.expect_receive("client", on)
            found = stage.completion("client", on, 0)
        if lucky and kind != "RNR":
            return thrown, believed(stage, on, kind, found)
        expect("the client", found, NEVER)
        expect("the server", stage.completion("server", on), HELLO)
        expect("the client", stage.completion("client", on), "request 0 -")
        return thrown, stage.goes_on(on)
    return attack


def believed(stage: Stage, on: Connection, kind: str, found: str) -> str:
    stage.untouched()
    if kind == "ACK":
        expect("the client", found, "request 0 -")
        expect("the server", stage.completion("server", on, 0), NEVER)
        return "one message is lost"
    if found not in ANSWER_ERRORS:
        raise Unexpected(f"the client: {found}")
    expect("the client", stage.state(on)[1], "error")
    return "fails at the first correct guess, memory unchanged"


# ---- peers -----------------------------------------------------------------------------------------

def peers_tries(stage: Stage, va: int, rkey: int, size: int) -> list[tuple[str, str]]:
    """Returns a list of (forbidden action of a peer, command that makes the client try it)."""
    foreign_va, foreign_key = stage.keys()[2:4]
    other = stage.connect()
    window = int(stage.server.ask(f"window {other.server}"))
    stage.request(other, f"read {va} {window} 64")
    expect("the owner of the window", stage.completion("client", other), "request 0 -")
    expect("what is read", stage.client.ask("landing"), "read")
    tries = [(f"{kind} with a key of another protection domain",
              f"{kind} {foreign_va} {foreign_key} 8") for kind in ("read", "write", "fetch_add")]
    tries += [(f"{kind} through another queue pair's window", f"{kind} {va} {window} 8")
              for kind in ("read", "write")]
    for kind in ("read", "write"):
        tries += [(f"{kind} from one byte before the region", f"{kind} {va - 1} {rkey} 8"),
                  (f"{kind} to one byte beyond the region", f"{kind} {va + size - 7} {rkey} 8"),
                  (f"{kind} whose address wraps", f"{kind} {(1 << 64) - 4} {rkey} 8")]
    return tries


def peer(stage: Stage, rng) -> tuple[int, str]:
    """Makes the client itself attack, with valid numbers that it must not use."""
    del rng
    stage.connect()
    va, rkey, _, _, size = stage.keys()
    tries = peers_tries(stage, va, rkey, size)
    for what, words in tries:
        on = stage.connect()
        stage.request(on, f"read {va} {rkey} {size}")
        expect("the whole region", stage.completion("client", on), "request 0 -")
        expect("what is read", stage.client.ask("landing"), "read")
        stage.request(on, words)
        expect(what, stage.completion("client", on), f"request {ACCESS_ERROR} -")
        expect(what, stage.state(on)[0], "error")
        expect("what is read", stage.client.ask("landing") if "read" in what else "same", "same")
    stage.untouched()
    return len(tries), "fails at each attempt, memory unchanged"


def shared_domain(stage: Stage, rng) -> tuple[int, str]:
    """Makes a peer use the key of another connection in the same protection domain."""
    del rng
    stage.connect()
    va, rkey, *_ = stage.keys()
    on = stage.connect()
    stage.request(on, f"read {va} {rkey} 8")
    expect("the client", stage.completion("client", on), "request 0 -")
    expect("what is read", stage.client.ask("landing"), "read")
    return 1, "allows the READ: same protection domain"


def run(build: pathlib.Path, attack: Attack) -> Outcome:
    with segment.Segment(build / "app" / "uroce") as place:
        stage, thrown, effect, detail = None, 0, "is not as expected", ""
        try:
            stage = Stage(place, build)
            thrown, effect = attack.make(stage, random.Random(1))
            stage.end()
        except (Unexpected, OSError) as why:
            detail = str(why)
        said = "".join(place.said(role) for role in apart.ADDRESSES)
    return Outcome(attack, thrown, effect, said, detail and f"{detail}\n{said}")


ENDS = "fails at the first correct guess, memory unchanged"
QPN, PSN = "addresses, queue pair", "addresses, queue pair, PSN"
STALE = ["drop_ghost_ack", "drop_stale_response"]


def quiet(name: str, knows: str, make, effect: str, counted=(), **exactly: int) -> Attack:
    return Attack(name, knows, run, make, list(counted), exactly, effect)


ATTACKS = [
    quiet("PSNs of SEND, WRITE, READ, atomics swept, none right", QPN, request_psns, GOES_ON,
          ["far_request"]),
    quiet("PSNs of SEND swept, one right", QPN, send_hits, "one message is the attacker's",
          ["far_request"]),
    quiet("PSNs of WRITE, READ swept, one right, keys tried", QPN, key_psns, ENDS,
          ["far_request", "drop_state"], access_refused=1, qp_failed=1),
    quiet("keys of WRITE, READ, atomics tried", PSN, key_guesses,
          "fails at the first guess, memory unchanged", ["drop_state"], access_refused=3,
          qp_failed=3),
    quiet("a right WRITE", PSN + ", key", all_known, "accepts the WRITE, as from the peer",
          rx_write_requests=1),
    quiet("PSNs of ACKs swept, none right", QPN, answers("ACK", False), GOES_ON, STALE),
    quiet("PSNs of NAKs swept, none right", QPN, answers("NAK", False), GOES_ON, STALE),
    quiet("PSNs of RNR NAKs swept, none right", QPN, answers("RNR", False), GOES_ON, STALE,
          rcvd_rnr_err=0),
    quiet("PSNs of READ answers swept, none right", QPN, answers("READ", False), GOES_ON, STALE),
    quiet("PSNs of ACKs swept, one right", QPN, answers("ACK", True), "one message is lost", STALE),
    quiet("PSNs of NAKs swept, one right", QPN, answers("NAK", True), ENDS,
          [*STALE, "drop_state"]),
    quiet("PSNs of RNR NAKs swept, one right", QPN, answers("RNR", True), GOES_ON, STALE,
          rcvd_rnr_err=1),
    quiet("PSNs of READ answers swept, one right", QPN, answers("READ", True), ENDS,
          [*STALE, "drop_state"]),
    quiet("a peer with keys and ranges that are not for it", "all that a peer knows", peer,
          "fails at each attempt, memory unchanged", access_refused=11),
    quiet("a peer with the key of another connection of the protection domain", "its key",
          shared_domain, "allows the READ: same protection domain", rx_read_requests=1, access_refused=0),
]
