#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests impair= and trace=, `uroce impair` and `uroce shrink` with unmodified programs on a link with faults. Writes TAP.

    test_impair.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import apart
import uroce_case
from uroce_case import LIBRARY, Case, Skip, equal, has
import pairs  # from tools/lib/common, which uroce_case puts on the path

PINGPONG = ["ibv_rc_pingpong", "-g", "1", "-n", "200", "-s", "64"]
# Retransmitted packets depend on the load of the machine. So plans that must repeat exactly have faults only for new requests and
# for ACKs.
NEW = "only:requests+acks"


class Impaired(pairs.Pair):
    """A pair whose client's link has faults."""

    def __init__(self, case: Case, impair: str, trace: str = ""):
        super().__init__(case.uroce)
        self.impair = f";impair={impair}" + (f";trace={trace}" if trace else "")

    def __enter__(self) -> "Impaired":
        super().__enter__()
        self.state = self.where / "state"
        self.state.mkdir(mode=0o700)
        if self.drop:
            os.chown(self.state, pairs.NOBODY, pairs.NOBODY)
        os.environ["UROCE_STATE_DIR"] = str(self.state)
        return self

    def configuration(self, role: str) -> str:
        return super().configuration(role) + (self.impair if role == "client" else "")

    def uroce_does(self, case: Case, *arguments: object) -> str:
        """Calls uroce as the user of the pair. Returns its exit status and its output in one text."""
        command = [*self.drop, str(case.uroce), *map(str, arguments)]
        run = case.call(*command[1:], uroce=command[0], UROCE_STATE_DIR=str(self.state))
        return f"{run.returncode}\n{run.stdout}{run.stderr}"


def needs(case: Case, program: str) -> None:
    if not (case.build / "lib" / "abi" / LIBRARY).exists():
        raise Skip("the headers of libibverbs are missing")
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed")


def pingpong(case: Case, impair: str, trace: str = "", program: tuple[str, ...] = tuple(PINGPONG)) -> tuple[pairs.Run, str]:
    """Runs a ping-pong. Returns the run and the text of the client's trace. @trace is a file in the directory of the pair."""
    needs(case, program[0])
    with Impaired(case, impair, trace) as pair:
        run = pair.run(list(program))
        path = pair.where / trace if trace else None
        return run, path.read_text() if path and path.exists() else ""


# ---- faults -------------------------------------------------------------------

def pingpong__same_seed_twice__same_trace_byte_for_byte(case: Case) -> None:
    plan = f"{NEW},loss:2%,duplicate:1%,delay:20us+-10us,seed:7"
    (first, trace), (second, again) = (pingpong(case, plan, "t") for _ in range(2))
    equal((first.problem(), second.problem()), ("", ""))
    has(trace, "uroce-trace 1 program=ibv_rc_pingpong device=uroce0\n", " lose\n", " dup ", " delay=")
    assert trace.count("\n") > 600, trace
    equal(again, trace)


def pingpong__other_seed__other_trace(case: Case) -> None:
    first = pingpong(case, "loss:2%,delay:20us+-10us,seed:7", "t")[1]
    second = pingpong(case, "loss:2%,delay:20us+-10us,seed:8", "t")[1]
    lost = [set(re.findall(r"^(.*) lose$", trace, re.M)) for trace in (first, second)]
    assert lost[0] and lost[1] and lost[0] != lost[1], lost


def bandwidth__loss_and_delay__completes_without_errors(case: Case) -> None:
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        # -u 17: a busy machine must not use up the retries.
        words = (program, "-F", "-x", "1", "-u", "17", "-n", "2000", "-s", "8192")
        run, _ = pingpong(case, "loss:0.5%,reorder:0.5%,corrupt:0.2%,delay:50us+-10us,seed:7", program=words)
        equal(run.problem(), "", program)


