/*
 * A client of pmcd that looks as often as it can at a file that grows and at two
 * others that do not, until its standard input ends.
 *
 *     watch HOST
 *
 * Says at the end how many pictures it got and how many instances were in the last
 * one, and on standard error what is wrong, with exit status 1. What is right: PMIDs never change; the other files always
 * have their values; an instance is called "i" and its number; its value is 0 or
 * 1000 and its number.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcp/pmapi.h>

enum { BEFORE, GROWING, OTHER, METRICS };

static const char *names[METRICS] = {"mmv.before.steady", "mmv.growing.count", "mmv.other.steady"};
static const unsigned long long steady[METRICS] = {8, 0, 9};

static void fail(const char *what, long found, long expected)
{
    fprintf(stderr, "watch: %s: found %ld, expected %ld\n", what, found, expected);
    exit(1);
}

static void must(const char *what, int status)
{
    if (status < 0) {
        fprintf(stderr, "watch: %s: %s\n", what, pmErrStr(status));
        exit(1);
    }
}

static unsigned long long number(const pmValueSet *set, int index)
{
    pmAtomValue atom;

    must("value", pmExtractValue(set->valfmt, &set->vlist[index], PM_TYPE_U64, &atom, PM_TYPE_U64));
    return atom.ull;
}

/* The instances and values in one answer. */
static int look(pmID *pmids)
{
    pmResult *result;
    int instances;

    must("fetch", pmFetch(METRICS, pmids, &result));
    for (int i = 0; i < METRICS; i++) {
        const pmValueSet *set = result->vset[i];

        if (i != GROWING) {
            if (set->numval != 1)
                fail(names[i], set->numval, 1);
            if (number(set, 0) != steady[i])
                fail(names[i], number(set, 0), steady[i]);
            continue;
        }
        if (set->numval < 0)
            must(names[i], set->numval);
        for (int j = 0; j < set->numval; j++) {
            unsigned long long value = number(set, j);

            if (value != 0 && value != 1000ull + set->vlist[j].inst)
                fail("value of an instance", value, 1000 + set->vlist[j].inst);
        }
    }
    instances = result->vset[GROWING]->numval;
    pmFreeResult(result);
    return instances;
}

static void look_at_names(pmInDom indom)
{
    int *numbers, count;
    char **texts, expected[32];

    must("instances", count = pmGetInDom(indom, &numbers, &texts));
    for (int i = 0; i < count; i++) {
        snprintf(expected, sizeof expected, "i%d", numbers[i]);
        if (strcmp(texts[i], expected) != 0) {
            fprintf(stderr, "watch: instance %d is called %s\n", numbers[i], texts[i]);
            exit(1);
        }
    }
    if (count > 0) {
        free(numbers);
        free(texts);
    }
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    pmID first[METRICS], now[METRICS];
    pmDesc desc;
    long pictures = 0;
    int instances = 0, last = 0;

    must("connect", pmNewContext(PM_CONTEXT_HOST, argc > 1 ? argv[1] : ""));
    must("names", pmLookupName(METRICS, (void *)names, first));
    must("descriptor", pmLookupDesc(first[GROWING], &desc));
    while (!last) {
        last = poll(&input, 1, 0) > 0; /* Then once more. */
        must("names", pmLookupName(METRICS, (void *)names, now));
        for (int i = 0; i < METRICS; i++)
            if (now[i] != first[i])
                fail(names[i], now[i], first[i]);
        instances = look(first);
        look_at_names(desc.indom);
        pictures++;
    }
    printf("%ld %d\n", pictures, instances);
    return 0;
}
