/* drover volume create|add|list|show|delete. fsck and export are drover data's verify and get;
 * repair is data_repair.c. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/volume_ref.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct volume_arguments {
    struct volume_ref over;
    const char *store;
    uint64_t pack_mib;
    uint64_t level;
    bool as_json, with_data, is_sure, take_over;
};

static int parse(struct volume_arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {{"store", required_argument, NULL, 's'},
                                            {"pack-size", required_argument, NULL, 'p'},
                                            {"compress", required_argument, NULL, 'z'},
                                            {"data", no_argument, NULL, 'd'},
                                            {"yes", no_argument, NULL, 'y'},
                                            {"take-over", no_argument, NULL, 't'},
                                            {"json", no_argument, NULL, 'j'},
                                            VOLUME_REF_OPTIONS,
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            arguments->store = optarg;
            break;
        case 'p':
            if (!cli_parse_u64(optarg, 100, &arguments->pack_mib) || arguments->pack_mib < 1) {
                return cli_usage_error(&cmd_volume, "--pack-size: 1 to 100 (MiB)");
            }
            break;
        case 'z':
            if (!cli_parse_u64(optarg, 19, &arguments->level)) {
                return cli_usage_error(&cmd_volume, "--compress: 0 (off) to 19");
            }
            break;
        case 'd':
            arguments->with_data = true;
            break;
        case 'y':
            arguments->is_sure = true;
            break;
        case 't':
            arguments->take_over = true;
            break;
        case 'j':
            arguments->as_json = true;
            break;
        default:
            if (!volume_ref_option(&arguments->over, option, optarg)) {
                return cli_bad_option(&cmd_volume, option, argv);
            }
        }
    }
    return -1;
}

static int failed(enum err_code code, const struct err *err)
{
    return cli_error(volume_ref_exit(code), "%s", err->text);
}

/* The address of the store, with a folder made absolute; the ref gets it. */
static enum err_code take_store(const struct volume_arguments *arguments, const char *name,
                                struct volume_ref *ref, struct err *err)
{
    if (!arguments->store) {
        return err_set(err, ERR_INVALID,
                       "--store is missing: file:///folder or s3://bucket/prefix");
    }
    struct volume_ref parsed = {0};
    bool is_url =
        strncmp(arguments->store, "file:", 5) == 0 || strncmp(arguments->store, "s3:", 3) == 0;
    if (!is_url) {
        return err_set(err, ERR_INVALID,
                       "--store: '%s' is not file:///folder or s3://bucket/prefix",
                       arguments->store);
    }
    enum err_code code = volume_ref_parse(arguments->store, &parsed, err);
    if (code == ERR_OK && (parsed.name || parsed.snapshot || parsed.path)) {
        code =
            err_set(err, ERR_INVALID, "--store: '%s' is not file:///folder or s3://bucket/prefix",
                    arguments->store);
    }
    if (code != ERR_OK) {
        volume_ref_release(&parsed);
        return code;
    }
    *ref = parsed;
    ref->name = mem_strdup(name);
    volume_ref_override(ref, &arguments->over);
    return ERR_OK;
}

static enum err_code format(const struct volume_arguments *arguments, const struct volume_ref *ref,
                            bool is_new, struct err *err)
{
    struct object_store *store;
    enum err_code code = volume_ref_store(ref, is_new, &store, err);
    if (code != ERR_OK) {
        return code;
    }
    struct volume_format options = {.pack_bytes = (uint32_t)(arguments->pack_mib << 20),
                                    .zstd_level = (int)arguments->level};
    struct engine_caller caller = {
        .uid = getuid(), .gid = getgid(), .now_ns = clock_unix_ms() * 1000000};
    code = is_new ? volume_format_write(store, &options, &caller, err)
                  : volume_format_read(store, &options, err);
    object_close(store);
    if (code == ERR_EXISTS) {
        code =
            err_set(err, ERR_EXISTS, "%s: holds a volume already (drover volume add %s --store %s)",
                    ref->url, ref->name, ref->url);
    }
    return code == ERR_OK ? code : volume_use_advise(ref, code, err);
}

static int create(const struct volume_arguments *arguments, const char *name, bool is_new)
{
    struct volume_ref ref = {0};
    struct err err;
    enum err_code code = take_store(arguments, name, &ref, &err);
    if (code == ERR_OK) {
        code = volume_ref_save(&ref, &err); /* the name is ours before anything is made */
    }
    if (code == ERR_OK) {
        code = format(arguments, &ref, is_new, &err);
        if (code != ERR_OK) {
            (void)!volume_ref_forget(name, NULL);
        }
    }
    if (code == ERR_OK && arguments->as_json) {
        printf("{\"name\":\"%s\"}\n", name);
    } else if (code == ERR_OK) {
        printf("%s is ready: drover data put FOLDER %s:/ or drover mount %s FOLDER\n", name, name,
               name);
    }
    volume_ref_release(&ref);
    return code == ERR_OK ? EXIT_DONE : failed(code, &err);
}

static bool list_one(void *context, const struct volume_ref *ref)
{
    const struct volume_arguments *arguments = context;
    AUTO_STR struct str out = {0};
    if (arguments->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "name");
        json_text(&json, ref->name);
        json_key(&json, "store");
        json_text(&json, ref->url);
        json_key(&json, "endpoint");
        if (ref->endpoint) {
            json_text(&json, ref->endpoint);
        } else {
            json_null(&json);
        }
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        str_addf(&out, "%-24s %s%s%s\n", ref->name, ref->url, ref->endpoint ? " at " : "",
                 ref->endpoint ? ref->endpoint : "");
    }
    cli_write(&out);
    return true;
}