def pingpong__wrong_plan__error_has_the_wrong_word(case: Case) -> None:
    needs(case, "ibv_rc_pingpong")
    for plan, words in (("loss:150%", '"loss:150%": must be a probability from 0% to 100%'),
                        ("delay:3h", '"delay:3h": must be a time with its unit'),
                        ("seed:abc", '"seed:abc": must be a number'),
                        ("@/nowhere", "/nowhere")):
        run = case.call("run", "-d", f"u:udp,ip={uroce_case.SUBNET}.1,hub=no;impair={plan}", "--", "ibv_rc_pingpong", "-d", "u")
        assert run.returncode != 0, plan
        has(run.stderr, words)


def plan_file__second_line_wrong__names_file_and_line(case: Case) -> None:
    needs(case, "ibv_rc_pingpong")
    plan = case.scratch / "plan"
    plan.write_text("# a plan\ndelay:1h\n")
    run = case.call("run", "-d", f"u:udp,ip={uroce_case.SUBNET}.1,hub=no;impair=@{plan}", "--", "ibv_rc_pingpong", "-d", "u")
    assert run.returncode != 0
    has(run.stderr, "line 2", '"delay:1h"')


# ---- replay -------------------------------------------------------------------

def replay__of_a_trace__has_the_same_fates(case: Case) -> None:
    first = pingpong(case, f"{NEW},loss:2%,duplicate:2%,seed:3", "t")[1]
    has(first, " lose\n", " dup\n")
    saved = case.scratch / "saved"
    saved.write_text(first)
    os.chmod(case.scratch, 0o755)
    run, again = pingpong(case, f"replay:{saved}", "t")
    equal((run.problem(), again), ("", first))


def replay__of_another_program_or_version__is_refused(case: Case) -> None:
    needs(case, "ibv_rc_pingpong")
    saved = case.scratch / "saved"
    for text, words in (("uroce-trace 1 program=other device=u\n", "is a trace of other on u, not of ibv_rc_pingpong on u"),
                        ("uroce-trace 2 program=ibv_rc_pingpong device=u\n", "another version"),
                        ("\x7fELF", "is not a trace")):
        saved.write_text(text)
        run = case.call("run", "-d", f"u:udp,ip={uroce_case.SUBNET}.1,hub=no;impair=replay:{saved}", "--", "ibv_rc_pingpong", "-d", "u")
        assert run.returncode != 0, text
        has(run.stderr, words)


# ---- uroce impair -------------------------------------------------------------

def impair__while_a_stream_runs__changes_and_prints_the_plan(case: Case) -> None:
    needs(case, "ib_write_bw")
    with Impaired(case, "off") as pair:
        port = pairs.free_port()
        server, _ = pair.serve(list(pairs.STREAM), port)
        client, _ = pair.start("client", [*pairs.STREAM, "-p", str(port), "localhost"])
        assert pairs.wait_for(lambda: pairs_flow(pair, 1) or client.poll() is not None, 30)
        assert client.poll() is None and server.poll() is None, pair.said("client")
        has(pair.uroce_does(case, "impair", "uroce0", "show"), "0\n", "(ib_write_bw)  off\n", "lost 0")
        has(pair.uroce_does(case, "impair", "uroce0", "loss:9%,loss:1%"), "2\n", '"loss:1%": is given twice')
        has(pair.uroce_does(case, "impair", "--pid", "1", "uroce0"), "1\n", "no such process")
        problems: list[str] = []

        def change(plan: str) -> None:
            for _ in range(20):
                said = pair.uroce_does(case, "impair", "--pid", client_pid(pair, case), "uroce0", plan)
                if said != "0\n":
                    problems.append(said)

        changers = [threading.Thread(target=change, args=(f"loss:0.{n}%,delay:{n}0us,seed:{n}",)) for n in range(1, 5)]
        for changer in changers:
            changer.start()
        for changer in changers:
            changer.join()
        equal(problems, [])
        has(pair.uroce_does(case, "impair", "uroce0", "off"), "without impair=")  # the server also has a uroce0
        shown = pair.uroce_does(case, "impair", "uroce0")
        has(shown, "(ib_write_bw)  off\n")
        assert int(re.search(r", delayed (\d+)", shown)[1]) > 0, shown
        before = flows(pair)
        assert pairs.wait_for(lambda: flows(pair) > before + 1 or client.poll() is not None, 30)
        assert client.poll() is None and server.poll() is None, pair.said("client")


