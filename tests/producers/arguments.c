/*
 * What a libpcp_mmv makes of bad and borderline arguments.
 *
 *     arguments DIRECTORY
 *
 * Prints a line for each case: what was given, then what came of it: "taken", with what
 * the file has then; the name of an errno; or "dies". The directory must be empty.
 * Compiled with -DWITH_PCP it uses PCP's headers, else ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef WITH_PCP
#include <pcp/pmapi.h>
#endif
#include <pcp/mmv_stats.h>

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

static const pmUnits none = MMV_UNITS(0, 0, 0, 0, 0, 0);
static const char *directory;

/* A path in the directory. It is never freed: libpcp_mmv keeps the pointer. */
static char *in(const char *name)
{
    char *path = malloc(strlen(directory) + strlen(name) + 2);

    sprintf(path, "%s/%s", directory, name);
    return path;
}

/* A text without blanks; of a long one its length. */
static void print(const char *text)
{
    if (strlen(text) > 80) {
        printf("(%zu bytes)", strlen(text));
        return;
    }
    for (; *text; text++)
        printf(*text > ' ' && *text <= '~' ? "%c" : "\\x%02x", (unsigned char)*text);
}

static void refused(void)
{
    printf("%s\n", strerrorname_np(errno));
}

static int add(mmv_registry_t *registry, const char *name, mmv_metric_type_t type, int serial)
{
    return mmv_stats_add_metric(registry, name, 1, type, MMV_SEM_INSTANT, none, serial, NULL, NULL);
}

/* A file with the metric "a". */
static void *started(const char *path, mmv_metric_type_t type, mmv_registry_t **registry)
{
    mmv_registry_t *made = mmv_stats_registry(path, 1, 0);

    add(made, "a", type, 0);
    if (registry)
        *registry = made;
    return mmv_stats_start(made);
}

static void start(const char *what, const char *path)
{
    printf("start %s: ", what);
    if (started(path, MMV_TYPE_U32, NULL))
        puts("taken");
    else
        refused();
}

static void label(int kind, const char *name, const char *value)
{
    mmv_registry_t *registry = mmv_stats_registry(in("label"), 1, 0);
    char json[MMV_LABELMAX];
    int file;

    printf("label %d ", kind);
    print(name);
    printf("=");
    print(value);
    printf(": ");
    if (mmv_stats_add_metric_label(registry, 1, name, value, (mmv_value_type_t)kind, 0) < 0) {
        refused();
        return;
    }
    add(registry, "a", MMV_TYPE_U32, 0);
    mmv_stats_start(registry);
    file = open(in("label"), O_RDONLY);
    lseek(file, -(off_t)sizeof(json), SEEK_END);
    printf("taken ");
    if (read(file, json, sizeof(json)) == sizeof(json))
        print(json);
    printf("\n");
    close(file);
}

