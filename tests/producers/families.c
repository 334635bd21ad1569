/*
 * A program that calls every function of libpcp_mmv.
 *
 *     families MODE PATH [NUMBER THREADS]
 *
 *     make      publishes PATH.registry, PATH.init and PATH.init2, and changes
 *               every value by every function, always to the same numbers
 *     refuse    registrations that must fail, and their errno
 *     interval  intervals of elapsed time, measured
 *     stop      files come and go, with and without MMV_FLAG_PROCESS
 *     forked    a forked child counts in its parent's file
 *     nulls     what libpcp_mmv dies of; for our library only
 *     threads   NUMBER increments of each kind by each of THREADS threads; prints
 *               what is left of them
 *
 * It prints what is wrong to standard error and then exits with 1. Compiled with
 * -DWITH_PCP it uses PCP's headers, else ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef WITH_PCP
#include <pcp/pmapi.h>
#endif
#include <pcp/mmv_stats.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "families.c:%d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

#define LONG_NAME "a.name.that.is.longer.than.the.63.characters.which.version.1.holds"
#define LONG_INSTANCE "an instance name that is longer than the 63 characters of version 1"

#ifdef WITH_PCP
/* In PCP 6.0.3 this returns -1 when all is well. */
#define CHECK_INSTANCE(what) (void)(what)
/* PCP 6.0.3 does not have it. */
#define mmv_stats_reset(registry) \
    (mmv_stats_free(registry), registry = mmv_stats_registry(path, 321, MMV_FLAG_PROCESS))
#else
#define CHECK_INSTANCE(what) CHECK((what) == 0)
#endif

enum { DISKS = 7, EMPTY = 8 };

static const pmUnits count = MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE);
static const pmUnits usec = MMV_UNITS(0, 1, 0, 0, PM_TIME_USEC, 0);
static const pmUnits byte_rate = MMV_UNITS(1, -1, 0, PM_SPACE_KBYTE, PM_TIME_SEC, 0);

static char path[4096];

static char *with(const char *name, const char *suffix)
{
    snprintf(path, sizeof(path), "%s%s", name, suffix);
    return path;
}

/* One metric of each type: "i32" to "elapsed", and "disk" over a domain. */
static mmv_registry_t *filled(const char *file, mmv_stats_flags_t flags)
{
    static const struct { const char *name; mmv_metric_type_t type; } types[] = {
        { "i32", MMV_TYPE_I32 }, { "u32", MMV_TYPE_U32 }, { "i64", MMV_TYPE_I64 },
        { "u64", MMV_TYPE_U64 }, { "float", MMV_TYPE_FLOAT }, { "double", MMV_TYPE_DOUBLE },
        { "text", MMV_TYPE_STRING }, { "elapsed", MMV_TYPE_ELAPSED },
    };
    mmv_registry_t *registry = mmv_stats_registry(file, 321, flags);
    int i;

    CHECK(registry != NULL);
    CHECK(mmv_stats_add_indom(registry, DISKS, "disks", "All of them.") == 0);
    CHECK_INSTANCE(mmv_stats_add_instance(registry, DISKS, 0, "sda"));
    CHECK_INSTANCE(mmv_stats_add_instance(registry, DISKS, 5, "sdb"));
    CHECK(mmv_stats_add_indom(registry, EMPTY, NULL, "none yet") == 0);
    for (i = 0; i < 8; i++)
        CHECK(mmv_stats_add_metric(registry, types[i].name, i + 1, types[i].type, MMV_SEM_INSTANT,
                                   i == 7 ? usec : byte_rate, i % 2 ? 0 : MMV_INDOM_NULL,
                                   "short", i == 0 ? "long" : NULL) == 0);
    CHECK(mmv_stats_add_metric(registry, "disk", 20, MMV_TYPE_U64, MMV_SEM_COUNTER, count, DISKS,
                               NULL, NULL) == 0);
    CHECK(mmv_stats_add_metric(registry, "model", 21, MMV_TYPE_STRING, MMV_SEM_DISCRETE, count,
                               DISKS, NULL, NULL) == 0);
    CHECK(mmv_stats_add_metric(registry, "nothing", 22, MMV_TYPE_STRING, MMV_SEM_DISCRETE, count,
                               EMPTY, "of no instance", NULL) == 0);
    return registry;
}

