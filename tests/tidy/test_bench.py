#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tools/bench parses the output of other programs, and reports its own results, correctly."""
import pathlib
import sys
import unittest
from unittest import mock
from xml.etree import ElementTree

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "bench")]
import bench_page  # noqa: E402
import bench_run  # noqa: E402
import figures  # noqa: E402
import pairs  # noqa: E402
from bench_rows import beside_rxe, beside_tcp, events, path_cost, threads  # noqa: E402
from bench_rows.figure import Bench, Figure, NotRun, by_turns  # noqa: E402

CALLGRIND = """version: 1
events: Ir

fl=(1) a.c
fn=(1) main
3 10
cfi=(2) b.c
cfn=(2) uro_rsp_judge
calls=4 7
5 400
6 1

fi=(2)
fn=(2)
7 380
fn=(1)
8 2
summary: 393
"""
SOURCES = {"crc32_x86": "TARGET_128 static uint32_t feed_128(uint32_t reg,\n",
           "datagram": "static bool acknowledge(void)\n",
           "req_complete": "static bool acknowledge(struct uro_qp *qp, uro_psn until)\n{\n"
                           "static const int who[] = { f(1) };\n"}
PERF = """# Overhead  Symbol                        IPC   [IPC Coverage]
# ........  ............................  ....................
    75.50%  [.] feed_128                  -      -
     4.50%  [.] uro_rsp_judge.part.0      -      -
"""
LATENCY = " 8       20000          1.81           40.02        2.25      \t 2.33     \t0.70   \t\t3.45    \t\t9.71   \n"


def figure(values: list[float], **more) -> Figure:
    return Figure("what", "us", values=values, **more)


def compared(value: float, other: float, **more) -> Figure:
    """Returns a figure of one run with the value @value, and a limit with the value @other."""
    row = figure([value], beside=figure([other]), **more)
    row.pair_with(row.beside)
    return row


def counting(log: list[str], name: str, values: list[float]):
    """Returns a measure that appends @name to @log and returns the next of @values."""
    left = list(values)

    def measure() -> float:
        log.append(name)
        return left.pop(0)
    return measure


class Reading(unittest.TestCase):
    def test_callgrind_counts_what_a_function_itself_did(self) -> None:
        self.assertEqual(path_cost.callgrind(CALLGRIND), {"main": 13, "uro_rsp_judge": 380})

    def test_perf_shares_are_parsed_by_function(self) -> None:
        self.assertEqual(path_cost.shares(PERF), {"feed_128": 0.755, "uro_rsp_judge.part.0": 0.045})

    def test_every_part_of_the_path_has_its_functions(self) -> None:
        files = path_cost.static_functions(SOURCES)
        for function, part in (("feed_128.constprop.0", "ICRC, with the payload's copy"),
                               ("uro_tx_write", "writing frames and memory"),
                               ("uro_path_seal", "encode"), ("uro_demux", "decode"),
                               ("uro_bth_decode", "decode"),
                               ("uro_rsp_judge_content", "judge"), ("uro_rsp_serve", "serve"),
                               ("acknowledge", "complete"), ("who", path_cost.REST)):
            self.assertEqual(path_cost.part_of(function, files), part)

    def test_latency_has_median_and_both_tails(self) -> None:
        row = figures.latencies(LATENCY)[0]
        self.assertEqual((row.typical, row.p99, row.p999), (2.25, 3.45, 9.71))


    def test_last_line_of_ucx_is_used(self) -> None:
        text = ("[thread 0]   45637   4.728  1017.554  468.429  61.42  133.42  983  2135\n"
                "Final:       50000   6.140   671.508  461.206  93.07  135.51  1489  2168\n")
        self.assertEqual(figures.ucx_columns(text), [6.14, 671.508, 461.206, 93.07, 135.51, 1489, 2168])
        self.assertEqual(figures.ucx(text), (50000, 461.206))

    def test_iperf_counts_the_received_bytes(self) -> None:
        text = ('{"end": {"sum_sent": {"bits_per_second": 9e9},'
                ' "sum_received": {"bits_per_second": 8e9}}}')
        self.assertEqual(beside_tcp.iperf_gb(text), 1.0)

    def test_failed_iperf_reports_the_reason(self) -> None:
        with self.assertRaisesRegex(NotRun, "refused"):
            beside_tcp.iperf_gb('{"error": "connection refused"}')

    def test_run_without_speed_is_repeated_and_not_counted(self) -> None:
        values = [0.0, 0.0, 0.25, 0.0, 0.0, 0.0]
        measure = beside_rxe.sure(lambda: values.pop(0))
        self.assertEqual(measure(), 0.25)
        self.assertRaises(NotRun, measure)


