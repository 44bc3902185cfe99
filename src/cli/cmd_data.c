/* drover data: files into a volume, out of it, and about it. */
#include "cli/cli.h"
#include "cli/data_verbs.h"

#include <getopt.h>
#include <string.h>

static int parse(struct data_arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"recursive", no_argument, NULL, 'r'},
                                            {"long", no_argument, NULL, 'l'},
                                            {"dry-run", no_argument, NULL, 'n'},
                                            {"list", no_argument, NULL, 'L'},
                                            {"delete", no_argument, NULL, 'D'},
                                            VOLUME_REF_OPTIONS,
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hrRln", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            arguments->as_json = true;
            break;
        case 'r':
        case 'R':
            arguments->recursive = true;
            break;
        case 'l':
            arguments->is_long = true;
            break;
        case 'n':
            arguments->dry_run = true;
            break;
        case 'L':
            arguments->lists = true;
            break;
        case 'D':
            arguments->deletes = true;
            break;
        default:
            if (!volume_ref_option(&arguments->over, option, optarg)) {
                return cli_bad_option(&cmd_data, option, argv);
            }
        }
    }
    return -1;
}

static int verify(struct data_arguments *arguments, int count, char **words)
{
    if (count != 1) {
        return cli_usage_error(&cmd_data, "verify needs a VOLUME");
    }
    return data_verb_verify(words[0], &arguments->over, arguments->as_json);
}

static const struct {
    const char *name;
    int (*run)(struct data_arguments *arguments, int count, char **words);
} verbs[] = {
    {"put", data_verb_put},   {"get", data_verb_get},
    {"ls", data_verb_ls},     {"rm", data_verb_rm},
    {"stat", data_verb_stat}, {"mv", data_verb_mv},
    {"du", data_verb_du},     {"sync", data_verb_sync},
    {"verify", verify},       {"snapshot", data_verb_snapshot},
    {"gc", data_verb_gc},     {"import", data_verb_import},
};

static int run(int argc, char **argv)
{
    struct data_arguments arguments = {0};
    int code = parse(&arguments, argc, argv);
    const char *verb = code < 0 && optind < argc ? argv[optind] : NULL;
    if (code < 0 && !verb) {
        code = cli_usage_error(
            &cmd_data,
            "needs one of put, get, ls, rm, stat, mv, du, sync, verify, snapshot, gc, import");
    }
    for (size_t i = 0; verb && code < 0 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, verb) == 0) {
            code = verbs[i].run(&arguments, argc - optind - 1, argv + optind + 1);
        }
    }
    if (code < 0) {
        code = cli_usage_error(&cmd_data,
                               "'%s' is none of put, get, ls, rm, stat, mv, du, sync, "
                               "verify, snapshot, gc, import",
                               verb);
    }
    volume_ref_release(&arguments.over);
    return code;
}

const struct cli_command cmd_data = {
    .name = "data",
    .arguments = "put|get|ls|rm|stat|mv|du|sync|verify|snapshot|gc|import ...",
    .summary = "files into a volume, out of it, and about it",
    .help =
        "  put SOURCE... VOLUME:/PATH    copy files in; a folder's contents go into PATH\n"
        "  get VOLUME:/PATH TARGET       copy files out\n"
        "  ls VOLUME:/PATH               list (-l with sizes and times, -r all below)\n"
        "  stat, du VOLUME:/PATH         about one file; how much lies below\n"
        "  rm VOLUME:/PATH               remove (-r a folder with all it holds)\n"
        "  mv VOLUME:/PATH VOLUME:/PATH  rename\n"
        "  snapshot VOLUME NAME          keep what is there now, as VOLUME@NAME; --delete; --list\n"
        "  gc VOLUME                     delete what nothing refers to any more; --dry-run\n"
        "  verify VOLUME                 read everything and check it\n"
        "  sync VOLUME|FOLDER            until everything written to its mount is stored\n"
        "  import s3://BUCKET/PREFIX VOLUME:/PATH   the objects of a bucket become files\n\n"
        "PATH may hold *, ? and [...]. put and get pass over what has not changed since the last\n"
        "time, so that an interrupted one goes on where it stopped.\n\n"
        "  --endpoint URL, --region R, --ca-file FILE, --addressing path|virtual, --profile P\n"
        "                                of an S3 store\n"
        "  --json                        one object per line\n",
    .run = run,
};
