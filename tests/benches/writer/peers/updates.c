/*
 * What one operation costs through the interface of libpcp_mmv.
 *
 *     updates inc COUNT          mmv_inc of an unsigned 64-bit counter
 *     updates set COUNT          mmv_set_value of a double gauge
 *     updates atomic COUNT       the bare atomic add, in this program's memory
 *     updates start METRICS      a file of METRICS counters, made and published
 *     updates many METRICS       the same in files of 1000 each
 *
 * Prints nanoseconds: of one operation, or of all of the last two.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pcp/pmapi.h>
#include <pcp/mmv_stats.h>

/* Metrics that a reader takes from one file. */
#define A_FILE 1000

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *publish(const char *file, int metrics, mmv_metric_type_t type)
{
    static const pmUnits units = {.dimCount = 1};
    mmv_registry_t *registry = mmv_stats_registry(file, 0, MMV_FLAG_PROCESS);
    char name[64];
    void *map;

    for (int i = 0; registry != NULL && i < metrics; i++) {
        snprintf(name, sizeof name, "metric%d", i);
        mmv_stats_add_metric(registry, name, i + 1, type, MMV_SEM_COUNTER, units, 0, "", "");
    }
    map = registry != NULL ? mmv_stats_start(registry) : NULL;
    if (map == NULL) {
        perror(file);
        exit(1);
    }
    return map;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 0;
    double start = now(), operations = count;

    if (strcmp(what, "inc") == 0) {
        void *map = publish("c_inc", 1, MMV_TYPE_U64);
        pmAtomValue *value = mmv_lookup_value_desc(map, "metric0", NULL);

        start = now();
        for (long i = 0; i < count; i++)
            mmv_inc(map, value);
    } else if (strcmp(what, "set") == 0) {
        void *map = publish("c_set", 1, MMV_TYPE_DOUBLE);
        pmAtomValue *value = mmv_lookup_value_desc(map, "metric0", NULL);

        start = now();
        for (long i = 0; i < count; i++)
            mmv_set_value(map, value, i);
    } else if (strcmp(what, "atomic") == 0) {
        static _Atomic uint64_t word;

        start = now();
        for (long i = 0; i < count; i++)
            atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
    } else if (strcmp(what, "start") == 0) {
        publish("c_start", count, MMV_TYPE_U64);
        operations = 1;
    } else if (strcmp(what, "many") == 0) {
        char file[64];

        for (long made = 0; made < count; made += A_FILE) {
            snprintf(file, sizeof file, "c_many%ld", made / A_FILE);
            publish(file, A_FILE, MMV_TYPE_U64);
        }
        operations = 1;
    } else {
        return 2;
    }
    printf("%.4f\n", (now() - start) / operations);
    return 0;
}