class Rows(unittest.TestCase):
    def test_row_that_cannot_run_has_a_reason_and_the_next_row_runs(self) -> None:
        def cannot() -> float:
            raise NotRun("no such peer\nand more")
        bad, good = figure([]), figure([])
        by_turns(3, (bad, cannot), (good, lambda: 1.0))
        self.assertEqual((bad.why, bad.values, good.values), ("no such peer", [], [1.0] * 3))

    def test_one_measure_may_give_several_rows(self) -> None:
        first, second = figure([]), figure([])
        by_turns(2, ([first, second], lambda: [1.0, 2.0]))
        self.assertEqual((first.values, second.values), ([1.0, 1.0], [2.0, 2.0]))

    def test_median_is_not_the_mean(self) -> None:
        self.assertEqual(figure([1, 2, 90]).median, 2)

    def test_aim_of_the_value_and_of_the_ratio_must_both_be_reached(self) -> None:
        self.assertTrue(compared(9.0, 10.0, aim=8, aim_ratio=0.8).reached())
        self.assertFalse(compared(9.0, 10.0, aim=9.5, aim_ratio=0.8).reached())
        self.assertFalse(compared(9.0, 10.0, aim=8, aim_ratio=0.95).reached())

    def test_figure_with_less_is_reached_below_its_aim(self) -> None:
        self.assertTrue(figure([1.0], aim=1.2, less=True).reached())
        self.assertFalse(figure([1.3], aim=1.2, less=True).reached())

    def test_without_the_peer_its_ratio_is_neither_reached_nor_missed(self) -> None:
        self.assertIsNone(figure([1.0], aim_ratio=2, beside=figure([])).reached())


class Ratios(unittest.TestCase):
    def test_each_row_runs_directly_after_its_limit(self) -> None:
        log: list[str] = []
        limit = figure([])
        first, second, free = figure([], beside=limit), figure([], beside=limit), figure([])
        by_turns(2, (limit, counting(log, "limit", [1.0] * 4)), (first, counting(log, "first", [1.0] * 2)),
                 (free, counting(log, "free", [1.0] * 2)), (second, counting(log, "second", [1.0] * 2)))
        self.assertEqual(log, ["limit", "first", "free", "limit", "second"] * 2)

    def test_limit_that_has_just_run_does_not_run_again(self) -> None:
        log: list[str] = []
        one = figure([])
        hundred = figure([], beside=one)
        many = figure([], beside=hundred)
        by_turns(1, (one, counting(log, "one", [4.0])), (hundred, counting(log, "hundred", [2.0])),
                 (many, counting(log, "many", [1.0])))
        self.assertEqual(log, ["one", "hundred", "many"])
        self.assertEqual((hundred.ratios, many.ratios), ([0.5], [0.5]))

    def test_ratio_is_the_median_of_the_pairs_and_a_slow_time_does_not_show(self) -> None:
        limit = figure([])
        row = figure([], beside=limit)
        # The machine becomes ten times slower for the second pair, and for the limit of the third pair.
        by_turns(3, (limit, counting([], "", [100.0, 10.0, 10.0])), (row, counting([], "", [50.0, 5.0, 50.0])))
        self.assertEqual((row.ratios, row.ratio), ([0.5, 0.5, 5.0], 0.5))
        self.assertEqual(row.median / limit.median, 5.0)

    def test_limit_of_the_same_measure_needs_no_run_of_its_own(self) -> None:
        limit = figure([])
        row = figure([], beside=limit)
        by_turns(2, ([row, limit], lambda: [3.0, 2.0]))
        self.assertEqual((row.ratios, limit.values), ([1.5, 1.5], [2.0, 2.0]))

    def test_rivals_all_run_before_the_row_and_the_chosen_one_gives_the_ratio(self) -> None:
        log: list[str] = []
        slow, fast = figure([]), figure([])
        row = figure([], rivals=[slow, fast])
        by_turns(1, (slow, counting(log, "slow", [1.0])), (fast, counting(log, "fast", [4.0])),
                 (row, counting(log, "row", [2.0])))
        self.assertEqual((log, row.ratio), (["slow", "fast", "row"], None))
        row.beside = fast
        self.assertEqual(row.ratio, 0.5)

    def test_limit_that_cannot_run_leaves_the_row_without_ratio(self) -> None:
        limit = figure([])
        row = figure([], beside=limit)
        by_turns(2, (limit, counting([], "", [2.0])), (row, counting([], "", [1.0, 1.0])))
        self.assertEqual((row.values, row.ratios, bool(limit.why)), ([1.0, 1.0], [0.5], True))

    def test_limit_of_zero_has_no_ratio(self) -> None:
        self.assertIsNone(compared(1.0, 0.0).ratio)