def flows(pair: pairs.Pair) -> int:
    """Returns how many lines with figures the client has printed."""
    return len(re.findall(r"^ *65536 ", pair.said("client"), re.M))


def pairs_flow(pair: pairs.Pair, least: int) -> bool:
    return flows(pair) >= least


def client_pid(pair: Impaired, case: Case) -> str:
    return re.search(r"process (\d+)", re.search(r".*\n  packets", pair.uroce_does(case, "impair", "uroce0"))[0])[1]


def impair__no_such_device__error_has_the_device(case: Case) -> None:
    run = case.call("impair", "nowhere", "off")
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, 'no process of this user runs a device "nowhere"')
    equal(case.call("impair").returncode, 2)
    run = case.call("impair", "uroce0", "@/nowhere")
    equal(run.returncode, 2)
    has(run.stderr, "/nowhere: No such file")


# ---- uroce shrink -------------------------------------------------------------

def make_trace(case: Case) -> pathlib.Path:
    trace = case.scratch / "t"
    lines = [f"tx request 0 {k} lose" if k % 3 else f"tx request 0 {k} dup delay={k}" for k in range(1, 101)]
    trace.write_text("uroce-trace 1 program=any device=uroce0\n" + "\n".join(lines) + "\n")
    return trace


def fails_with(*words: str) -> list[str]:
    """Returns a command that fails if the replayed trace has all words."""
    return ["sh", "-c", " && ".join(f"grep -q '{word}' \"$UROCE_REPLAY\"" for word in words) + " && exit 3; exit 0"]


def shrink__two_effects_cause_the_failure__only_these_effects_are_left(case: Case) -> None:
    trace = make_trace(case)
    run = case.call("shrink", "--trace", trace, "--", *fails_with("request 0 17 lose", "request 0 66 .*delay=66"))
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "2 of 133 effects", "tx request 0 17 lose", f"{trace}.min")
    equal((case.scratch / "t.min").read_text(),
          "uroce-trace 1 program=any device=uroce0\ntx request 0 17 lose\ntx request 0 66 delay=66\n")
    equal(sorted(path.name for path in case.scratch.iterdir()), ["t", "t.min"])


def shrink__repeat__finds_a_failure_of_every_fifth_run(case: Case) -> None:
    trace, count = make_trace(case), case.scratch / "count"
    command = ["sh", "-c", f"echo >> {count}; grep -q 'request 0 17 lose' $UROCE_REPLAY && [ $(($(wc -l < {count}) % 5)) = 0 ] && exit 3; exit 0"]
    equal(case.call("shrink", "-t", trace, "--", *command).returncode, 1)
    run = case.call("shrink", "--repeat", "5", "-t", trace, "--", *command)
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "1 of 133 effects", "tx request 0 17 lose")


def shrink__no_failure__message_has_the_reason(case: Case) -> None:
    trace = make_trace(case)
    for command, code, words in ((["true"], 1, "does not fail with the whole trace"),
                                 (["false"], 1, "also fails without any fault"),
                                 (["/nowhere"], 2, "cannot run /nowhere")):
        run = case.call("shrink", "-t", trace, "--", *command)
        equal(run.returncode, code, run.stderr)
        has(run.stderr, words)
    run = case.call("shrink", "-t", trace, "--runs", "1", "false")
    equal(run.returncode, 1, run.stderr)
    has(run.stderr, "also fails without any fault")
    for arguments, words in ((["-t", "/nowhere", "true"], "/nowhere: No such file"), (["true"], "--trace FILE is missing"),
                             (["-t", trace], "the command is missing"), (["-t", trace, "-T", "x", "true"], "--timeout must be"),
                             (["-t", case.uroce, "true"], "is not a trace")):
        run = case.call("shrink", *arguments)
        equal(run.returncode, 2, run.stderr)
        has(run.stderr, words)