static void add_labels(mmv_registry_t *registry)
{
    CHECK(mmv_stats_add_registry_label(registry, "app", "\"families\"", MMV_STRING_TYPE, 0) == 0);
    CHECK(mmv_stats_add_registry_label(registry, "none", "", MMV_NULL_TYPE, 1) == 0);
    CHECK(mmv_stats_add_indom_label(registry, DISKS, "spins", "false", MMV_BOOLEAN_TYPE, 0) == 0);
    CHECK(mmv_stats_add_metric_label(registry, 4, "at", "[0.5,0.99]", MMV_ARRAY_TYPE, 0) == 0);
    CHECK(mmv_stats_add_metric_label(registry, 4, "in", "{\"a\":1}", MMV_MAP_TYPE, 1) == 0);
    CHECK(mmv_stats_add_instance_label(registry, DISKS, 5, "bay", "2", MMV_NUMBER_TYPE, 0) == 0);
}

static pmAtomValue *value_of(void *map, const char *metric)
{
    pmAtomValue *value = mmv_lookup_value_desc(map, metric, NULL);

    CHECK(value != NULL);
    return value;
}

/* Every function that counts, by values looked up. */
static void count_by_value(void *map)
{
    static const char *numbers[] = { "i32", "u32", "i64", "u64", "float", "double" };
    pmAtomValue atom, *value;
    int i;

    for (i = 0; i < 6; i++) {
        value = value_of(map, numbers[i]);
        mmv_set_value(map, value, 1000);
        mmv_inc(map, value);
        mmv_inc_value(map, value, 10.75);
        mmv_inc_value(map, value, -3);
        memset(&atom, 0, sizeof(atom));
        switch (i) {
        case 0: atom.l = -100; break;
        case 1: atom.ul = 100; break;
        case 2: atom.ll = -100000000000LL; break;
        case 3: atom.ull = 1ULL << 63; break;
        case 4: atom.f = 0.5f; break;
        case 5: atom.d = 0.125; break;
        }
        mmv_inc_atomvalue(map, value, &atom);
        mmv_add(map, value, &atom);
    }
    atom.ull = 77;
    mmv_set(map, mmv_lookup_value_desc(map, "disk", "sda"), &atom);
    mmv_set_atomvalue(map, mmv_lookup_value_desc(map, "disk", "sdb"), &atom);
    /* A number wraps around within its own four bytes. */
    atom.ull = 0;
    atom.ul = 4294967295U;
    mmv_set(map, value_of(map, "u32"), &atom);
    mmv_inc(map, value_of(map, "u32"));
    mmv_inc(map, value_of(map, "u32"));
}

static void count_texts(void *map)
{
    char longest[300];
    pmAtomValue atom, *text = value_of(map, "text");

    memset(longest, 'x', sizeof(longest));
    mmv_set_string(map, text, longest, 254);
    mmv_set_string(map, text, longest, 255); /* too long: ignored */
    mmv_set_string(map, text, longest, -1);
    mmv_set_string(map, value_of(map, "u64"), "no text", 7);
    mmv_inc(map, text);
    mmv_inc_value(map, text, 1);
    mmv_set_value(map, text, 1);
    mmv_stats_set_string(map, "model", "sda", "a longer text that is replaced");
    atom.cp = (char *)"Quantum";
    mmv_set(map, mmv_lookup_value_desc(map, "model", "sda"), &atom);
    mmv_stats_set_strlen(map, "model", "sdb", "Fireball and more", 8);
    mmv_stats_set_string(map, "model", "sdz", "of nobody");
}

static void count_by_name(void *map)
{
    CHECK(mmv_lookup_value_desc(map, "missing", NULL) == NULL);
    CHECK(mmv_lookup_value_desc(map, "disk", NULL) == NULL);
    CHECK(mmv_lookup_value_desc(map, "disk", "sdz") == NULL);
    CHECK(mmv_lookup_value_desc(map, "nothing", "sda") == NULL);
    CHECK(mmv_lookup_value_desc(map, "u64", "whatever") == value_of(map, "u64"));
    mmv_stats_set(map, "i64", NULL, -5);
    mmv_stats_add(map, "i64", NULL, 2.5);
    mmv_stats_inc(map, "i64", "ignored");
    mmv_stats_add(map, "disk", "sda", 3);
    mmv_stats_inc(map, "disk", "sdb");
    mmv_stats_add_fallback(map, "disk", "sdz", "sda", 100);
    mmv_stats_inc_fallback(map, "disk", "sdb", "sda");
    mmv_stats_inc_fallback(map, "disk", "sdy", "sdz");
    mmv_stats_set(map, "missing", NULL, 1);
}

