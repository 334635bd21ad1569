/*
 * Instrument a C program with metrics in a memory-mapped file of Performance
 * Co-Pilot's MMV format: the interface of libpcp_mmv, for use without PCP.
 *
 * After PCP's own <pcp/pmapi.h> it takes types and constants from there. It
 * declares what PCP's header of this name declares, in the same layout, and so
 * takes its place.
 *
 * Functions that return an int return 0, or -1 with errno. Functions that return
 * a pointer return NULL with errno. Functions that count do nothing when given a
 * NULL map or value. All texts are copied.
 */
#ifndef PCP_MMV_STATS_H
#define PCP_MMV_STATS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PCP_PMAPI_H

/* Dimension and scale: powers of space, time and count, and their units; or one of
 * PM_UNIT_* with a scale. */
typedef struct pmUnits {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    signed int dimSpace : 4;
    signed int dimTime : 4;
    signed int dimCount : 4;
    unsigned int scaleSpace : 4;
    unsigned int scaleTime : 4;
    signed int scaleCount : 4;
    signed int extraUnit : 5;
    unsigned int extraScale : 3;
#else
    unsigned int extraScale : 3;
    signed int extraUnit : 5; /* PM_UNIT_*, 0: none */
    signed int scaleCount : 4; /* powers of ten */
    unsigned int scaleTime : 4; /* PM_TIME_* */
    unsigned int scaleSpace : 4; /* PM_SPACE_* */
    signed int dimCount : 4;
    signed int dimTime : 4;
    signed int dimSpace : 4;
#endif
} pmUnits;

enum {
    PM_SPACE_BYTE, PM_SPACE_KBYTE, PM_SPACE_MBYTE, PM_SPACE_GBYTE, PM_SPACE_TBYTE,
    PM_SPACE_PBYTE, PM_SPACE_EBYTE, PM_SPACE_ZBYTE, PM_SPACE_YBYTE
};
enum {
    PM_TIME_NSEC, PM_TIME_USEC, PM_TIME_MSEC, PM_TIME_SEC, PM_TIME_MIN, PM_TIME_HOUR
};
enum { PM_COUNT_ONE };
enum { PM_UNIT_TEMPERATURE = 1, PM_UNIT_VOLTAGE, PM_UNIT_CURRENT, PM_UNIT_POWER };
enum { PM_TEMPERATURE_C = 1, PM_TEMPERATURE_F, PM_TEMPERATURE_K };
enum { PM_VOLTAGE_V = 1, PM_VOLTAGE_mV, PM_VOLTAGE_uV };
enum { PM_CURRENT_A = 1, PM_CURRENT_mA, PM_CURRENT_uA };
enum { PM_POWER_kW = 1, PM_POWER_W, PM_POWER_mW, PM_POWER_uW };

/* A value, by its metric's type. */
typedef union pmAtomValue {
    int32_t l; /* MMV_TYPE_I32 */
    uint32_t ul; /* MMV_TYPE_U32 */
    int64_t ll; /* MMV_TYPE_I64, MMV_TYPE_ELAPSED */
    uint64_t ull; /* MMV_TYPE_U64 */
    float f; /* MMV_TYPE_FLOAT */
    double d; /* MMV_TYPE_DOUBLE */
    char *cp; /* MMV_TYPE_STRING, as an argument of mmv_set */
} pmAtomValue;

#endif /* PCP_PMAPI_H */

#define MMV_NAMEMAX 64 /* bytes of a name inside a struct, with its NUL */
#define MMV_LABELMAX 244 /* bytes of a label as JSON, with its NUL */
#define MMV_STRINGMAX 256 /* bytes of any other text, with its NUL */

typedef enum mmv_metric_type {
    MMV_TYPE_NOSUPPORT = -1,
    MMV_TYPE_I32 = 0,
    MMV_TYPE_U32 = 1,
    MMV_TYPE_I64 = 2,
    MMV_TYPE_U64 = 3,
    MMV_TYPE_FLOAT = 4,
    MMV_TYPE_DOUBLE = 5,
    MMV_TYPE_STRING = 6,
    MMV_TYPE_ELAPSED = 9 /* microseconds, and an interval that may be running */
} mmv_metric_type_t;

