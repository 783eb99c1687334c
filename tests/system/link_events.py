#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints a line for each event of its first device's link, until it is killed.

    uroce run --device 'uroce0:udp,ip=127.0.0.1' -- /usr/bin/python3 link_events.py
"""
import sys

try:
    from pyverbs.cq import CQ
except ImportError:
    print("pyverbs is not installed")
    sys.exit(77)
from pyverbs.device import Context, get_device_list

with Context(name=get_device_list()[0].name.decode()) as context, CQ(context, 1):
    print("started", flush=True)
    while True:
        event = context.get_async_event()
        print(event, flush=True)
        event.ack()