/* Elapsed time given by hand, in microseconds. */
static void count_elapsed(void *map)
{
    pmAtomValue atom, *elapsed = value_of(map, "elapsed");

    mmv_inc_value(map, elapsed, -1000); /* begins */
    mmv_inc_value(map, elapsed, 1500); /* ends */
    mmv_inc(map, elapsed);
    atom.ll = 20;
    mmv_inc_atomvalue(map, elapsed, &atom);
    CHECK(elapsed->ll == 521);
    atom.ll = -7;
    mmv_inc_atomvalue(map, elapsed, &atom);
    mmv_set_value(map, elapsed, -5);
    mmv_inc(map, elapsed); /* of a negative cell: goes to the start */
    CHECK(elapsed->ll == -5 && (&elapsed->ll)[1] == 1);
    atom.ll = 30;
    mmv_set_atomvalue(map, elapsed, &atom);
    CHECK(elapsed->ll == 30 && (&elapsed->ll)[1] == 0);
}

static void count_all(void *map)
{
    count_by_value(map);
    count_texts(map);
    count_by_name(map);
    count_elapsed(map);
}

static void make_arrays(const char *name)
{
    mmv_instances_t disks[] = { { 0, "sda" }, { 5, "sdb" } };
    mmv_indom_t indom = { DISKS, 2, disks, (char *)"disks", NULL };
    mmv_metric_t metrics[] = {
        { "u64", 1, MMV_TYPE_U64, MMV_SEM_COUNTER, MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE), 0,
          NULL, NULL },
        { "disk", 2, MMV_TYPE_DOUBLE, MMV_SEM_INSTANT, MMV_UNITS(1, 0, 0, PM_SPACE_MBYTE, 0, 0),
          DISKS, (char *)"of a disk", (char *)"long" },
    };
    mmv_instances2_t disks2[] = { { 0, "sda" }, { 5, LONG_INSTANCE } };
    mmv_indom2_t indom2 = { DISKS, 2, disks2, NULL, (char *)"disks" };
    mmv_metric2_t metrics2[] = {
        { (char *)LONG_NAME, 1, MMV_TYPE_U64, MMV_SEM_COUNTER,
          MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE), 0, NULL, NULL },
        { (char *)"state", 2, MMV_TYPE_STRING, MMV_SEM_DISCRETE, MMV_UNITS(0, 0, 0, 0, 0, 0),
          DISKS, NULL, (char *)"long" },
    };
    void *map;

    memset(metrics[0].name, 'n', MMV_NAMEMAX); /* without a NUL: cut */
    map = mmv_stats_init(with(name, ".init"), 322, 0, metrics, 2, &indom, 1);
    CHECK(map != NULL);
    metrics[0].name[MMV_NAMEMAX - 1] = '\0';
    mmv_stats_set(map, metrics[0].name, NULL, 11);
    mmv_stats_set(map, "disk", "sdb", 0.25);
    map = mmv_stats2_init(with(name, ".init2"), 323, MMV_FLAG_NOPREFIX, metrics2, 2, &indom2, 1);
    CHECK(map != NULL);
    mmv_stats_set(map, LONG_NAME, NULL, 12);
    mmv_stats_set_string(map, "state", LONG_INSTANCE, "up");
}

static void make(const char *name)
{
    mmv_registry_t *registry = filled(with(name, ".registry"), MMV_FLAG_SENTINEL);
    pmAtomValue none;
    void *map;

    map = mmv_stats_start(registry);
    CHECK(map != NULL);
    count_all(map);
    /* Again, with labels: a new file. */
    registry = filled(with(name, ".labels"), MMV_FLAG_SENTINEL);
    add_labels(registry);
    map = mmv_stats_start(registry);
    CHECK(map != NULL);
    count_all(map);
    none.ull = ~0ULL;
    mmv_set_atomvalue(map, value_of(map, "i32"), &none);
    make_arrays(name);
}

