/*
 * Prints interpolated values as CSV by libpcp alone: what an archive's replay
 * costs without Python.
 *
 * Usage: fetch BASE NAME STEP_MSEC SAMPLES
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pcp/pmapi.h>

static const char **names;
static int count;

static int must(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, pmErrStr(status));
        exit(1);
    }
    return status;
}

static void add(const char *name)
{
    names = realloc(names, (count + 1) * sizeof(*names));
    names[count++] = strdup(name);
}

static void print_value(const pmValueSet *set, int type)
{
    pmAtomValue atom;
    putchar(',');
    if (set->numval < 1)
        return;
    must(pmExtractValue(set->valfmt, &set->vlist[0], type, &atom, type), "pmExtractValue");
    if (type == PM_TYPE_U64)
        printf("%" PRIu64, atom.ull);
    else
        printf("%" PRId64, atom.ll);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: fetch BASE NAME STEP_MSEC SAMPLES\n");
        return 2;
    }
    pmLogLabel label;
    must(pmNewContext(PM_CONTEXT_ARCHIVE, argv[1]), "pmNewContext");
    must(pmGetArchiveLabel(&label), "pmGetArchiveLabel");
    must(pmTraversePMNS(argv[2], add), "pmTraversePMNS");
    pmID *ids = calloc(count, sizeof(*ids));
    int *types = calloc(count, sizeof(*types));
    must(pmLookupName(count, names, ids), "pmLookupName");
    for (int metric = 0; metric < count; metric++) {
        pmDesc desc;
        must(pmLookupDesc(ids[metric], &desc), "pmLookupDesc");
        types[metric] = desc.type;
    }
    struct timeval start = label.ll_start;
    start.tv_usec += 500000;
    int mode = PM_MODE_INTERP | PM_XTB_SET(PM_TIME_MSEC);
    must(pmSetMode(mode, &start, atoi(argv[3])), "pmSetMode");
    for (int sample = atoi(argv[4]); sample > 0; sample--) {
        pmResult *result;
        must(pmFetch(count, ids, &result), "pmFetch");
        printf("%ld.%06ld", (long)result->timestamp.tv_sec, (long)result->timestamp.tv_usec);
        for (int metric = 0; metric < count; metric++)
            print_value(result->vset[metric], types[metric]);
        putchar('\n');
        pmFreeResult(result);
    }
    return 0;
}