def shrink__command_hangs__has_failed_after_the_timeout(case: Case) -> None:
    trace = case.scratch / "t"
    trace.write_text("uroce-trace 1 program=any device=uroce0\ntx ack 0 1 lose\ntx ack 0 2 lose\n")
    hangs = ["sh", "-c", "grep -q 'ack 0 2' \"$UROCE_REPLAY\" && sleep 1000; true"]
    run = case.call("shrink", "-t", trace, "-T", "1", *hangs)
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "1 of 2 effects", "tx ack 0 2 lose")


def shrink__of_a_program_that_gives_up__finds_the_losses(case: Case) -> None:
    needs(case, "ibv_rc_pingpong")
    program = list(PINGPONG)
    trace = case.scratch / "t"
    lost = "".join(f"tx repeat 0 {k} lose\n" for k in range(1, 60))
    trace.write_text(f"uroce-trace 1 program=ibv_rc_pingpong device=uroce0\ntx request 0 5 lose\ntx ack 0 5 lose\n{lost}")
    script = case.scratch / "run"
    with Impaired(case, "off") as pair:
        def command(role: str) -> str:
            words = [*program, "-p", "$port", *(["localhost"] if role == "client" else [])]
            return " ".join(f'"{word}"' if word != "$port" else word for word in pair.command(role, words))

        os.chmod(case.scratch, 0o755)
        trace_in_pair, script = pair.where / "t", pair.where / "run"
        trace_in_pair.write_text(trace.read_text())
        script.write_text(f"port=$1\n{command('server')} & server=$!\n"
                          f"until grep -q \":$(printf %04X $port) .* 0A\" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done\n"
                          f"{command('client')}; status=$?\nkill -9 $server; wait $server\nexit $status\n")
        for path in (trace_in_pair, script):
            if pair.drop:
                os.chown(path, pairs.NOBODY, pairs.NOBODY)
        said = pair.uroce_does(case, "shrink", "-t", trace_in_pair, "--runs", "6", "sh", script, pairs.free_port())
        has(said, "0\n", "effects make the command fail, after 6 runs; --runs ended the search early", "  tx request 0 5 lose\n")
        # A request and its seven retries are lost.
        assert 7 <= len(re.findall(r"^  tx repeat 0 \d+ lose$", said, re.M)) < 59, said


class Apart(apart.Pair):
    """A pair over af_packet, in two namespaces, whose client has faults."""

    def __init__(self, case: Case):
        if apart.why_not():
            raise Skip(apart.why_not())
        super().__init__(case.uroce, meeting="10.0.0.1")

    def configuration(self, role: str) -> str:
        faults = ";impair=loss:2%,duplicate:2%,reorder:2%,corrupt:1%,delay:20us+-10us,seed:4" if role == "client" else ""
        return super().configuration(role) + faults

    def listening(self, port: int) -> bool:
        tables = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                                capture_output=True, text=True, check=True).stdout
        return f":{port:04X} 0" in tables


def af_packet__faults_of_every_kind__data_is_right(case: Case) -> None:
    """-c checks the received data."""
    needs(case, PINGPONG[0])
    with Apart(case) as pair:
        equal(pair.run(["ibv_rc_pingpong", "-g", "1", "-c", "-n", "100", "-s", "64"]).problem(), "")


# ---- uroce run --chaos ---------------------------------------------------------------------------------