static int list(struct volume_arguments *arguments)
{
    struct err err;
    enum err_code code = volume_ref_each(list_one, arguments, &err);
    return code == ERR_OK ? EXIT_DONE : failed(code, &err);
}

static bool delete_one(void *context, const struct object_item *item)
{
    struct str *keys = context;
    str_add_bytes(keys, item->key, strlen(item->key) + 1);
    return true;
}

/* `format` goes last: until then it is still seen that there was a volume. */
static enum err_code delete_objects(const struct volume_ref *ref, struct err *err)
{
    struct object_store *store;
    AUTO_STR struct str keys = {0};
    enum err_code code = volume_ref_store(ref, false, &store, err);
    if (code != ERR_OK) {
        return code;
    }
    struct volume_format known;
    code = volume_format_read(store, &known, err);
    if (code == ERR_OK) {
        code = object_each(store, "", delete_one, &keys, err);
    }
    for (const char *key = keys.text; code == ERR_OK && key && key < keys.text + keys.size;
         key += strlen(key) + 1) {
        if (strcmp(key, "format") != 0) {
            code = object_delete(store, key, err);
        }
    }
    if (code == ERR_OK) {
        code = object_delete(store, "format", err);
    }
    object_close(store);
    return code;
}

static int delete (const struct volume_arguments *arguments, const char *name)
{
    struct volume_ref ref = {0};
    struct err err;
    enum err_code code = volume_ref_parse(name, &ref, &err);
    if (code == ERR_OK && arguments->with_data && !arguments->is_sure) {
        code = err_set(&err, ERR_INVALID,
                       "this deletes every file of %s in %s: say --yes as well if that is meant",
                       name, ref.url);
    }
    if (code == ERR_OK && arguments->with_data) {
        volume_ref_override(&ref, &arguments->over);
        code = delete_objects(&ref, &err);
    }
    if (code == ERR_OK && ref.name) {
        code = volume_ref_forget(ref.name, &err);
    }
    volume_ref_release(&ref);
    return code == ERR_OK ? EXIT_DONE : failed(code, &err);
}

static int run_verb(struct volume_arguments *arguments, const char *verb, int count, char **rest)
{
    static const struct {
        const char *verb;
        int count;
        const char *needs;
    } verbs[] = {
        {"create", 1, "one NAME"},    {"add", 1, "one NAME"},
        {"list", 0, "no more words"}, {"show", 1, "one VOLUME"},
        {"delete", 1, "one NAME"},    {"fsck", 1, "one VOLUME"},
        {"repair", 1, "one VOLUME"},  {"export", 2, "a VOLUME and a FOLDER"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i].verb) == 0 && count != verbs[i].count) {
            return cli_usage_error(&cmd_volume, "%s needs %s", verb, verbs[i].needs);
        }
    }
    if (strcmp(verb, "list") == 0) {
        return list(arguments);
    }
    if (strcmp(verb, "export") == 0) {
        return data_verb_export(rest[0], &arguments->over, rest[1]);
    }
    if (strcmp(verb, "create") == 0) {
        return create(arguments, rest[0], true);
    }
    if (strcmp(verb, "add") == 0) {
        return create(arguments, rest[0], false);
    }
    if (strcmp(verb, "show") == 0) {
        return data_verb_show(rest[0], &arguments->over, arguments->as_json);
    }
    if (strcmp(verb, "fsck") == 0) {
        return data_verb_verify(rest[0], &arguments->over, arguments->as_json);
    }
    if (strcmp(verb, "repair") == 0) {
        struct data_repair how = {arguments->is_sure, arguments->take_over, arguments->as_json};
        return data_verb_repair(rest[0], &arguments->over, &how);
    }
    if (strcmp(verb, "delete") == 0) {
        return delete (arguments, rest[0]);
    }
    return cli_usage_error(
        &cmd_volume, "'%s' is none of create, add, list, show, delete, fsck, repair, export", verb);
}

static int run(int argc, char **argv)
{
    struct volume_arguments arguments = {0};
    int code = parse(&arguments, argc, argv);
    if (code < 0 && optind >= argc) {
        code = cli_usage_error(
            &cmd_volume, "needs one of create, add, list, show, delete, fsck, repair, export");
    } else if (code < 0) {
        code = run_verb(&arguments, argv[optind], argc - optind - 1, argv + optind + 1);
    }
    volume_ref_release(&arguments.over);
    return code;
}

const struct cli_command cmd_volume = {
    .name = "volume",
    .arguments = "create|add|list|show|delete|fsck|repair|export ...",
    .summary = "volumes: file systems that live in an object store",
    .help =
        "  create NAME --store URL   make a volume in file:///folder or s3://bucket/prefix\n"
        "  add NAME --store URL      give a volume that exists a name here\n"
        "  list                      the volumes that have a name here\n"
        "  show VOLUME               its size, snapshots and owner\n"
        "  delete NAME               forget the name; with --data --yes delete the files too\n"
        "  fsck VOLUME               read everything and check it\n"
        "  repair VOLUME             what it takes if the store has lost a part of its log, and\n"
        "                            with --yes go back to the commit before; --take-over\n"
        "  export VOLUME FOLDER      copy everything out into plain files\n\n"
        "  --pack-size MIB           of a new volume's packs (64)\n"
        "  --compress LEVEL          zstd for a new volume's data, 1 to 19 (0: off)\n"
        "  --endpoint URL, --region R, --ca-file FILE, --addressing path|virtual, --profile P\n"
        "                            of an S3 store; credentials come from AWS_* or ~/.aws\n"
        "  --json                    one object per line\n",
    .run = run,
};