static void refuse(const char *name)
{
    mmv_registry_t *registry = filled(with(name, ".registry"), 0);
    char long_text[300];

    memset(long_text, 'x', sizeof(long_text));
    long_text[256] = '\0';
    errno = 0;
    CHECK(mmv_stats_add_instance(registry, 99, 1, "a") == -1 && errno == EINVAL);
    CHECK(mmv_stats_add_metric_label(registry, 1, "1", "2", MMV_NUMBER_TYPE, 0) == -1
          && errno == EINVAL);
    CHECK(mmv_stats_add_metric_label(registry, 1, NULL, "2", MMV_NUMBER_TYPE, 0) == -1
          && errno == EINVAL);
    CHECK(mmv_stats_add_metric_label(registry, 1, "a", "2", MMV_STRING_TYPE, 0) == -1
          && errno == EINVAL);
    CHECK(mmv_stats_add_metric_label(registry, 1, "a", long_text, MMV_STRING_TYPE, 0) == -1
          && errno == E2BIG);
    CHECK(mmv_stats_add_metric(NULL, "a", 1, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 0, NULL, NULL)
              == -1
          && errno == EFAULT);
    CHECK(mmv_stats_add_indom(NULL, 1, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(mmv_stats_add_instance(NULL, 1, 1, "a") == -1 && errno == EFAULT);
    CHECK(mmv_stats_add_registry_label(NULL, "a", "1", MMV_NUMBER_TYPE, 0) == -1
          && errno == EFAULT);
    /* No label came of that: the version is 1. */
    CHECK(((int *)mmv_stats_start(registry))[1] == 1);

    mmv_stats_add_metric(registry, "of_no_domain", 30, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 99,
                         NULL, NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == ESRCH);
    mmv_stats_reset(registry);
    mmv_stats_add_metric(registry, "", 30, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 0, NULL, NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == EINVAL);
    mmv_stats_reset(registry);
    mmv_stats_add_metric(registry, "a", 30, (mmv_metric_type_t)10, MMV_SEM_COUNTER, count, 0, NULL,
                         NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == EINVAL);
    mmv_stats_reset(registry);
    mmv_stats_add_metric(registry, long_text, 30, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 0, NULL,
                         NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == E2BIG);
    mmv_stats_reset(registry);
    mmv_stats_add_indom(registry, 0, NULL, NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == ESRCH);
    mmv_stats_reset(registry);
    mmv_stats_add_indom(registry, 1, long_text, NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == E2BIG);
    mmv_stats_free(registry);

    registry = filled(with(name, "/no/such/directory"), 0);
    CHECK(mmv_stats_start(registry) == NULL && (errno == ENOTDIR || errno == ENOENT));
    CHECK(mmv_lookup_value_desc(NULL, "a", NULL) == NULL);
    mmv_inc(NULL, NULL);
    mmv_stats_inc(NULL, "a", NULL);
    mmv_stats_stop(with(name, ".registry"), NULL);
}

static void interval(const char *name)
{
    void *map = mmv_stats_start(filled(with(name, ".registry"), 0));
    pmAtomValue *elapsed;

    CHECK(mmv_stats_interval_start(map, NULL, "missing", NULL) == NULL);
    elapsed = mmv_stats_interval_start(map, NULL, "elapsed", NULL);
    CHECK(elapsed == value_of(map, "elapsed"));
    CHECK((&elapsed->ll)[1] < -1000000000000LL);
    usleep(20000);
    mmv_stats_interval_end(map, elapsed);
    CHECK(elapsed->ll >= 20000 && elapsed->ll < 20000000 && (&elapsed->ll)[1] == 0);
    CHECK(mmv_stats_interval_start(map, elapsed, NULL, NULL) == elapsed);
    mmv_stats_interval_end(map, elapsed);
    CHECK(elapsed->ll >= 20000 && elapsed->ll < 20000000);
    /* Of a plain number: now is subtracted, then added. */
    elapsed = mmv_stats_interval_start(map, NULL, "u64", NULL);
    usleep(20000);
    mmv_stats_interval_end(map, elapsed);
    CHECK(elapsed->ll >= 20000 && elapsed->ll < 20000000);
}

static void stop(const char *name)
{
    mmv_registry_t *registry = filled(with(name, ".plain"), 0);
    void *map;

    map = mmv_stats_start(registry);
    CHECK(map != NULL && access(path, R_OK) == 0);
    mmv_stats_stop(path, map);
    CHECK(access(path, R_OK) == 0);
    registry = filled(with(name, ".process"), MMV_FLAG_PROCESS);
    map = mmv_stats_start(registry);
    CHECK(map != NULL && access(path, R_OK) == 0);
    mmv_stats_stop(path, map);
    CHECK(access(path, R_OK) != 0);
    registry = filled(with(name, ".reset"), MMV_FLAG_PROCESS);
    CHECK(mmv_stats_start(registry) != NULL && access(path, R_OK) == 0);
    mmv_stats_reset(registry);
    CHECK(access(path, R_OK) != 0);
    mmv_stats_add_metric(registry, "again", 1, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 0, NULL, NULL);
    map = mmv_stats_start(registry);
    CHECK(map != NULL && access(path, R_OK) == 0);
    CHECK(mmv_lookup_value_desc(map, "u64", NULL) == NULL);
    mmv_stats_inc(map, "again", NULL);
    CHECK(value_of(map, "again")->ul == 1);
    mmv_stats_free(registry);
    CHECK(access(path, R_OK) != 0);
}

static void forked(const char *name)
{
    void *map = mmv_stats_start(filled(with(name, ".registry"), 0));
    pmAtomValue *value = value_of(map, "u64");
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        mmv_inc(map, value);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    mmv_inc(map, value);
    CHECK(value->ull == 2);
}

static void nulls(const char *name)
{
    mmv_registry_t *registry = mmv_stats_registry(NULL, 0, 0);
    pmAtomValue atom, *value;
    void *map;

    CHECK(mmv_stats_start(NULL) == NULL && errno == EFAULT);
#ifndef WITH_PCP
    mmv_stats_reset(NULL);
#endif
    mmv_stats_free(NULL);
    CHECK(mmv_stats_start(registry) == NULL && errno == EFAULT);
    CHECK(mmv_stats_add_metric(registry, NULL, 1, MMV_TYPE_U32, MMV_SEM_COUNTER, count, 0, NULL,
                               NULL) == -1);
    mmv_stats_free(registry);
    CHECK(mmv_stats_init(NULL, 0, 0, NULL, 0, NULL, 0) == NULL && errno == EFAULT);
    CHECK(mmv_stats_init(with(name, ".none"), 0, 0, NULL, 1, NULL, 0) == NULL && errno == EFAULT);
    CHECK(mmv_stats2_init(path, 0, 0, NULL, -1, NULL, 0) == NULL && errno == EINVAL);

    map = mmv_stats_start(filled(with(name, ".registry"), MMV_FLAG_PROCESS));
    value = value_of(map, "u64");
    mmv_add(map, value, NULL);
    mmv_set(map, value, NULL);
    mmv_inc(map, NULL);
    mmv_inc(NULL, value);
    CHECK(value->ull == 0);
    atom.cp = NULL;
    mmv_set(map, value_of(map, "text"), &atom);
    mmv_set_string(map, value_of(map, "text"), NULL, 3);
    mmv_stats_set_string(map, "text", NULL, NULL);
    CHECK(mmv_lookup_value_desc(map, NULL, NULL) == NULL);
    /* Ending what never began adds nothing. */
    mmv_stats_interval_end(map, value_of(map, "elapsed"));
    CHECK(value_of(map, "elapsed")->ll == 0);
    /* Our own file only, and only once. */
    CHECK(rename(path, "moved") == 0 && symlink("moved", path) == 0);
    mmv_stats_stop(path, map);
    CHECK(access("moved", R_OK) == 0);
    mmv_stats_stop(path, map);
    mmv_stats_stop(NULL, map);
    mmv_stats_stop(path, &atom);
}

static long each;
static void *shared;
static pthread_barrier_t start;

static void *counting(void *unused)
{
    pmAtomValue *u64 = value_of(shared, "u64"), *u32 = value_of(shared, "u32");
    pmAtomValue *number = value_of(shared, "double");
    long i;

    pthread_barrier_wait(&start);
    for (i = 0; i < each; i++) {
        mmv_inc(shared, u64);
        mmv_inc_value(shared, number, 1);
        mmv_inc(shared, u32);
        mmv_stats_add(shared, "i32", NULL, -1);
    }
    return unused;
}

static void threads(const char *name, const char *number, const char *threads)
{
    pthread_t others[16];
    int count = atoi(threads) - 1, i;

    CHECK(count >= 0 && count <= 16);
    each = atol(number);
    shared = mmv_stats_start(filled(with(name, ".registry"), 0));
    CHECK(shared != NULL && pthread_barrier_init(&start, NULL, count + 1) == 0);
    for (i = 0; i < count; i++)
        CHECK(pthread_create(&others[i], NULL, counting, NULL) == 0);
    counting(NULL);
    for (i = 0; i < count; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
    printf("%llu %.0f %u %d\n", (unsigned long long)value_of(shared, "u64")->ull,
           value_of(shared, "double")->d, value_of(shared, "u32")->ul, value_of(shared, "i32")->l);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";

    if (strcmp(mode, "make") == 0)
        make(argv[2]);
    else if (strcmp(mode, "refuse") == 0)
        refuse(argv[2]);
    else if (strcmp(mode, "interval") == 0)
        interval(argv[2]);
    else if (strcmp(mode, "stop") == 0)
        stop(argv[2]);
    else if (strcmp(mode, "forked") == 0)
        forked(argv[2]);
    else if (strcmp(mode, "nulls") == 0)
        nulls(argv[2]);
    else if (strcmp(mode, "threads") == 0 && argc > 4)
        threads(argv[2], argv[3], argv[4]);
    else
        return 2;
    return 0;
}
