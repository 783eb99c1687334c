# SPDX-License-Identifier: BSD-3-Clause
"""The two sides of an interop case. A side runs programs under uroce, or in a guest with Linux rxe."""
import ipaddress
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"))
import patience  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RXE_PEER = ROOT / "tools" / "lib" / "rxe-peer" / "rxe-peer"
GUEST_PORT = 18601  # TCP port of servers in the guest; 127.0.0.1 of the namespace forwards it
UROCE_PORT = 18602  # TCP port of servers under uroce; the guest reaches the namespace at 10.0.2.2
LISTEN_SECONDS = 15
SERVER_GRACE = 15  # time in which a server must end after its client, seconds
SHOWN_LINES = 12
GUEST_LIFE = 14400  # time after which the guest ends by itself, seconds
CLOSED = 1  # offset from the port of a side to a port without a listener
# Settings of uroce's device. On a loaded machine, an emulated peer may not respond for seconds. Linux rxe retries for ever, too, if
# the retry count is 7.
USUAL = ";retry_7=forever"
OUR_PROGRAMS = ("verify", "services", "partings")

# Each direction has a queueing discipline that affects only the packets of the filter, not ARP and other packets. Packets from the
# guest go through netem on a band of eth0. Packets to the guest are redirected through ifb0.
IMPAIR = """
set -e
for m in ifb sch_ingress act_mirred cls_flower cls_u32 sch_netem sch_prio; do modprobe $m; done
ip link set ifb0 up
tc qdisc del dev eth0 root 2>/dev/null || :
tc qdisc del dev eth0 ingress 2>/dev/null || :
tc qdisc del dev ifb0 root 2>/dev/null || :
[ -n "{out}" ] || exit 0
tc qdisc add dev eth0 root handle 1: prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
tc qdisc add dev eth0 parent 1:4 netem {out}
tc qdisc add dev eth0 ingress
tc qdisc add dev ifb0 root netem {back}
for p in ip ipv6; do
    tc filter add dev eth0 parent 1: protocol $p {match} classid 1:4
    tc filter add dev eth0 ingress protocol $p {match} \\
        action mirred egress redirect dev ifb0
done
"""

# A device of uroce exists only while its program runs. So the guest's neighbour entry for the device may be stale. The test makes
# the guest resolve it often. Otherwise the guest would wait for seconds until its own next request.
REACH = """
for v in ipv4 ipv6; do
    echo 50 >/proc/sys/net/$v/neigh/eth0/retrans_time_ms
    echo 100 >/proc/sys/net/$v/neigh/eth0/mcast_solicit
done
/bin/ip neigh flush dev eth0
n=0
until [ $n = {pings} ] || ping -c 1 -W 1 {address} >/dev/null 2>&1; do n=$((n + 1)); done
"""
MEET = """
n=0
until rdma resource show cm_id | grep -q LISTEN; do
    n=$((n + 1))
    [ $n -lt 100 ] || exit 0
    usleep 20000
done
"""


# The GID table of rxe has the addresses of its interface, then those of the interface's VLANs.
VLAN = """
modprobe 8021q
[ -e /sys/class/net/eth0.{vlan} ] ||
/bin/ip link add link eth0 name eth0.{vlan} type vlan id {vlan}
/bin/ip address replace 10.77.{vlan}.{number}/24 dev eth0.{vlan}
/bin/ip address replace fd77:{vlan}::{number}/64 dev eth0.{vlan} nodad
/bin/ip link set eth0.{vlan} mtu {mtu} up
"""
GIDS = "cd /sys/class/infiniband/rxe0/ports/1/gids; for i in $(seq 0 15); do echo $(cat $i); done"


class Unavailable(Exception):
    """The reason why a case cannot run: a requirement is missing."""


def done_well(argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, argv))}: {done.stderr.strip() or done.returncode}")
    return done


def must(*argv):
    return done_well(argv).stdout


def noted(*argv):
    """Runs a command like must(), and prints the notes in its standard error."""
    for note in re.findall(r"^[\w-]+: (NOTE: .*)$", done_well(argv).stderr, re.M):
        print(f"# {note}", flush=True)


def listens(tables, port, kind="tcp"):
    """Returns whether the text of /proc/net/@kind shows a listener on @port."""
    state = "0A" if kind == "tcp" else "07"
    for line in tables.splitlines():
        words = line.split()
        if len(words) > 3 and words[1].endswith(f":{port:04X}") and words[3] == state:
            return True
    return False


