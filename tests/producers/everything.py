"""An instrumented program that uses pcp.mmv.

    python3 everything.py PATH CLUSTER FLAGS

It sets every value, prints "ready", and lives until its standard input ends.
"""
import sys

import cmmv
import cpmapi
from pcp import mmv, pmapi

ROOMS = 5

indom = mmv.mmv_indom(serial=ROOMS, shorttext="rooms", helptext="Rooms of the house.")
indom.set_instances([mmv.mmv_instance(0, "hall"), mmv.mmv_instance(9, "attic room")])

metrics = [
    mmv.mmv_metric(name="visits", item=1, typeof=cmmv.MMV_TYPE_U64,
                   semantics=cmmv.MMV_SEM_COUNTER,
                   dimension=pmapi.pmUnits(0, 0, 1, 0, 0, cpmapi.PM_COUNT_ONE),
                   indom=ROOMS, shorttext="visits", helptext="Visits to a room."),
    mmv.mmv_metric(name="warmth", item=2, typeof=cmmv.MMV_TYPE_FLOAT,
                   semantics=cmmv.MMV_SEM_INSTANT,
                   dimension=pmapi.pmUnits(0, 0, 0, 0, 0, 0),
                   shorttext="warmth", helptext="In degrees."),
    mmv.mmv_metric(name="owner", item=3, typeof=cmmv.MMV_TYPE_STRING,
                   semantics=cmmv.MMV_SEM_DISCRETE,
                   dimension=pmapi.pmUnits(0, 0, 0, 0, 0, 0),
                   shorttext="owner", helptext="Who owns the house."),
]

path, cluster, flags = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
values = mmv.MemoryMappedValues(path, flags, cluster)
values.add_indoms([indom])
values.add_metrics(metrics)
values.start()
values.set(values.lookup_mapping("visits", "attic room"), 41)
values.inc(values.lookup_mapping("visits", "attic room"))
values.set(values.lookup_mapping("warmth", None), 21.5)
values.set_string(values.lookup_mapping("owner", None), "nobody")
print("ready", flush=True)
sys.stdin.read()
