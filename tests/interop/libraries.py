# SPDX-License-Identifier: BSD-3-Clause
"""Programs that use rdma_cm through another library, or in addition to TCP: qperf, librspreload, UCX, libfabric. The rows are for
connections.py.

qperf also uses the kernel's sockets with the same addresses, so uroce must be over UDP sockets. Not tested, because
Linux rxe does not support it: udpong, and UCX's `ud_v` over IPv4; docs/PROGRAMS.md has the reasons.
"""
from connections import Meeting

RSPRELOAD = "env LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so "
# ofi_rxm requests a CQ for 256 peers, which has one entry more than rxe supports
FEW = "env FI_UNIVERSE_SIZE=16 "


def qperf(test):
    return Meeting("qperf", "-lp {port}", "", f"-cm1 -t 1 {{peer}} {test}", named=test, stays=True,
                   listens="tcp", link="udp", prints=f"{test}:")


def fi_pingpong(kind):
    """Returns a row of fi_pingpong, whose ends exchange their addresses by TCP."""
    return Meeting("fi_pingpong", "-p verbs -c -I 20", "-B {port}", "-P {port} {host}",
                   more=f"-e {kind}", before=FEW if kind == "rdm" else "", listens="tcp", prints="=20")


def io_demo(options):
    return Meeting("io_demo", "-q -d 1:200000 -p {port}", "", "-o read,write -i 40 {peer}", more=options,
                   before="env UCX_TLS=rc_v UCX_SOCKADDR_TLS_PRIORITY=rdmacm ", named="rc_v", stays=True,
                   prints="Client exit with status 'OK'")


ROWS = (
    *map(qperf, ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_rdma_write_lat",
                 "rc_rdma_write_bw", "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
                 "ver_rc_compare_swap", "ver_rc_fetch_add")),
    *map(fi_pingpong, ("msg", "rdm", "dgram")),
    io_demo(""),
    io_demo("-A"),
    Meeting("NPtcp", "-P {port} -i -u 1024 -o /dev/null", "", "-h {peer}", before=RSPRELOAD, named="librspreload",
            prints="Integrity check passed"),
    Meeting("iperf", "-p {port}", "-s -B {own} -P 1", "-c {peer} -n 2M", before=RSPRELOAD,
            named="librspreload", prints="MBytes"),
)

# Rows that also run without --full. Columns: kernel, row, role of uroce
ANY_RUN = (("6.1", "io_demo rc_v", "client"), ("6.1", "qperf rc_lat", "server"),
           ("6.12", "iperf librspreload", "server"), ("6.12", "qperf rc_rdma_read_lat", "client"))


def rows(full, kernel):
    """Returns each (row, role of uroce) of a run."""
    return [(row, role) for row in ROWS for role in ("client", "server")
            if full or (kernel, row.name, role) in ANY_RUN]