def finish(side, process, tool, seconds):
    """Waits for a process. Returns its output, and an error, which is "" if it ended in time with status 0."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        side.kill(tool, process)
        out, _ = process.communicate()
        return out, f"not done after {seconds} s"
    return out, "" if process.returncode == 0 else f"status {process.returncode}"


def tail(text):
    return "\n".join("    " + line for line in text.strip().splitlines()[-SHOWN_LINES:])


class Namespace:
    def __init__(self, name):
        self.name = name
        must("ip", "netns", "add", name)
        must("ip", "-n", name, "link", "set", "lo", "up")

    def remove(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def command(self, *argv):
        return ["ip", "netns", "exec", self.name, *map(str, argv)]

    def veth(self, one, other):
        must("ip", "-n", self.name, "link", "add", one, "type", "veth", "peer", "name", other)
        for link in (one, other):
            must(*self.command("sh", "-c",
                               f"echo 1 >/proc/sys/net/ipv6/conf/{link}/disable_ipv6"))
            self.up(link, 1500)

    def up(self, link, mtu):
        must("ip", "-n", self.name, "link", "set", link, "mtu", mtu, "up")


class Side:
    """One side of a test. spawn() runs a command there, and returns a process that this machine can wait for."""

    port = 0
    device = ""
    ours = ""  # directory of uroce's test programs on this side

    scratch = ""  # directory for files of a case on this side

    def where(self, case, host="", other=None):
        """Returns the parameters of a command. The port is that of the server, also for the client."""
        port = (other or self).port
        return {"dev": self.device, "gid": self.gid(case), "ours": self.ours,
                "host": host, "own": self.rdma_address(case), "port": port, "closed": port + CLOSED,
                "peer": other.rdma_address(case) if other else "",
                "copy": f"{(other or self).scratch}/copied"}

    def rdma_address(self, case):
        if case.family == 4:
            return f"10.77.{case.vlan}.{self.number}"
        return f"fd77:{case.vlan}::{self.number}" if case.vlan else f"fd77::{self.number}"

    def gid(self, case):
        return 1 if case.family == 4 else 2

    def listen_tables(self, kind):
        raise NotImplementedError

    def run_beside_programs(self, command):
        """Runs a command that sees the same files as the programs of this side."""
        return self.run(command)

    def reach(self, other, case):
        """Waits until the device of @other responds, if this side can check that. Some servers first listen by TCP, and open their
        device only for a client; such servers are not checked."""

    def wait_meeting(self, process):
        """Waits until @process listens by rdma_cm or has ended, if this side can check that."""

    def take(self):
        """Makes this side use the link."""

    def leave(self):
        """Makes this side stop using the link, so that another side can use it."""

    def dead(self):
        """Returns whether the machine of this side has ended."""
        return False

    def end_all(self):
        """Ends the processes that a case left running."""

    def wait_listening(self, process, kind="tcp"):
        until = time.monotonic() + patience.seconds(LISTEN_SECONDS)
        while process.poll() is None and time.monotonic() < until:
            if listens(self.listen_tables(kind), self.port, kind):
                return True
            time.sleep(0.02)
        return False


class UnderUroce(Side):
    """A side whose programs run under uroce."""

    device = "uroce0"
    link = ""
    mtu = 1500
    settings = USUAL
    vlan = 0
    tagged = True  # false: the device has the addresses of the VLAN, and is not on the VLAN
    held = False  # true: programs run without the right to open raw sockets

    @property
    def addresses(self):
        if self.vlan:
            return (f"10.77.{self.vlan}.{self.number}/24", f"fd77:{self.vlan}::{self.number}/64")
        return (f"10.77.0.{self.number}/24", f"fd77::{self.number}/64")

    def description(self):
        tag = f";vlan={self.vlan}" if self.vlan and self.tagged else ""
        return f"{self.device}:{self.link};ip={','.join(self.addresses)};mtu={self.mtu}{tag}{self.settings}"

    def set_mtu(self, mtu):
        self.mtu = mtu

    def impair(self, impairment):
        pass


class Rxe(Side):
    """A guest with Linux rxe."""

    port = GUEST_PORT
    device = "rxe0"
    ours = "/tmp"
    scratch = "/tmp"

    def __init__(self, name, namespace, kernel, programs, number=2, extra=()):
        self.name, self.namespace, self.number = name, namespace, number
        self.kernel, self.programs, self.extra = kernel, programs, extra
        self.tap = f"rxetap-{name}"
        self.start()

    def start(self):
        """Starts the guest, also after it has ended."""
        noted(RXE_PEER, "start", "-n", self.name, "-k", self.kernel, "-N", self.namespace.name, "-M", 4200,
              "-l", GUEST_LIFE,
              "-4", f"10.77.0.{self.number}/24", "-6", f"fd77::{self.number}/64",
              "-a", f"52:54:00:77:00:{self.number:02x}", *self.extra)
        for program in OUR_PROGRAMS if self.programs else ():
            must(RXE_PEER, "put", "-n", self.name, self.programs / program, f"{self.ours}/{program}")

    def dead(self):
        """Returns whether the guest has ended. Its emulator ends when its kernel ends."""
        try:
            pid = (pathlib.Path(os.environ["UROCE_RXE_DIR"]) / self.name / "pid").read_text().strip()
            return f"rxe-{self.name}".encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True

    def reach(self, other, case):
        if isinstance(other, UnderUroce):
            self.run(REACH.format(address=other.rdma_address(case),
                                  pings=0 if case.meeting.listens else 15))

    def wait_meeting(self, process):
        self.run(MEET)

    def join_vlan(self, vlan, mtu):
        self.run(VLAN.format(vlan=vlan, number=self.number, mtu=mtu))

    def gid(self, case):
        if not case.vlan:
            return super().gid(case)
        wanted = ipaddress.IPv6Address(("::ffff:" if case.family == 4 else "") + self.rdma_address(case)).exploded
        gids = self.run(GIDS).split("\n")
        if wanted not in gids:
            raise Unavailable(f"the guest has no GID {wanted}")
        return gids.index(wanted)

    def spawn(self, command, seconds):
        return subprocess.Popen([RXE_PEER, "exec", "-n", self.name, "-T", str(seconds), command],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", start_new_session=True)

    def run(self, command):
        return must(RXE_PEER, "exec", "-n", self.name, command)

    def kill(self, tool, process):
        """Ends @tool in the guest. Then the `rxe-peer exec` that runs it also ends."""
        self.run(f"killall -9 {tool} 2>/dev/null || :")

    def listen_tables(self, kind):
        return self.run(f"cat /proc/net/{kind} /proc/net/{kind}6")

    def forget_neighbors(self):
        self.run("/bin/ip neigh flush dev eth0")

    def set_mtu(self, mtu):
        self.run(f"/bin/ip link set eth0 mtu {mtu}")
        if self.tap:
            self.namespace.up(self.tap, mtu)

    def impair(self, impairment):
        _, out, back, match = impairment or ("", "", "", "")
        self.run(IMPAIR.format(out=out, back=back, match=match))


class Uroce(UnderUroce):
    """A side with programs under `uroce run`, on an interface of the namespace or another link."""

    def __init__(self, namespace, build, programs, scratch, link, number=1, port=UROCE_PORT):
        self.namespace, self.ours, self.link, self.number = namespace, programs, link, number
        self.scratch = scratch
        self.program = build / "app" / "uroce"
        self.port = port
        self.socket = None  # path of the vhost socket; a killed program does not remove it, so the test does
        self.spawned = []

    def spawn(self, command, seconds):
        del seconds  # the runner kills programs that exceed the time limit
        if self.socket:
            self.socket.unlink(missing_ok=True)
        hold = ("setpriv", "--bounding-set=-net_raw") if self.held else ()
        argv = self.namespace.command(*hold, self.program, "run", "--device", self.description(), "--",
                                      *shlex.split(command))
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        self.spawned = [one for one in self.spawned if one.poll() is None] + [process]
        return process

    def end_all(self):
        for process in self.spawned:
            if process.poll() is None:
                self.kill("", process)
                process.communicate()

    def run(self, command):
        return must(*shlex.split(command))

    def kill(self, tool, process):
        del tool
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def listen_tables(self, kind):
        return must(*self.namespace.command("cat", f"/proc/net/{kind}", f"/proc/net/{kind}6"))


class OverUdp(Uroce):
    """A side over a UDP socket. The kernel's interface has the addresses."""

    def __init__(self, interface, *others):
        super().__init__(*others)
        self.interface = interface

    @property
    def addresses(self):
        return tuple(text.split("/")[0] for text in super().addresses)

    def switch_ipv6(self, off):
        must(*self.namespace.command("sh", "-c",
                                     f"echo {off} >/proc/sys/net/ipv6/conf/{self.interface}/disable_ipv6"))

    def take(self):
        self.switch_ipv6(0)
        for address in super().addresses:
            dad = ["nodad"] if ":" in address else []  # ip accepts nodad only for IPv6
            must("ip", "-n", self.namespace.name, "address", "add", address, "dev", self.interface, *dad)

    def leave(self):
        must("ip", "-n", self.namespace.name, "address", "flush", "dev", self.interface)
        self.switch_ipv6(1)
