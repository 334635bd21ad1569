/*
 * Writes the archive of ../made.rs by libpcp_import, as that library's users do:
 * `text` gives each value as a string by its handle (as in its manual),
 * `result` whole pmResults in binary (its fastest way).
 *
 * Usage: write BASE text|result METRICS RECORDS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pcp/pmapi.h>
#include <pcp/import.h>

#define START 1700000000

static uint64_t mix(uint64_t bits)
{
    bits += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

static uint64_t value(uint32_t metric, uint64_t record)
{
    uint64_t mixed = mix((uint64_t)metric << 32 | record);
    if (metric % 2 == 0)
        return (uint64_t)metric * 1000003 + record * 65536 + (mixed >> 48);
    return (mixed >> 40) - (1 << 23);
}

static void must(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, pmiErrStr(status));
        exit(1);
    }
}

static void write_text(uint32_t metrics, uint64_t records, const char (*names)[32])
{
    int *handles = calloc(metrics, sizeof(int));
    for (uint32_t metric = 0; metric < metrics; metric++) {
        handles[metric] = pmiGetHandle(names[metric], NULL);
        must(handles[metric], "pmiGetHandle");
    }
    for (uint64_t record = 0; record < records; record++) {
        for (uint32_t metric = 0; metric < metrics; metric++) {
            uint64_t bits = value(metric, record);
            char text[24];
            if (metric % 2 == 0)
                snprintf(text, sizeof(text), "%" PRIu64, bits);
            else
                snprintf(text, sizeof(text), "%" PRId64, (int64_t)bits);
            must(pmiPutValueHandle(handles[metric], text), "pmiPutValueHandle");
        }
        must(pmiWrite(START + record, 0), "pmiWrite");
    }
}

static void write_result(uint32_t metrics, uint64_t records, const pmID *ids)
{
    enum { BLOCK = PM_VAL_HDR_SIZE + sizeof(uint64_t) };
    pmResult *result = malloc(sizeof(pmResult) + metrics * sizeof(pmValueSet *));
    result->numpmid = metrics;
    for (uint32_t metric = 0; metric < metrics; metric++) {
        pmValueSet *set = malloc(sizeof(pmValueSet));
        pmValueBlock *block = malloc(BLOCK);
        block->vtype = metric % 2 == 0 ? PM_TYPE_U64 : PM_TYPE_64;
        block->vlen = BLOCK;
        set->pmid = ids[metric];
        set->numval = 1;
        set->valfmt = PM_VAL_DPTR;
        set->vlist[0].inst = PM_IN_NULL;
        set->vlist[0].value.pval = block;
        result->vset[metric] = set;
    }
    for (uint64_t record = 0; record < records; record++) {
        result->timestamp.tv_sec = START + record;
        result->timestamp.tv_usec = 0;
        for (uint32_t metric = 0; metric < metrics; metric++) {
            uint64_t bits = value(metric, record);
            memcpy(result->vset[metric]->vlist[0].value.pval->vbuf, &bits, sizeof(bits));
        }
        must(pmiPutResult(result), "pmiPutResult");
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: write BASE text|result METRICS RECORDS\n");
        return 2;
    }
    uint32_t metrics = strtoul(argv[3], NULL, 10);
    uint64_t records = strtoull(argv[4], NULL, 10);
    char (*names)[32] = calloc(metrics, sizeof(*names));
    pmID *ids = calloc(metrics, sizeof(pmID));

    must(pmiStart(argv[1], 0), "pmiStart");
    must(pmiSetVersion(3), "pmiSetVersion");
    must(pmiSetHostname("bench"), "pmiSetHostname");
    must(pmiSetTimezone("UTC"), "pmiSetTimezone");
    for (uint32_t metric = 0; metric < metrics; metric++) {
        int type = metric % 2 == 0 ? PM_TYPE_U64 : PM_TYPE_64;
        int semantics = metric % 2 == 0 ? PM_SEM_COUNTER : PM_SEM_INSTANT;
        snprintf(names[metric], sizeof(*names), "bench.%c.n%u", "abc"[metric % 3], metric);
        ids[metric] = pmiID(70, 1 + metric / 1000, metric % 1000);
        must(pmiAddMetric(names[metric], ids[metric], type, PM_INDOM_NULL, semantics,
                          pmiUnits(0, 0, 1, 0, 0, PM_COUNT_ONE)), "pmiAddMetric");
    }
    if (strcmp(argv[2], "text") == 0)
        write_text(metrics, records, (const char (*)[32])names);
    else
        write_result(metrics, records, ids);
    must(pmiEnd(), "pmiEnd");
    return 0;
}