typedef enum mmv_metric_sem {
    MMV_SEM_COUNTER = 1, /* only grows; its rate matters */
    MMV_SEM_INSTANT = 3, /* goes up and down */
    MMV_SEM_DISCRETE = 4 /* holds until it is changed */
} mmv_metric_sem_t;

/* Instead of a serial: a metric with a single value. 0 means the same. */
enum { MMV_INDOM_NULL = -1 };

typedef enum mmv_stats_flags {
    MMV_FLAG_NOPREFIX = 0x1, /* metric names do not begin with the file's name */
    MMV_FLAG_PROCESS = 0x2, /* the file counts while this process lives */
    MMV_FLAG_SENTINEL = 0x4 /* all ones, NaN and empty texts mean "no value" */
} mmv_stats_flags_t;

/* What a label's value is, as JSON. */
typedef enum mmv_value_type {
    MMV_STRING_TYPE = 1, /* with its quotes */
    MMV_NUMBER_TYPE = 2,
    MMV_BOOLEAN_TYPE = 3,
    MMV_NULL_TYPE = 4, /* whatever the text is */
    MMV_ARRAY_TYPE = 5,
    MMV_MAP_TYPE = 6
} mmv_value_type_t;

/* A pmUnits, in an initializer of C or C++. The values are in the order of the members:
 * C89 and C++ before C++20 have no designated initializers. PCP's <pcp/pmapi.h> has the
 * members for extra units since PCP 7. */