# A command that uses no device. The plan in UROCE_DEVICES determines what it does.
ACTOR = """case $UROCE_DEVICES in
*rnr*) sleep 1000 & wait;;
*SIGKILL*) kill -9 $$;;
*reg_mr*) echo first; echo no memory >&2; exit 3;;
*create_qp*) kill -SEGV $$;;
esac
case "$UROCE_DEVICES" in *"b:net_null0") ;; *) exit 9;; esac
"""
CHAOS = ["-d", "a:net_null0", "-d", "b:net_null0"]


def chaos__each_exit_of_the_command__has_the_right_word(case: Case) -> None:
    run = case.call("run", "--chaos=1", *CHAOS, "sh", "-c", ACTOR)
    rows = {row[:34].rstrip(): row[36:].split("  ") for row in run.stdout.splitlines()[:-1]}
    equal(len(rows), 21, run.stdout)
    said = {name: cells[0] for name, cells in rows.items()}
    wanted = {"no receive for every 3rd message": "hung", "killed at the 10th post": "killed",
              "ibv_reg_mr fails: ENOMEM": "reported: 3", "ibv_create_qp fails: ENOMEM": "crashed: SIGSEGV"}
    equal({name: word for name, word in said.items() if word != "passed"}, wanted)
    has(run.stdout, " s  no memory\n", "2 of 20 plans made the command hang or crash\n")
    equal(run.returncode, 1)


def chaos__of_a_sample__hangs_only_with_the_event_that_it_ignores(case: Case) -> None:
    net, program = uroce_case.SUBNET, case.build / "docs" / "samples" / "reuse"
    if not program.exists():
        raise Skip("libibverbs is missing")
    run = case.call("run", "--chaos=20", "-d", f"a:udp,ip={net}.2,hub=no", "-d", f"b:udp,ip={net}.3,hub=no", program, "right")
    equal(run.returncode, 1, run.stdout + run.stderr)
    equal(re.findall(r"^(.*?)  +(?:hung|crashed)", run.stdout, re.M), ["CQ overflows at the 5th poll"], run.stdout)
    equal(len(re.findall(r"  (passed|reported: \d+) ", run.stdout)), 19, run.stdout)


def chaos__wrong_use__error_has_the_reason(case: Case) -> None:
    for arguments, words in ((["--chaos=0", *CHAOS, "true"], "--chaos=0: must be a number of seconds"),
                             (["--chaos", "-d", "a:net_null0;impair=off", "true"], "writes impair= and fail= of the first device itself"),
                             (["--chaos", *CHAOS, "false"], "the command already fails without faults"),
                             (["--chaos=1", *CHAOS, "sleep", "1000"], "the command already takes too long without faults"),
                             (["--chaos", *CHAOS, "/no/such"], "cannot run /no/such: No such file or directory")):
        run = case.call("run", *arguments)
        equal(run.returncode, 2, run.stdout + run.stderr)
        has(run.stderr, words)


# ---- pcapng: the capture has the faults of frames and the events of queue pairs ----------------------

def story(case: Case, impair: str) -> tuple[pairs.Run, str, list[str]]:
    """Runs a ping-pong whose client writes a capture. Returns the run, the output of `uroce dump`, and the lines of tshark. A line
    has the interface of a frame, its comment, and the text of an event."""
    needs(case, "tshark")
    needs(case, PINGPONG[0])
    with Impaired(case, impair) as pair:
        capture = pair.where / "a.pcapng"
        pair.impair += f";pcap={capture}"
        run = pair.run(list(PINGPONG))
        fields = ["frame.interface_name", "frame.comment", "eth.type", "data.text", "data.data"]
        shown = case.call("-r", str(capture), "-T", "fields", *(word for field in fields for word in ("-e", field)), uroce="tshark")
        equal(shown.returncode, 0, shown.stderr)
        dump = case.call("dump", capture)
        assert dump.returncode < 2, dump.stderr
        return run, dump.stdout, shown.stdout.splitlines()


