/* drover catalog list|show|check|merge */
#include "advise/require.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/catalog_files.h"
#include "cli/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct catalog_files files;
    struct require require;
    const char *output;
    const char *sort;
    uint64_t limit;
    bool as_json;
};

static void add_price(struct json *json, const char *key, int64_t micro)
{
    json_key(json, key);
    if (micro == CATALOG_NO_SPOT) {
        json_null(json);
    } else {
        json_double(json, money_units(micro));
    }
}

static void add_known(struct json *json, const char *key, double number)
{
    json_key(json, key);
    if (number > 0) {
        json_double(json, number);
    } else {
        json_null(json);
    }
}

static void row_json(const struct catalog_row *row, struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "provider"), json_text(&json, row->provider);
    json_key(&json, "region"), json_text(&json, row->region);
    json_key(&json, "type"), json_text(&json, row->type);
    json_key(&json, "vcpus"), json_double(&json, row->vcpus);
    json_key(&json, "memory_gib"), json_double(&json, row->memory_gib);
    json_key(&json, "gpu"), json_text(&json, row->gpu);
    json_key(&json, "gpus"), json_u64(&json, row->gpus);
    add_known(&json, "gpu_memory_gib", row->gpu_memory_gib);
    add_known(&json, "network_mbps", row->network_mbps);
    add_price(&json, "price_hour", row->price_hour_micro);
    add_price(&json, "spot_hour", row->spot_hour_micro);
    json_key(&json, "billing_s"), json_i64(&json, row->billing.granule_s);
    json_key(&json, "billing_min_s"), json_i64(&json, row->billing.minimum_s);
    json_key(&json, "free_hours");
    json_double(&json, (double)row->billing.free_s / MONEY_HOUR_S);
    json_key(&json, "currency"), json_text(&json, row->currency);
    json_key(&json, "date"), json_text(&json, row->date);
    json_key(&json, "source"), json_text(&json, row->source);
    json_key(&json, "place"), json_text(&json, row->place);
    json_end(&json);
    str_add_char(out, '\n');
}

static int by_price(const void *left, const void *right)
{
    const struct catalog_row *a = left;
    const struct catalog_row *b = right;
    if (a->price_hour_micro != b->price_hour_micro) {
        return a->price_hour_micro < b->price_hour_micro ? -1 : 1;
    }
    return strcmp(a->type, b->type);
}

static void list_line(const struct catalog_row *row, struct str *out)
{
    AUTO_STR struct str price = {0};
    AUTO_STR struct str spot = {0};
    char gpu[40] = "-";
    char network[24] = "-";
    money_add(&price, row->price_hour_micro);
    if (row->spot_hour_micro == CATALOG_NO_SPOT) {
        str_add(&spot, "-");
    } else {
        money_add(&spot, row->spot_hour_micro);
    }
    if (row->gpus > 0) {
        snprintf(gpu, sizeof gpu, "%u x %.24s", row->gpus, row->gpu);
    }
    if (row->network_mbps > 0) {
        snprintf(network, sizeof network, "%.0f", row->network_mbps);
    }
    str_addf(out, "%-8s %-15s %-26s %6g %8g  %-14s %8s %10s %10s %s %s\n", row->provider,
             row->region, row->type, row->vcpus, row->memory_gib, gpu, network, str_text(&price),
             str_text(&spot), row->currency, row->date);
}

static int list(const struct request *request, struct catalog *catalog)
{
    AUTO_STR struct str out = {0};
    if (request->sort && strcmp(request->sort, "price") == 0) {
        qsort(catalog->rows, catalog->count, sizeof catalog->rows[0], by_price);
    }
    if (!request->as_json) {
        str_addf(&out, "%-8s %-15s %-26s %6s %8s  %-14s %8s %10s %10s %s\n", "PROVIDER", "REGION",
                 "TYPE", "VCPUS", "GIB", "GPU", "MBIT/S", "HOUR", "SPOT", "");
    }
    for (size_t i = 0; i < catalog->count && i < request->limit; i++) {
        if (request->as_json) {
            row_json(&catalog->rows[i], &out);
        } else {
            list_line(&catalog->rows[i], &out);
        }
    }
    cli_write(&out);
    return EXIT_DONE;
}

static void show_row(const struct catalog_row *row, struct str *out)
{
    str_addf(out, "%s %s %s\n  %g vCPUs, %g GiB", row->provider, row->region, row->type, row->vcpus,
             row->memory_gib);
    if (row->gpus > 0) {
        str_addf(out, ", %u x %s", row->gpus, row->gpu);
    }
    if (row->gpu_memory_gib > 0) {
        str_addf(out, " of %g GiB", row->gpu_memory_gib);
    }
    if (row->network_mbps > 0) {
        str_addf(out, ", %g Mbit/s", row->network_mbps);
    }
    str_add(out, "\n  ");
    money_add(out, row->price_hour_micro);
    str_addf(out, " %s an hour", row->currency);
    if (row->spot_hour_micro != CATALOG_NO_SPOT) {
        str_add(out, ", spot ");
        money_add(out, row->spot_hour_micro);
    }
    str_addf(out, "; billed in steps of %lld s", (long long)row->billing.granule_s);
    if (row->billing.minimum_s > 0) {
        str_addf(out, ", at least %lld s", (long long)row->billing.minimum_s);
    }
    if (row->billing.free_s > 0) {
        str_addf(out, ", the first %g hours free", (double)row->billing.free_s / MONEY_HOUR_S);
    }
    if (row->purchase_micro > 0) {
        str_add(out, "\n  owned: bought for ");
        money_add(out, row->purchase_micro);
        str_addf(out, ", lasts %g hours, %g W", row->lifetime_h, row->power_w);
    }
    str_addf(out, "\n  as of %s: %s (%s)\n", row->date, row->source, row->place);
}