#if defined(HAVE_BITFIELDS_LTOR) || \
    (defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define MMV_UNITS_IN_ORDER(a, b, c, d, e, f, g, h) { a, b, c, d, e, f, g, h }
#define MMV_UNITS_PADDED(a, b, c, d, e, f) { a, b, c, d, e, f, 0 }
#else
#define MMV_UNITS_IN_ORDER(a, b, c, d, e, f, g, h) { h, g, f, e, d, c, b, a }
#define MMV_UNITS_PADDED(a, b, c, d, e, f) { 0, f, e, d, c, b, a }
#endif
#if !defined(PCP_PMAPI_H) || defined(PM_UNIT_TEMPERATURE)
#define MMV_UNITS(space, time, count, space_scale, time_scale, count_scale) \
    MMV_UNITS_IN_ORDER(space, time, count, space_scale, time_scale, count_scale, 0, 0)
#define MMV_EXTRAUNITS(space, time, count, space_scale, time_scale, count_scale, unit, scale) \
    MMV_UNITS_IN_ORDER(space, time, count, space_scale, time_scale, count_scale, unit, scale)
#else
#define MMV_UNITS(space, time, count, space_scale, time_scale, count_scale) \
    MMV_UNITS_PADDED(space, time, count, space_scale, time_scale, count_scale)
#endif

/* -- A file out of a registry -- */

typedef struct mmv_registry mmv_registry_t;

/* `file` is a name below $PCP_TMP_DIR/mmv, or a path from the root. `cluster` is 1 to
 * 4095, or 0 to have the reader choose. */
extern mmv_registry_t *mmv_stats_registry(const char *file, int cluster, mmv_stats_flags_t flags);

extern int mmv_stats_add_metric(mmv_registry_t *, const char *name, int item,
                                mmv_metric_type_t, mmv_metric_sem_t, pmUnits, int serial,
                                const char *short_help, const char *long_help);
extern int mmv_stats_add_indom(mmv_registry_t *, int serial, const char *short_help,
                               const char *long_help);
extern int mmv_stats_add_instance(mmv_registry_t *, int serial, int instance, const char *name);

extern int mmv_stats_add_registry_label(mmv_registry_t *, const char *name, const char *value,
                                        mmv_value_type_t, int optional);
extern int mmv_stats_add_indom_label(mmv_registry_t *, int serial, const char *name,
                                     const char *value, mmv_value_type_t, int optional);
extern int mmv_stats_add_metric_label(mmv_registry_t *, int item, const char *name,
                                      const char *value, mmv_value_type_t, int optional);
extern int mmv_stats_add_instance_label(mmv_registry_t *, int serial, int instance,
                                        const char *name, const char *value, mmv_value_type_t,
                                        int optional);

/* Publishes the file; its map is the first argument of the functions below. */
extern void *mmv_stats_start(mmv_registry_t *);
/* Forgets what was added and unmaps the file; free also frees the registry. */
extern void mmv_stats_reset(mmv_registry_t *);
extern void mmv_stats_free(mmv_registry_t *);

/* -- A file out of arrays -- */

typedef struct mmv_instances {
    int32_t internal;
    char external[MMV_NAMEMAX];
} mmv_instances_t;

typedef struct mmv_instances2 {
    int32_t internal;
    const char *external;
} mmv_instances2_t;

typedef struct mmv_indom {
    uint32_t serial;
    uint32_t count;
    mmv_instances_t *instances;
    char *shorttext;
    char *helptext;
} mmv_indom_t;

typedef struct mmv_indom2 {
    uint32_t serial;
    uint32_t count;
    mmv_instances2_t *instances;
    char *shorttext;
    char *helptext;
} mmv_indom2_t;

typedef struct mmv_metric {
    char name[MMV_NAMEMAX];
    uint32_t item;
    mmv_metric_type_t type;
    mmv_metric_sem_t semantics;
    pmUnits dimension;
    uint32_t indom;
    char *shorttext;
    char *helptext;
} mmv_metric_t;

typedef struct mmv_metric2 {
    char *name;
    uint32_t item;
    mmv_metric_type_t type;
    mmv_metric_sem_t semantics;
    pmUnits dimension;
    uint32_t indom;
    char *shorttext;
    char *helptext;
} mmv_metric2_t;

extern void *mmv_stats_init(const char *file, int cluster, mmv_stats_flags_t,
                            const mmv_metric_t *, int metrics, const mmv_indom_t *, int indoms);
extern void *mmv_stats2_init(const char *file, int cluster, mmv_stats_flags_t,
                             const mmv_metric2_t *, int metrics, const mmv_indom2_t *, int indoms);
/* Unmaps a file, and removes it if it has the PROCESS flag. */
extern void mmv_stats_stop(const char *file, void *map);

/* -- Counting, by value: look it up once -- */

/* NULL if there is no such value; the instance does not matter to a singular
 * metric. */
extern pmAtomValue *mmv_lookup_value_desc(void *map, const char *metric, const char *instance);

/* Adding is atomic: threads lose nothing. */
extern void mmv_inc(void *map, pmAtomValue *);
extern void mmv_add(void *map, pmAtomValue *, void *amount);
extern void mmv_inc_atomvalue(void *map, pmAtomValue *, pmAtomValue *amount);
extern void mmv_inc_value(void *map, pmAtomValue *, double amount);

extern void mmv_set(void *map, pmAtomValue *, void *number);
extern void mmv_set_atomvalue(void *map, pmAtomValue *, pmAtomValue *number);
extern void mmv_set_value(void *map, pmAtomValue *, double number);
/* At most 254 bytes; a longer text is ignored. */
extern void mmv_set_string(void *map, pmAtomValue *, const char *text, int size);

/* -- Counting, by name: goes through all values at each call -- */

extern void mmv_stats_add(void *map, const char *metric, const char *instance, double amount);
extern void mmv_stats_inc(void *map, const char *metric, const char *instance);
extern void mmv_stats_set(void *map, const char *metric, const char *instance, double number);
/* To the second instance if there is no first one. */
extern void mmv_stats_add_fallback(void *map, const char *metric, const char *instance,
                                   const char *other, double amount);
extern void mmv_stats_inc_fallback(void *map, const char *metric, const char *instance,
                                   const char *other);
extern void mmv_stats_set_string(void *map, const char *metric, const char *instance,
                                 const char *text);
extern void mmv_stats_set_strlen(void *map, const char *metric, const char *instance,
                                 const char *text, size_t size);

/* Begin and end an interval of an MMV_TYPE_ELAPSED value; the first takes names if
 * the value is NULL, and returns the value. */
extern pmAtomValue *mmv_stats_interval_start(void *map, pmAtomValue *, const char *metric,
                                             const char *instance);
extern void mmv_stats_interval_end(void *map, pmAtomValue *);

#ifdef __cplusplus
}
#endif

#endif /* PCP_MMV_STATS_H */