def pcapng__lost_frames__are_marked_in_both_directions(case: Case) -> None:
    run, dump, lines = story(case, f"{NEW},drop:20+40,delay:10us")
    equal(run.problem(), "")
    for direction, interface in (("tx", "uroce0"), ("rx", "uroce0 lost")):
        for packet in (20, 40):
            mark = f"impair: {direction} request 0 {packet} lose"
            equal([line.split("\t")[:2] for line in lines if line.split("\t")[1] == mark], [[interface, mark]])
            has(dump, f"-- the frame above: {mark}\n")
    delayed = [line for line in lines if re.search(r"impair: rx \w+ 0 \d+ delay=10000$", line.split("\t")[1])]
    assert len(delayed) > 300, len(delayed)
    equal({line.split("\t")[0] for line in lines}, {"uroce0", "uroce0 lost", "uroce0 events"})


def pcapng__queue_pair_fails__comments_have_states_and_reason(case: Case) -> None:
    _, dump, lines = story(case, "tx,loss:100%")
    states = re.findall(r"-- QP 0x[0-9a-f]{6}: (\w+ to \w+.*)", dump)
    equal(states[:3], ["RESET to INIT", "INIT to RTR", "RTR to RTS"])
    equal(states[3:4], ["RTS to ERR: the peer did not answer within timeout and retry_cnt"], dump[-3000:])
    has(dump, ": completion with status 12, vendor_err 6, wr_id 0x", ": no answer from ")
    assert dump.index("RTR to RTS") < dump.index("RC_SEND_ONLY") < dump.index("RTS to ERR"), dump
    comments = [line.split("\t")[1] for line in lines if line.startswith("uroce0 events")]
    assert any(comment.endswith("INIT to RTR") for comment in comments), comments


def sample(case: Case, name: str, impair: str, *arguments: str) -> list:
    """Returns the command from docs/TEST-YOUR-PROGRAM.md that runs the sample program `reuse` or `credits`."""
    program = case.build / "docs" / "samples" / name
    if not program.exists():
        raise Skip("libibverbs is missing")
    net = uroce_case.SUBNET
    return ["run", "-d", f"a:udp,ip={net}.2,hub=no;impair={impair}", "-d", f"b:udp,ip={net}.3,hub=no", program, *arguments]


def sample_reuse__lost_requests__only_the_faulty_mode_fails(case: Case) -> None:
    for arguments, status, said in (((), 1, "message "), (("right",), 0, "500 messages, 0 wrong")):
        run = case.call(*sample(case, "reuse", "tx,every:50", *arguments))
        equal(run.returncode, status, run.stdout + run.stderr)
        has(run.stdout, said)


def sample_credits__lost_acks__only_the_faulty_mode_has_no_receive(case: Case) -> None:
    run = case.call(*sample(case, "credits", "tx,only:acks,loss:20%", "right"))
    equal((run.returncode, run.stdout), (0, "2000 messages\n"), run.stderr)
    run = case.call(*sample(case, "credits", "tx,only:acks,loss:20%"))
    equal((run.returncode, run.stdout), (2, ""))
    has(run.stderr, "had no receive posted in 0 RNR retries", "FAILED: RNR retry counter exceeded")


def sample_credits__shrink__leaves_lost_acks(case: Case) -> None:
    trace = case.scratch / "credits.trace"
    command = sample(case, "credits", f"tx,only:acks,loss:20%,seed:8;trace={trace}")
    equal(case.call(*command).returncode, 2)
    run = case.call("shrink", "--repeat", "50", "--trace", trace, "--", case.uroce, *command)
    equal(run.returncode, 0, run.stderr)
    left = re.findall(r"^  (.*)$", run.stdout, re.M)
    assert left and all(re.fullmatch(r"tx ack 0 \d+ lose", effect) for effect in left), run.stdout
    assert len(left) <= trace.read_text().count("lose"), run.stdout  # the number of lost ACKs depends on timing


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
