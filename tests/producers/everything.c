/*
 * An instrumented program that uses libpcp_mmv: every type, semantics and many
 * units, singular and instance metrics, help text, and for format version 3 labels
 * of every kind and JSON type.
 *
 *     everything PATH CLUSTER FLAGS VERSION
 *
 * It sets every value, prints "ready", and then obeys lines on standard input,
 * answering "done" to each: `add N` adds N to the counter requests.count, `text S`
 * sets the string, `stop` ends it the proper way. At the end of input it ends
 * without stopping, as a killed program would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcp/pmapi.h>
#include <pcp/mmv_stats.h>

#define LONG_NAME "a.name.that.is.longer.than.the.63.characters.which.version.1.holds"
#define LONG_INSTANCE "an instance name that is longer than the 63 characters of version 1"

enum { DISKS = 7, POOLS = 9 };

static const char *instance_of_pool = "main pool";

static void add_indoms(mmv_registry_t *registry, int version)
{
    mmv_stats_add_indom(registry, DISKS, "disks", "Disks of the machine.\nAll of them.");
    mmv_stats_add_instance(registry, DISKS, 0, "sda");
    mmv_stats_add_instance(registry, DISKS, 4, "sdb 1");
    mmv_stats_add_instance(registry, DISKS, 2147483647, "last");
    mmv_stats_add_indom(registry, POOLS, NULL, NULL);
    mmv_stats_add_instance(registry, POOLS, 1, instance_of_pool);
    if (version == 2)
        mmv_stats_add_instance(registry, POOLS, 2, LONG_INSTANCE);
}

static void add_metrics(mmv_registry_t *registry, int version)
{
    const pmUnits none = MMV_UNITS(0, 0, 0, 0, 0, 0);
    const pmUnits count = MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE);
    const pmUnits kbyte = MMV_UNITS(1, 0, 0, PM_SPACE_KBYTE, 0, 0);
    const pmUnits byte_rate = MMV_UNITS(1, -1, 0, PM_SPACE_BYTE, PM_TIME_SEC, 0);
    const pmUnits msec = MMV_UNITS(0, 1, 0, 0, PM_TIME_MSEC, 0);
    const pmUnits usec = MMV_UNITS(0, 1, 0, 0, PM_TIME_USEC, 0);
    const pmUnits thousands = MMV_UNITS(0, 0, 1, 0, 0, 3);

    mmv_stats_add_metric(registry, "requests.count", 1, MMV_TYPE_U64, MMV_SEM_COUNTER, count,
                         0, "requests", "Requests answered since the start.");
    mmv_stats_add_metric(registry, "temperature", 2, MMV_TYPE_I32, MMV_SEM_INSTANT, none,
                         0, "only one line", NULL);
    mmv_stats_add_metric(registry, "sessions", 3, MMV_TYPE_U32, MMV_SEM_INSTANT, thousands,
                         0, NULL, "only the full text");
    mmv_stats_add_metric(registry, "balance", 4, MMV_TYPE_I64, MMV_SEM_INSTANT, kbyte,
                         0, NULL, NULL);
    mmv_stats_add_metric(registry, "rate", 5, MMV_TYPE_FLOAT, MMV_SEM_INSTANT, byte_rate,
                         0, "rate", "Bytes a second.");
    mmv_stats_add_metric(registry, "latency", 6, MMV_TYPE_DOUBLE, MMV_SEM_INSTANT, msec,
                         DISKS, "latency", "Of the last request.");
    mmv_stats_add_metric(registry, "state", 7, MMV_TYPE_STRING, MMV_SEM_DISCRETE, none,
                         0, "state", "A word.");
    mmv_stats_add_metric(registry, "model", 8, MMV_TYPE_STRING, MMV_SEM_DISCRETE, none,
                         DISKS, "model", "Model of a disk.");
    mmv_stats_add_metric(registry, "busy", 9, MMV_TYPE_ELAPSED, MMV_SEM_COUNTER, usec,
                         POOLS, "busy", "Time spent.");
    mmv_stats_add_metric(registry, "last.item", 1023, MMV_TYPE_U64, MMV_SEM_DISCRETE, none,
                         DISKS, "highest item", "The highest item number there is.");
    if (version == 2)
        mmv_stats_add_metric(registry, LONG_NAME, 10, MMV_TYPE_U32, MMV_SEM_COUNTER, count,
                             POOLS, "long name", "Needs version 2.");
}

static void add_labels(mmv_registry_t *registry)
{
    mmv_stats_add_registry_label(registry, "application", "\"everything\"", MMV_STRING_TYPE, 0);
    mmv_stats_add_registry_label(registry, "release", "3", MMV_NUMBER_TYPE, 1);
    mmv_stats_add_indom_label(registry, DISKS, "rotating", "false", MMV_BOOLEAN_TYPE, 0);
    mmv_stats_add_metric_label(registry, 1, "owner", "null", MMV_NULL_TYPE, 0);
    mmv_stats_add_metric_label(registry, 6, "quantiles", "[0.5,0.99]", MMV_ARRAY_TYPE, 0);
    mmv_stats_add_metric_label(registry, 7, "words", "{\"best\":\"up\"}", MMV_MAP_TYPE, 1);
    mmv_stats_add_instance_label(registry, DISKS, 0, "bay", "1", MMV_NUMBER_TYPE, 0);
    mmv_stats_add_instance_label(registry, DISKS, 4, "bay", "\"two\"", MMV_STRING_TYPE, 0);
}

static void set_signed(void *map, const char *metric, const char *instance, long long value)
{
    pmAtomValue *cell = mmv_lookup_value_desc(map, metric, instance);

    if (cell != NULL)
        cell->ll = value;
}

static void set_values(void *map, int version)
{
    pmAtomValue *cell;

    set_signed(map, "requests.count", NULL, 12345678901234LL);
    mmv_stats_set(map, "temperature", NULL, -40);
    mmv_stats_set(map, "sessions", NULL, 4000000000.0);
    set_signed(map, "balance", NULL, -9223372036854775807LL);
    mmv_stats_set(map, "rate", NULL, 0.1);
    mmv_stats_set(map, "latency", "sda", 1.0 / 3.0);
    mmv_stats_set(map, "latency", "last", 1e300);
    mmv_stats_set_string(map, "state", NULL, "up and running");
    mmv_stats_set_string(map, "model", "sdb 1", "Quantum \"Fireball\"");
    set_signed(map, "busy", instance_of_pool, 1500000);
    set_signed(map, "last.item", "last", -1);
    if (version == 2)
        mmv_stats_set(map, LONG_NAME, LONG_INSTANCE, 77);
    cell = mmv_lookup_value_desc(map, "last.item", "sda");
    if (cell != NULL)
        mmv_inc(map, cell);
}

static void obey(void *map, const char *line)
{
    if (strncmp(line, "add ", 4) == 0)
        mmv_stats_add(map, "requests.count", NULL, atof(line + 4));
    else if (strncmp(line, "text ", 5) == 0)
        mmv_stats_set_string(map, "state", NULL, line + 5);
}

int main(int argc, char **argv)
{
    char line[512];
    mmv_registry_t *registry;
    void *map;
    int version;

    if (argc != 5) {
        fprintf(stderr, "usage: everything PATH CLUSTER FLAGS VERSION\n");
        return 2;
    }
    version = atoi(argv[4]);
    registry = mmv_stats_registry(argv[1], atoi(argv[2]), atoi(argv[3]));
    if (registry == NULL)
        return 1;
    add_indoms(registry, version);
    add_metrics(registry, version);
    if (version == 3)
        add_labels(registry);
    map = mmv_stats_start(registry);
    if (map == NULL)
        return 1;
    set_values(map, version);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "stop") == 0) {
            mmv_stats_stop(argv[1], map);
            return 0;
        }
        obey(map, line);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