static void labels(void)
{
    static const char *values[] = {
        "\"b\"", "\"\"", "\"", "\"a\"b\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u0000\"",
        "\"\x01\"", "\"\xff\"", "\"\xc3\xa9\"", " \"b\"", "\"b\" ",
        "1", "-1.5e3", " 1", "\t1", "\n1", "\f1", "1 ", " ", "+1", "0x10", "inf", "nan", "01", "-01",
        "1.", ".5", "1E+5", "1e", "", "-", "1,\"b\":2",
        "true", "false", "True", "null",
        "[]", "[1,2]", "[1,]", "[", "[a]", "[ 1 ]", "[[[[1]]]]", "[],\"b\":[]",
        "{}", "{\"a\":1}", "{\"a\":1,\"a\":2}", "{\"a\":{\"a\":1}}", "{\"a\":{\"b\":1},\"a\":{\"c\":2}}",
        "{\"a b\":1}", "{\"\":1}", "{\"a\":}", "{a:1}", "{\"a\":\"\xff\"}", "{\"a\":null}",
        "{},\"b\":{}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    };
    static const char *names[] = { "", "_a", "a.b", "a-b", "\xe9", "A9_", "9" };
    char text[300];
    unsigned int i;
    int kind, bytes;

    for (i = 0; i < SIZE(values); i++)
        for (kind = 0; kind < 8; kind++)
            label(kind, "zone", values[i]);
    for (i = 0; i < SIZE(names); i++)
        label(MMV_NUMBER_TYPE, names[i], "1");
    for (bytes = 235; bytes < 241; bytes++) {
        memset(text, 'n', bytes);
        text[bytes] = '\0';
        label(MMV_NUMBER_TYPE, text, "1");
        label(MMV_NULL_TYPE, text, "");
        label(MMV_NULL_TYPE, "n", text);
    }
}

static void files(void)
{
    char text[6000];
    unsigned int i;

    mkdir(in("empty"), 0755);
    mkdir(in("full"), 0755);
    close(open(in("full/file"), O_CREAT | O_RDWR, 0644));
    start("a directory", in("empty"));
    start("a directory with files", in("full"));
    start("a directory and a slash", in("full/"));
    start("a name and a slash", in("new/"));
    start("a file and a slash", in("full/file/"));
    start("no name", in(""));
    start("a dot", in("."));
    start("two dots", in(".."));
    start("the root", "/");
    start("a file as a directory", in("full/file/name"));
    start("no such directory", in("none/name"));
    start("no such directory and a slash", in("none/name/"));
    memset(text, 'n', sizeof(text));
    text[255] = '\0';
    start("a name of 255 bytes", in(text));
    text[255] = 'n';
    text[256] = '\0';
    start("a name of 256 bytes", in(text));
    for (i = 0; i < SIZE(text); i++)
        text[i] = i % 100 ? 'n' : '/';
    text[sizeof(text) - 1] = '\0';
    start("a path of 6000 bytes", text);
    if (symlink("nowhere", in("link")) == 0 && mkfifo(in("fifo"), 0644) == 0) {
        start("a link", in("link"));
        start("a fifo", in("fifo"));
    }
    start("a file", in("full/file"));
}

static void metrics(void)
{
    static const char *names[] = { "a b", "1", "a..b", ".", "\xff", "" };
    mmv_registry_t *registry;
    unsigned int i;
    int type;

    for (type = -2; type < 12; type++) {
        printf("type %d: ", type);
        if (started(in("type"), (mmv_metric_type_t)type, NULL))
            puts("taken");
        else
            refused();
    }
    for (i = 0; i < SIZE(names); i++) {
        registry = mmv_stats_registry(in("name"), 1, 0);
        add(registry, names[i], MMV_TYPE_U32, 0);
        printf("name ");
        print(names[i]);
        puts(mmv_stats_start(registry) ? ": taken" : ": refused");
        registry = mmv_stats_registry(in("name"), 1, 0);
        mmv_stats_add_indom(registry, 3, NULL, NULL);
        mmv_stats_add_instance(registry, 3, 0, names[i]);
        printf("instance ");
        print(names[i]);
        puts(mmv_stats_start(registry) ? ": taken" : ": refused");
    }
    registry = mmv_stats_registry(in("name"), -1, (mmv_stats_flags_t)~0u);
    add(registry, "a", MMV_TYPE_U32, 0);
    add(registry, "a", MMV_TYPE_U32, 0);
    puts(mmv_stats_start(registry) ? "a name twice: taken" : "a name twice: refused");
    registry = mmv_stats_registry(in("name"), 1, 0);
    add(registry, "a", MMV_TYPE_U32, 5);
    printf("no such domain: ");
    if (!mmv_stats_start(registry))
        refused();
}

static void values(void)
{
    static const double numbers[] = { 4e9, -4e9, 1e19, -1, -0.5, 1e30 };
    static char text[600];
    pmAtomValue *value;
    unsigned int i;
    int type;
    void *map;

    for (type = 0; type < 6; type++)
        for (i = 0; i < SIZE(numbers); i++) {
            map = started(in("number"), (mmv_metric_type_t)type, NULL);
            value = mmv_lookup_value_desc(map, "a", NULL);
            mmv_set_value(map, value, numbers[i]);
            printf("set %d %g: %016llx\n", type, numbers[i], (unsigned long long)value->ull);
        }
    map = started(in("elapsed"), MMV_TYPE_ELAPSED, NULL);
    value = mmv_lookup_value_desc(map, "a", NULL);
    mmv_inc_value(map, value, -1000);
    mmv_inc_value(map, value, -0.5);
    printf("an interval from zero: %lld %lld\n", (long long)value->ll, (long long)(&value->ll)[1]);
    mmv_stats_interval_end(map, value);
    printf("the end of no interval: %s\n", value->ll ? "added" : "ignored");

    map = started(in("text"), MMV_TYPE_STRING, NULL);
    value = mmv_lookup_value_desc(map, "a", NULL);
    memset(text, 'x', sizeof(text) - 1);
    mmv_stats_set_strlen(map, "a", NULL, text, ((size_t)1 << 32) + 5);
    printf("a text of 2^32+5 bytes: %d\n", value->l);
    mmv_stats_set_strlen(map, "a", NULL, text, (size_t)-1);
    mmv_stats_set_strlen(map, "a", NULL, text, 255);
    printf("too long a text: %d\n", value->l);
    mmv_stats_set_strlen(map, "a", NULL, text, 0);
    printf("no text: %d\n", value->l);
}

static void reuse(void)
{
    mmv_registry_t *registry = mmv_stats_registry(in("reused"), 1, 0);
    char *path = in("one"), buffer[8];
    void *map;

    strcpy(buffer, "one");
    add(registry, buffer, MMV_TYPE_U32, 0);
    strcpy(buffer, "two");
    add(registry, buffer, MMV_TYPE_U32, 0);
    map = mmv_stats_start(registry);
    printf("a name's buffer reused: %s\n", mmv_lookup_value_desc(map, "one", NULL) ? "one" : "lost");
    registry = mmv_stats_registry(path, 1, 0);
    strcpy(strrchr(path, '/'), "/two");
    add(registry, "a", MMV_TYPE_U32, 0);
    mmv_stats_start(registry);
    printf("a path's buffer reused: %s\n", access(in("one"), F_OK) == 0 ? "one" : "two");
}

/* What may kill the process. */

static void null_name(void)
{
    mmv_registry_t *registry = mmv_stats_registry(in("null"), 1, 0);

    printf("%s", add(registry, NULL, MMV_TYPE_U32, 0) < 0 ? strerrorname_np(errno) : "");
    mmv_stats_start(registry);
}

static void null_path(void)
{
    printf("%s", mmv_stats_start(mmv_stats_registry(NULL, 1, 0)) ? "" : strerrorname_np(errno));
}

static void null_registry(void)
{
    printf("%s", mmv_stats_start(NULL) ? "" : strerrorname_np(errno));
}

static void free_null(void)
{
    mmv_stats_free(NULL);
    printf("%s", strerrorname_np(errno));
}

static void null_text(void)
{
    mmv_stats_set_string(started(in("null"), MMV_TYPE_STRING, NULL), "a", NULL, NULL);
    printf("ignored");
}

static void null_instances(void)
{
    mmv_indom_t indom = { 7, 2, NULL, NULL, NULL };

    printf("%s", mmv_stats_init(in("null"), 1, 0, NULL, 0, &indom, 1) ? "" : strerrorname_np(errno));
}

static void negative_metrics(void)
{
    printf("%s", mmv_stats_init(in("count"), 1, 0, NULL, -1, NULL, 0) ? "taken" : "refused");
}

static void negative_indoms(void)
{
    printf("%s", mmv_stats_init(in("count"), 1, 0, NULL, 0, NULL, -1) ? "taken" : "refused");
}

static void stop_twice(void)
{
    void *map = started(in("stopped"), MMV_TYPE_U32, NULL);

    mmv_stats_stop(in("stopped"), map);
    mmv_stats_stop(in("stopped"), map);
    printf("ignored");
}

static void stop_and_free(void)
{
    mmv_registry_t *registry;
    void *map = started(in("stopped"), MMV_TYPE_U32, &registry);

    mmv_stats_stop(in("stopped"), map);
    mmv_stats_free(registry);
    printf("ignored");
}

static void stop_other(void)
{
    mmv_registry_t *registry = mmv_stats_registry(in("own"), 1, MMV_FLAG_PROCESS);
    void *map;

    add(registry, "a", MMV_TYPE_U32, 0);
    map = mmv_stats_start(registry);
    close(open(in("other"), O_CREAT | O_RDWR, 0644));
    mmv_stats_stop(in("other"), map);
    printf("%s", access(in("other"), F_OK) == 0 ? "stays" : "removed");
}

static void child(const char *what, void (*run)(void))
{
    int status;
    pid_t pid;

    printf("%s: ", what);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        run();
        fflush(stdout);
        _exit(0);
    }
    puts(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? "dies" : "");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    directory = argv[1];
    labels();
    files();
    metrics();
    values();
    reuse();
    child("a null name", null_name);
    child("a null path", null_path);
    child("a null registry", null_registry);
    child("to free null", free_null);
    child("a null text", null_text);
    child("null instances", null_instances);
    child("-1 metrics", negative_metrics);
    child("-1 domains", negative_indoms);
    child("to stop twice", stop_twice);
    child("to stop and free", stop_and_free);
    child("to stop another file", stop_other);
    return 0;
}
