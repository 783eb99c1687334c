#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/bench reads what others print as it is meant, and says of itself what it did."""
import pathlib
import sys
import unittest
from xml.etree import ElementTree

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "bench")]
import bench_page  # noqa: E402
import figures  # noqa: E402
from bench_rows import beside_rxe, beside_tcp, path_cost  # noqa: E402
from bench_rows.figure import Figure, NotRun, by_turns  # noqa: E402

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


class Reading(unittest.TestCase):
    def test_callgrind_counts_what_a_function_itself_did(self) -> None:
        self.assertEqual(path_cost.callgrind(CALLGRIND), {"main": 13, "uro_rsp_judge": 380})

    def test_perf_shares(self) -> None:
        self.assertEqual(path_cost.shares(PERF), {"feed_128": 0.755, "uro_rsp_judge.part.0": 0.045})

    def test_every_part_of_the_path_has_its_functions(self) -> None:
        files = path_cost.static_functions(SOURCES)
        for function, part in (("feed_128.constprop.0", "ICRC, with the payload's copy"),
                               ("uro_tx_write", "frames and memory written"),
                               ("uro_path_seal", "encode"), ("uro_demux", "decode"),
                               ("uro_bth_decode", "decode"),
                               ("uro_rsp_judge_content", "judge"), ("uro_rsp_serve", "serve"),
                               ("acknowledge", "complete"), ("who", path_cost.REST)):
            self.assertEqual(path_cost.part_of(function, files), part)

    def test_latency_has_median_and_both_tails(self) -> None:
        row = figures.latencies(LATENCY)[0]
        self.assertEqual((row.typical, row.p99, row.p999), (2.25, 3.45, 9.71))


    def test_last_line_of_ucx_is_what_counts(self) -> None:
        text = ("[thread 0]   45637   4.728  1017.554  468.429  61.42  133.42  983  2135\n"
                "Final:       50000   6.140   671.508  461.206  93.07  135.51  1489  2168\n")
        self.assertEqual(figures.ucx_columns(text), [6.14, 671.508, 461.206, 93.07, 135.51, 1489, 2168])
        self.assertEqual(figures.ucx(text), (50000, 461.206))

    def test_iperf_is_believed_about_what_arrived(self) -> None:
        text = ('{"end": {"sum_sent": {"bits_per_second": 9e9},'
                ' "sum_received": {"bits_per_second": 8e9}}}')
        self.assertEqual(beside_tcp.iperf_gb(text), 1.0)

    def test_iperf_that_could_not_says_why(self) -> None:
        with self.assertRaisesRegex(NotRun, "refused"):
            beside_tcp.iperf_gb('{"error": "connection refused"}')

    def test_a_run_of_no_speed_is_made_again_and_not_counted(self) -> None:
        values = [0.0, 0.0, 0.25, 0.0, 0.0, 0.0]
        measure = beside_rxe.sure(lambda: values.pop(0))
        self.assertEqual(measure(), 0.25)
        self.assertRaises(NotRun, measure)


class Rows(unittest.TestCase):
    def test_row_that_cannot_run_says_why_and_the_next_goes_on(self) -> None:
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
        limit = figure([10.0])
        self.assertTrue(figure([9.0], aim=8, aim_ratio=0.8, beside=limit).reached())
        self.assertFalse(figure([9.0], aim=9.5, aim_ratio=0.8, beside=limit).reached())
        self.assertFalse(figure([9.0], aim=8, aim_ratio=0.95, beside=limit).reached())

    def test_less_is_better_where_it_is(self) -> None:
        self.assertTrue(figure([1.0], aim=1.2, less=True).reached())
        self.assertFalse(figure([1.3], aim=1.2, less=True).reached())

    def test_without_the_peer_its_ratio_is_neither_reached_nor_missed(self) -> None:
        self.assertIsNone(figure([1.0], aim_ratio=2, beside=figure([])).reached())


class Page(unittest.TestCase):
    FOUND = {"P3": ("To and fro", [figure([1.0, 3.0], aim=4, less=True, beside=figure([0.5])),
                                   figure([], aim=1, why="no <peer>")])}

    def test_text_has_value_range_aim_and_ratio(self) -> None:
        text = bench_page.as_text("P3", *self.FOUND["P3"])
        self.assertIn("2.000 us  (1.000 .. 3.000)  aim <= 4 us  reached  4.00 of what 0.500", text)
        self.assertIn("not run: no <peer>", text)

    def test_markdown_has_as_many_cells_in_each_row(self) -> None:
        lines = [line for line in bench_page.as_markdown("m", self.FOUND).splitlines()
                 if line.startswith("|")]
        self.assertEqual({line.count("|") for line in lines}, {8})
        self.assertEqual(len(lines), 4)

    def test_plot_is_xml_with_a_bar_for_each_row_that_ran(self) -> None:
        svg = ElementTree.fromstring(bench_page.as_svg("A & B", self.FOUND))
        bars = [e for e in svg.iter("{http://www.w3.org/2000/svg}rect")][1:]
        self.assertEqual([bar.get("width") for bar in bars], ["380.0"])  # twice as good


if __name__ == "__main__":
    unittest.main()
