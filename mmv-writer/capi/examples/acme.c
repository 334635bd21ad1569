/*
 * The ACME factory in C: what PCP's libpcp_mmv takes, on our library, and with
 * threads that lose nothing.
 *
 *     mmv-writer/capi/link
 *     export PKG_CONFIG_PATH=target/capi/lib/pkgconfig
 *     cc mmv-writer/capi/examples/acme.c $(pkg-config --cflags --libs libpcp_mmv) -pthread
 *     LD_LIBRARY_PATH=target/capi/lib ./a.out [FILE] [PRODUCTS]
 *
 * FILE is `acme` in this machine's MMV directory, or a path. Each of two machines
 * makes PRODUCTS (1000).
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <pcp/mmv_stats.h>

enum { PRODUCTS = 1, COUNT, TIME };
enum { ANVILS, ROCKETS, KINDS };

static const char *const kinds[KINDS] = {"Anvils", "Rockets"};
static void *map;
static long wanted = 1000;

/* One machine: values are looked up once, and then counted by their addresses. */
static void *machine(void *kind)
{
    pmAtomValue *count = mmv_lookup_value_desc(map, "products.count", kind);
    pmAtomValue *time = mmv_lookup_value_desc(map, "products.time", kind);
    pmAtomValue *total = mmv_lookup_value_desc(map, "total", NULL);

    for (long made = 0; made < wanted; made++) {
        usleep(made % 100 == 0);
        mmv_inc(map, count);
        mmv_inc_value(map, time, 100);
        mmv_inc(map, total); /* of both machines */
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *file = argc > 1 ? argv[1] : "acme";
    const pmUnits count = {.dimCount = 1, .scaleCount = PM_COUNT_ONE};
    const pmUnits time = {.dimTime = 1, .scaleTime = PM_TIME_USEC};
    mmv_registry_t *registry = mmv_stats_registry(file, 321, MMV_FLAG_PROCESS);
    pthread_t machines[KINDS];

    if (argc > 2)
        wanted = atol(argv[2]);
    if (registry == NULL) {
        perror(file);
        return 1;
    }
    mmv_stats_add_indom(registry, PRODUCTS, "products", "what the factory makes");
    for (int kind = 0; kind < KINDS; kind++)
        mmv_stats_add_instance(registry, PRODUCTS, kind, kinds[kind]);
    mmv_stats_add_metric(registry, "products.count", COUNT, MMV_TYPE_U64, MMV_SEM_COUNTER, count,
                         PRODUCTS, "products made", "since the factory started");
    mmv_stats_add_metric(registry, "products.time", TIME, MMV_TYPE_U64, MMV_SEM_COUNTER, time,
                         PRODUCTS, "machine time", "");
    mmv_stats_add_metric(registry, "total", TIME + 1, MMV_TYPE_U64, MMV_SEM_COUNTER, count, 0,
                         "products of all kinds", "");
    map = mmv_stats_start(registry); /* from here on readers see it */
    if (map == NULL) {
        perror(file);
        return 1;
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (pthread_create(&machines[kind], NULL, machine, (void *)kinds[kind]) != 0)
            return 1;
    for (int kind = 0; kind < KINDS; kind++)
        pthread_join(machines[kind], NULL);
    printf("%llu products\n",
           (unsigned long long)mmv_lookup_value_desc(map, "total", NULL)->ull);
    mmv_stats_free(registry); /* withdraws the file */
    return 0;
}
