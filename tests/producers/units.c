/* The header's initializers, in every standard of C and C++: 0 if each member has its
 * value. SHAPE selects the pmUnits: 1 the header's own, 2 PCP's own of <pcp/pmapi.h>,
 * 3 one with the members of PCP 7. */
#if SHAPE == 2
#include <pcp/pmapi.h>
#elif SHAPE == 3
#define PCP_PMAPI_H
#include <stdint.h>
typedef struct {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    int dimSpace : 4;
    int dimTime : 4;
    int dimCount : 4;
    unsigned int scaleSpace : 4;
    unsigned int scaleTime : 4;
    int scaleCount : 4;
    int extraUnit : 5;
    unsigned int extraScale : 3;
#else
    unsigned int extraScale : 3;
    int extraUnit : 5;
    int scaleCount : 4;
    unsigned int scaleTime : 4;
    unsigned int scaleSpace : 4;
    int dimCount : 4;
    int dimTime : 4;
    int dimSpace : 4;
#endif
} pmUnits;
typedef union {
    int32_t l;
    uint32_t ul;
    int64_t ll;
    uint64_t ull;
    float f;
    double d;
    char *cp;
} pmAtomValue;
#define PM_SPACE_MBYTE 2
#define PM_TIME_SEC 3
#define PM_COUNT_ONE 0
#define PM_UNIT_TEMPERATURE 1
#define PM_UNIT_VOLTAGE 2
#define PM_VOLTAGE_uV 3
#endif
#include <pcp/mmv_stats.h>

static pmUnits rate = MMV_UNITS(1, -1, 0, PM_SPACE_MBYTE, PM_TIME_SEC, PM_COUNT_ONE);
static pmUnits events = MMV_UNITS(0, 0, 1, 0, 0, -3);
static mmv_metric2_t metric = {
    (char *)"name", 1, MMV_TYPE_U64, MMV_SEM_COUNTER, MMV_UNITS(0, 1, 0, 0, PM_TIME_SEC, 0),
    0, (char *)"short", (char *)"long",
};
#ifdef MMV_EXTRAUNITS
static pmUnits volts = MMV_EXTRAUNITS(0, 0, 0, 0, 0, 0, PM_UNIT_VOLTAGE, PM_VOLTAGE_uV);
#elif SHAPE != 2
#error "no MMV_EXTRAUNITS"
#endif

int main(void)
{
    if (rate.dimSpace != 1 || rate.dimTime != -1 || rate.dimCount != 0) return 1;
    if (rate.scaleSpace != PM_SPACE_MBYTE || rate.scaleTime != PM_TIME_SEC) return 2;
    if (rate.scaleCount != 0) return 3;
    if (events.dimCount != 1 || events.scaleCount != -3 || events.dimSpace != 0) return 4;
    if (metric.dimension.dimTime != 1 || metric.dimension.scaleTime != PM_TIME_SEC) return 5;
#ifdef MMV_EXTRAUNITS
    if (volts.extraUnit != PM_UNIT_VOLTAGE || volts.extraScale != PM_VOLTAGE_uV) return 6;
    if (volts.dimSpace != 0 || rate.extraUnit != 0 || rate.extraScale != 0) return 7;
#endif
    return 0;
}
