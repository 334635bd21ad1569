/*
 * A client of pmcd that looks as often as it can at a file that grows and at two
 * others that do not, until its standard input ends.
 *
 *     watch HOST
 *
 * Says at the end how many pictures it got and how many instances were in the last
 * one, and on standard error what is wrong, with exit status 1. What is right: PMIDs never change; the other files always
 * have their values; instances are called "i0", "i1" and so on, and have the numbers that
 * follow from these names; the value of each is 0, or 1000 more than the number in its name.
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

/* The number that follows from a name which collides with no other. */
static int number_of(const char *name)
{
    unsigned int hash = 2166136261u;

    while (*name != '\0') {
        hash ^= (unsigned char)*name++;
        hash *= 16777619u;
    }
    return (int)((hash >> 31) ^ (hash & 0x7fffffff));
}

enum { INSTANCES = 10000 };

/* The instances by their numbers. */
static struct instance {
    int number;
    int index;
} instances[INSTANCES];

static int compare(const void *one, const void *other)
{
    int a = ((const struct instance *)one)->number, b = ((const struct instance *)other)->number;

    return (a > b) - (a < b);
}

static void number_instances(void)
{
    char name[32];

    for (int i = 0; i < INSTANCES; i++) {
        snprintf(name, sizeof name, "i%d", i);
        instances[i] = (struct instance){number_of(name), i};
    }
    qsort(instances, INSTANCES, sizeof instances[0], compare);
}

/* What follows the "i" in the name of an instance. */
static int index_of(int number)
{
    struct instance wanted = {number, 0}, *found;

    found = bsearch(&wanted, instances, INSTANCES, sizeof instances[0], compare);
    if (found == NULL) {
        fprintf(stderr, "watch: no name has the number %d\n", number);
        exit(1);
    }
    return found->index;
}

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
    int count;

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

            int index = index_of(set->vlist[j].inst);

            if (value != 0 && value != 1000ull + index)
                fail("value of an instance", value, 1000 + index);
        }
    }
    count = result->vset[GROWING]->numval;
    pmFreeResult(result);
    return count;
}

static void look_at_names(pmInDom indom)
{
    int *numbers, count;
    char **texts, expected[32];

    must("instances", count = pmGetInDom(indom, &numbers, &texts));
    for (int i = 0; i < count; i++) {
        snprintf(expected, sizeof expected, "i%d", index_of(numbers[i]));
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
    int count = 0, last = 0;

    number_instances();
    must("connect", pmNewContext(PM_CONTEXT_HOST, argc > 1 ? argv[1] : ""));
    must("names", pmLookupName(METRICS, (void *)names, first));
    must("descriptor", pmLookupDesc(first[GROWING], &desc));
    while (!last) {
        last = poll(&input, 1, 0) > 0; /* Then once more. */
        must("names", pmLookupName(METRICS, (void *)names, now));
        for (int i = 0; i < METRICS; i++)
            if (now[i] != first[i])
                fail(names[i], now[i], first[i]);
        count = look(first);
        look_at_names(desc.indom);
        pictures++;
    }
    printf("%ld %d\n", pictures, count);
    return 0;
}