class EventRows(unittest.TestCase):
    def test_requests_have_their_aim_with_many_clients_only(self) -> None:
        udp = events.LINKS[1]
        same = events.server_figures(events.TCP, 50, None)
        many = events.server_figures(udp, 50, same)
        self.assertEqual([row.aim_ratio for row in many], [1.2, 1, 1, None, None])
        self.assertEqual([row.less for row in many], [False, True, True, True, True])
        self.assertEqual([row.aim_ratio for row in events.server_figures(udp, 1, same)], [None] * 5)

    def test_failed_event_server_reports_the_reason(self) -> None:
        output = pairs.Output([], 1, "ready\nevent_server: listen: address in use\n")
        self.assertEqual(events.last_line(output), "event_server: listen: address in use")
        self.assertIn("was ended by SIGKILL", events.last_line(pairs.Output([], -9, "")))

    def test_two_threads_have_a_ratio_to_one_thread_and_one_to_two_processes(self) -> None:
        rates = {(1, 2): 4.0, (1, 1): 2.0, (2, 1): 3.0, (4, 1): 1.0}
        shared = {("per_s", 1): 2.0, ("per_s", 4): 1.0, ("per_processor_s", 1): 2.0, ("per_processor_s", 4): 1.9}

        def rate(_bench: Bench, count: int, processes: int, queues: str = "own", key: str = "per_s", engines: int = 1,
                 link: str = "udp") -> float:
            if queues == "shared":
                return shared[key, count]
            if link == threads.ONE_PORT:
                return 1.7 * count
            return 3.8 if engines == 2 and count == 2 else rates[count, processes]

        with mock.patch.object(threads, "rate", rate):
            rows = threads.rows(Bench(pathlib.Path("."), 3))
        self.assertEqual([row.ratio for row in rows], [0.5, 0.75, 1.5, 0.25, 0.95, 1.9, 2.0, 0.5, 0.95])


class Page(unittest.TestCase):
    FOUND = {"P3": ("To and fro", [compared(2.0, 0.5, aim=4, less=True), figure([], aim=1, why="no <peer>")])}

    def test_text_has_value_range_aim_and_ratio(self) -> None:
        text = bench_page.as_text("P3", *self.FOUND["P3"])
        self.assertIn("2.000 us  (2.000 .. 2.000)  aim <= 4 us  reached  4.00 of what 0.500", text)
        self.assertIn("not run: no <peer>", text)

    def test_rows_may_stand_before_and_after_options(self) -> None:
        for words in (["P1", "p11", "--runs", "3"], ["--runs", "3", "P1", "p11"], ["P1", "--runs", "3", "p11"]):
            with mock.patch.object(sys, "argv", ["bench", "build", *words]):
                options = bench_run.parsed()
            self.assertEqual((options.rows, options.runs), (["P1", "P11"], 3))

    def test_ratio_of_several_pairs_has_its_range(self) -> None:
        row = compared(2.0, 0.5)
        row.pairs[id(row.beside)] += [(1.0, 0.5), (1.5, 0.5)]
        self.assertEqual(bench_page.cells(row)[-1], "3.00 (2.00 .. 4.00)")

    def test_value_beside_a_row_is_from_the_pairs_of_that_row(self) -> None:
        row = compared(2.0, 0.5)
        row.beside.values.append(9.0)  # the limit also ran for another row
        self.assertEqual(bench_page.cells(row)[-2:], ["what 0.500", "4.00"])

    def test_markdown_has_as_many_cells_in_each_row(self) -> None:
        lines = [line for line in bench_page.as_markdown("m", self.FOUND).splitlines()
                 if line.startswith("|")]
        self.assertEqual({line.count("|") for line in lines}, {8})
        self.assertEqual(len(lines), 4)

    def test_plot_is_xml_with_a_bar_for_each_row_that_ran(self) -> None:
        svg = ElementTree.fromstring(bench_page.as_svg("A & B", self.FOUND))
        bars = [e for e in svg.iter("{http://www.w3.org/2000/svg}rect")][1:]
        self.assertEqual([bar.get("width") for bar in bars], ["380.0"])  # twice the aim has the full width


if __name__ == "__main__":
    unittest.main()