static int show(const struct request *request, const char *type, struct catalog *catalog)
{
    AUTO_STR struct str out = {0};
    size_t shown = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        if (!catalog_match(type, catalog->rows[i].type)) {
            continue;
        }
        shown++;
        if (request->as_json) {
            row_json(&catalog->rows[i], &out);
        } else {
            show_row(&catalog->rows[i], &out);
        }
    }
    if (shown == 0) {
        return cli_error(EXIT_USAGE, "no type '%s' in the catalog (drover catalog list)", type);
    }
    cli_write(&out);
    return EXIT_DONE;
}

static int check(const struct request *request, const struct catalog *catalog)
{
    AUTO_STR struct str out = {0};
    size_t spot = 0;
    size_t gpus = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        spot += catalog->rows[i].spot_hour_micro != CATALOG_NO_SPOT;
        gpus += catalog->rows[i].gpus > 0;
    }
    if (request->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "rows"), json_u64(&json, catalog->count);
        json_key(&json, "spot"), json_u64(&json, spot);
        json_key(&json, "gpu"), json_u64(&json, gpus);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        str_addf(&out, "ok: %zu rows, %zu with a spot price, %zu with GPUs\n", catalog->count, spot,
                 gpus);
    }
    cli_write(&out);
    return EXIT_DONE;
}

static int merge(const struct request *request, const struct catalog *catalog)
{
    AUTO_STR struct str out = {0};
    struct err err = {0};
    catalog_write_csv(catalog, &out);
    if (!request->output) {
        cli_write(&out);
        return EXIT_DONE;
    }
    if (io_replace_file(request->output, str_text(&out), out.size, 0644, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return EXIT_DONE;
}

/* The words after the action: files, and for show the type first. */
static int act(struct request *request, int argc, char **argv)
{
    const char *action = argc > 0 ? argv[0] : "list";
    bool shows = strcmp(action, "show") == 0;
    int first = shows ? 2 : 1;
    if (shows && argc < 2) {
        return cli_usage_error(&cmd_catalog, "show which type?");
    }
    bool known = shows || strcmp(action, "list") == 0 || strcmp(action, "check") == 0 ||
                 strcmp(action, "merge") == 0;
    if (!known) {
        return cli_usage_error(&cmd_catalog, "'%s' is not list, show, check or merge", action);
    }
    for (int i = first; i < argc; i++) {
        catalog_files_add(&request->files, argv[i]);
    }
    struct catalog catalog = {0};
    int code = catalog_files_read(&request->files, &catalog);
    if (code == EXIT_DONE) {
        catalog_filter(&catalog, require_keeps, &request->require);
        code = shows                          ? show(request, argv[1], &catalog)
               : strcmp(action, "check") == 0 ? check(request, &catalog)
               : strcmp(action, "merge") == 0 ? merge(request, &catalog)
                                              : list(request, &catalog);
    }
    catalog_release(&catalog);
    return code;
}

static int read_options(struct request *request, int argc, char **argv)
{
    static const struct option options[] = {
        {"catalog", required_argument, NULL, 'c'}, {"require", required_argument, NULL, 'r'},
        {"output", required_argument, NULL, 'o'},  {"sort", required_argument, NULL, 's'},
        {"limit", required_argument, NULL, 'n'},   {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {0}};
    struct err err = {0};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hc:r:o:n:", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            catalog_files_add(&request->files, optarg);
            break;
        case 'r':
            if (require_parse(&request->require, optarg, &err) != ERR_OK) {
                return cli_usage_error(&cmd_catalog, "%s", err.text);
            }
            break;
        case 'o':
            request->output = optarg;
            break;
        case 's':
            request->sort = optarg;
            if (strcmp(optarg, "price") != 0 && strcmp(optarg, "name") != 0) {
                return cli_usage_error(&cmd_catalog, "--sort takes name or price");
            }
            break;
        case 'n':
            if (!cli_parse_u64(optarg, UINT64_MAX, &request->limit)) {
                return cli_usage_error(&cmd_catalog, "--limit takes a number");
            }
            break;
        case 'j':
            request->as_json = true;
            break;
        default:
            return option == 'h' ? -1 : cli_bad_option(&cmd_catalog, option, argv);
        }
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct request request = {.limit = UINT64_MAX};
    int code = read_options(&request, argc, argv);
    if (code < 0) {
        cli_print_help(&cmd_catalog, stdout);
        code = EXIT_DONE;
    } else if (code == EXIT_DONE) {
        code = act(&request, argc - optind, argv + optind);
    }
    catalog_files_release(&request.files);
    return code;
}

const struct cli_command cmd_catalog = {
    .name = "catalog",
    .arguments = "list|show TYPE|check|merge [FILE...] [--require WHAT] [--json]",
    .summary = "machines one can rent or owns, and their prices",
    .help =
        "  list            one line a machine\n"
        "  show TYPE       all that is known of a type (* stands for anything)\n"
        "  check           read the files and say what is wrong\n"
        "  merge           the files as one; of two rows for one machine the newer counts\n\n"
        "FILE is a CSV file (docs/advise.md) or current, owned, papers-2015, papers-2018,\n"
        "papers-2019; without any it is current.\n\n"
        "  --catalog FILE        the same as FILE\n"
        "  -r, --require WHAT    only machines with, say, 'vcpus >= 4, gpu = t4, region = eu-*'\n"
        "  --sort price          the cheapest first\n"
        "  -n, --limit N         only the first N\n"
        "  -o, --output FILE     where merge writes\n"
        "  --json                one object a line\n",
    .run = run,
};
