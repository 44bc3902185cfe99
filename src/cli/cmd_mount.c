/* drover mount and drover unmount. */
#include "base/io.h"
#include "base/jread.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/mount_node.h"
#include "cli/mount_remote.h"
#include "cli/mount_talk.h"
#include "cli/volume_ref.h"
#include "mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_AHEAD_KB = 4096 };

struct mount_arguments {
    struct volume_ref ref, over;
    char *folder;
    char *cache_path; /* cache_folder, absolute: the mount does not stay where it was started */
    char *address;    /* of an owner elsewhere; NULL: the volume is opened here */
    bool read_only, fuse_only, foreground, allow_other, take_over, shows_stats, as_json, for_node,
        is_ready;
    const char *cache_folder;
    uint64_t cache_bytes;
    int ready_fd;
};

static bool parse_size(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    bool is_bad = errno || end == text || (*end && (!unit || end[1])) || text[0] == '-';
    if (is_bad || number > (UINT64_MAX >> 20 >> shift)) {
        return false;
    }
    *out = (uint64_t)number << shift;
    return true;
}

static int parse(struct mount_arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {
        {"read-only", no_argument, NULL, 'r'},
        {"fuse", no_argument, NULL, 'F'},
        {"foreground", no_argument, NULL, 'f'},
        {"allow-other", no_argument, NULL, 'a'},
        {"take-over", no_argument, NULL, 't'},
        {"stats", no_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"cache-dir", required_argument, NULL, 'd'},
        {"for-node", no_argument, NULL, 'n'}, /* not for people */
        {"cache-size", required_argument, NULL, 'c'},
        VOLUME_REF_OPTIONS,
        {"help", no_argument, NULL, 'h'},
        {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            arguments->read_only = true;
            break;
        case 'F':
            arguments->fuse_only = true;
            break;
        case 'f':
            arguments->foreground = true;
            break;
        case 'a':
            arguments->allow_other = true;
            break;
        case 't':
            arguments->take_over = true;
            break;
        case 's':
            arguments->shows_stats = true;
            break;
        case 'j':
            arguments->as_json = true;
            break;
        case 'n':
            arguments->for_node = true;
            break;
        case 'd':
            arguments->cache_folder = optarg;
            break;
        case 'c':
            if (!parse_size(optarg, &arguments->cache_bytes)) {
                return cli_usage_error(&cmd_mount, "--cache-size: '%s' is no size (20G, 500M)",
                                       optarg);
            }
            break;
        default:
            if (!volume_ref_option(&arguments->over, option, optarg)) {
                return cli_bad_option(&cmd_mount, option, argv);
            }
        }
    }
    return -1;
}

/* The kernel reads 128 KB ahead on a new mount, which is little when a miss is a round trip. Best
 * effort: only root may change it. The folder is not looked at, only its number: an answer could
 * come from the calling thread alone, and a child that waits for one outlives the mount, for it
 * has the kernel's end of it open. */
static void widen_read_ahead(const char *folder)
{
    struct statx of;
    AUTO_STR struct str path = {0};
    if (statx(AT_FDCWD, folder, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &of) != 0) {
        return;
    }
    str_addf(&path, "/sys/class/bdi/%u:%u/read_ahead_kb", of.stx_dev_major, of.stx_dev_minor);
    int fd = open(str_text(&path), O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!dprintf(fd, "%d\n", READ_AHEAD_KB);
        close(fd);
    }
}

/* What the mount says to whoever started it: an exit code and a text. */
struct word {
    int exit_code;
    char text[480];
};

static bool say(int fd, int exit_code, const char *text)
{
    struct word word = {.exit_code = exit_code};
    snprintf(word.text, sizeof word.text, "%s", text);
    return write(fd, &word, sizeof word) == (ssize_t)sizeof word;
}

static void on_ready(void *context)
{
    struct mount_arguments *arguments = context;
    widen_read_ahead(arguments->folder);
    if (arguments->ready_fd >= 0) {
        if (!say(arguments->ready_fd, EXIT_DONE, "")) {
            kill(getpid(), SIGTERM); /* who wanted it has given up waiting */
        }
        close(arguments->ready_fd);
        arguments->ready_fd = -1;
        return;
    }
    if (arguments->for_node) {
        arguments->is_ready = true;
        mount_node_say_ready(NULL);
        return;
    }
    fprintf(stderr, "drover mount: %s is mounted; stop with Ctrl-C or drover unmount\n",
            arguments->folder);
}

static enum err_code serve_remote(struct mount_arguments *arguments, struct err *err)
{
    struct mount_remote_options options = {.address = arguments->address,
                                           .over = &arguments->over,
                                           .cache_folder = arguments->cache_folder,
                                           .cache_bytes = arguments->cache_bytes,
                                           .mount = {.folder = arguments->folder,
                                                     .read_only = arguments->read_only,
                                                     .allow_other = arguments->allow_other,
                                                     .ready = on_ready,
                                                     .context = arguments}};
    return mount_remote_serve(&options, err);
}

/* A folder on a local disk for what the mount itself keeps there; none: it goes without. */
static bool find_scratch(const struct mount_arguments *arguments, const struct volume *volume,
                         struct str *out)
{
    const char *given = arguments->cache_folder;
    if (arguments->fuse_only || (given && !given[0])) {
        return false;
    }
    if (given) {
        str_add(out, given);
        return true;
    }
    return volume_ref_cache(volume_format(volume), out, NULL) == ERR_OK;
}

/* Opens the volume and serves it until it is unmounted. */
static enum err_code serve(struct mount_arguments *arguments, struct err *err)
{
    AUTO_STR struct str owner = {0};
    AUTO_STR struct str label = {0};
    AUTO_STR struct str scratch = {0};
    struct volume_use use;
    bool read_only = arguments->read_only || arguments->ref.snapshot;

    if (arguments->address) {
        return serve_remote(arguments, err);
    }
    str_addf(&owner, "mounted at %s", arguments->folder);
    struct volume_use_options how = {.writes = !read_only,
                                     .take_over = arguments->take_over,
                                     .owner = str_text(&owner),
                                     .cache_folder = arguments->cache_folder,
                                     .cache_bytes = arguments->cache_bytes};
    enum err_code code = volume_use_open(&arguments->ref, &how, &use, err);
    if (code != ERR_OK) { /* a node reads who has it from the text */
        return arguments->for_node ? code : volume_use_advise(&arguments->ref, code, err);
    }
    volume_ref_add_label(&label, &arguments->ref);
    struct mount_options options = {
        .folder = arguments->folder,
        .label = str_text(&label),
        .read_only = read_only,
        .scratch = find_scratch(arguments, use.volume, &scratch) ? str_text(&scratch) : NULL,
        .allow_other = arguments->allow_other,
        .ready = on_ready,
        .context = arguments};
    code = mount_run(use.volume, use.reader, &options, err);
    struct err closing = {0};
    enum err_code closed = volume_use_close(&use, &closing);
    if (code == ERR_OK && closed != ERR_OK) {
        code = err_set(err, closed, "%s", closing.text);
    }
    return code;
}

/* The child that stays. Its words go to the one who started it until it is ready, then to a file.
 */
static _Noreturn void stay(struct mount_arguments *arguments, const struct str *log_path)
{
    struct err err = {0};
    setsid();
    int log = open(str_text(log_path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log < 0 || null < 0) {
        (void)say(arguments->ready_fd, EXIT_WORK_FAILED, "cannot open the mount's log file");
        _exit(EXIT_WORK_FAILED);
    }
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (chdir("/") != 0) {
        _exit(EXIT_WORK_FAILED);
    }
    enum err_code code = serve(arguments, &err);
    if (code != ERR_OK) {
        fprintf(stderr, "drover mount: %s\n", err.text);
        if (arguments->ready_fd >= 0) {
            (void)say(arguments->ready_fd, volume_ref_exit(code), err.text);
        }
    }
    exit(volume_ref_exit(code));
}

static int in_background(struct mount_arguments *arguments)
{
    AUTO_STR struct str log_path = {0};
    struct err err;
    int ends[2];
    enum err_code code = mount_talk_log_path(&log_path, &err);
    if (code != ERR_OK || pipe2(ends, O_CLOEXEC) != 0) {
        return cli_error(EXIT_WORK_FAILED, "%s", code != ERR_OK ? err.text : strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        arguments->ready_fd = ends[1];
        stay(arguments, &log_path);
    }
    close(ends[1]);
    struct word word;
    ssize_t got = child < 0 ? -1 : read(ends[0], &word, sizeof word);
    close(ends[0]);
    if (got != (ssize_t)sizeof word) {
        return cli_error(EXIT_WORK_FAILED, "the mount ended before it was ready (%s)",
                         str_text(&log_path));
    }
    if (word.exit_code != EXIT_DONE) {
        return cli_error(word.exit_code, "%s", word.text);
    }
    return EXIT_DONE;
}

static enum err_code serve_node(void *context, struct err *err)
{
    return serve(context, err);
}

static int begin(struct mount_arguments *arguments)
{
    if (!arguments->foreground) {
        return in_background(arguments);
    }
    struct err err;
    enum err_code code = arguments->for_node
                             ? mount_node_run(serve_node, arguments, &arguments->is_ready, &err)
                             : serve(arguments, &err);
    return code == ERR_OK ? EXIT_DONE : cli_error(volume_ref_exit(code), "%s", err.text);
}

/* An address holds a secret, and what stands on a command line everybody on the machine can read.
 */
static enum err_code take_volume(struct mount_arguments *arguments, char *text, struct err *err)
{
    if (!mount_remote_is_address(text)) {
        return volume_ref_parse(text, &arguments->ref, err);
    }
    AUTO_FREE char *real = text[0] == '@' ? realpath(text + 1, NULL) : NULL;
    if (text[0] == '@' && !real) {
        return err_errno(err, errno, "%s", text + 1);
    }
    AUTO_STR struct str address = {0};
    str_addf(&address, "%s%s", real ? "@" : "", real ? real : text);
    arguments->address = str_take(&address);
    if (!real) {
        memset(text, '*', strlen(text));
    }
    return ERR_OK;
}

/* A mount whose process was killed stays in the table of mounts, and answers nothing else. -1: it
 * may be mounted on. */
static int refuse_occupied(const char *folder)
{
    switch (mount_talk_look(folder, MOUNT_TALK_LOOK_MS).state) {
    case MOUNT_TALK_DEAD:
        return mount_talk_dead(folder);
    case MOUNT_TALK_SILENT:
        return mount_talk_silent(folder);
    case MOUNT_TALK_LIVES:
        return cli_error(EXIT_USAGE, "%s: a volume is mounted there already (drover unmount %s)",
                         folder, folder);
    case MOUNT_TALK_NONE:
        break;
    }
    struct stat stat_of;
    if (stat(folder, &stat_of) == 0 && !S_ISDIR(stat_of.st_mode)) {
        return cli_error(EXIT_USAGE, "%s: is no folder: only a folder can be mounted on", folder);
    }
    return -1;
}

static void make_cache_absolute(struct mount_arguments *arguments)
{
    const char *given = arguments->cache_folder;
    if (given && given[0] && given[0] != '/') {
        AUTO_FREE char *here = getcwd(NULL, 0);
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s/%s", here ? here : "", given);
        arguments->cache_path = str_take(&path);
        arguments->cache_folder = arguments->cache_path;
    }
}

static int run(int argc, char **argv)
{
    struct mount_arguments arguments = {.ready_fd = -1};
    struct err err;
    int exit_code = parse(&arguments, argc, argv);
    arguments.allow_other = arguments.allow_other || geteuid() == 0;
    if (exit_code >= 0) {
        volume_ref_release(&arguments.over);
        return exit_code;
    }
    int rest = argc - optind;
    if (arguments.shows_stats && rest == 1) {
        return mount_talk_stats(argv[optind], arguments.as_json);
    }
    if (rest != 2) {
        return cli_usage_error(&cmd_mount, arguments.shows_stats ? "--stats needs one FOLDER"
                                                                 : "needs a VOLUME and a FOLDER");
    }
    arguments.folder = realpath(argv[optind + 1], NULL);
    if (!arguments.folder) {
        return cli_error(EXIT_USAGE, "%s: %s%s", argv[optind + 1], strerror(errno),
                         errno == ENOENT ? " (mkdir makes the folder)" : "");
    }
    make_cache_absolute(&arguments);
    exit_code = refuse_occupied(argv[optind + 1]);
    if (exit_code >= 0) {
        free(arguments.folder);
        free(arguments.cache_path);
        volume_ref_release(&arguments.over);
        return exit_code;
    }
    enum err_code code = take_volume(&arguments, argv[optind], &err);
    if (code == ERR_OK && arguments.ref.path && strcmp(arguments.ref.path, "/") != 0) {
        code = err_set(&err, ERR_INVALID, "%s: only a whole volume can be mounted", argv[optind]);
    }
    if (code != ERR_OK) {
        exit_code = cli_error(EXIT_USAGE, "%s", err.text);
    } else {
        volume_ref_override(&arguments.ref, &arguments.over);
        exit_code = begin(&arguments);
    }
    volume_ref_release(&arguments.ref);
    volume_ref_release(&arguments.over);
    if (arguments.address) {
        explicit_bzero(arguments.address, strlen(arguments.address));
    }
    free(arguments.address);
    free(arguments.folder);
    free(arguments.cache_path);
    return exit_code;
}

const struct cli_command cmd_mount = {
    .name = "mount",
    .arguments = "VOLUME FOLDER [options]",
    .summary = "make a volume a folder of this machine",
    .help =
        "VOLUME is a name (drover volume list), file:///folder or s3://bucket/prefix; with\n"
        "@SNAPSHOT it is read-only and needs nobody's leave. @FILE is the address that drover "
        "meta\n"
        "wrote: the volume is shared with other machines. Returns once it is mounted.\n\n"
        "  --read-only          what is there now, unchanging\n"
        "  --fuse               by FUSE in any case; without it, what does not change is shown by\n"
        "                       the kernel's EROFS, which is quicker (root, Linux 6.13 or newer)\n"
        "  --cache-dir DIR      where fetched data is kept (default: ~/.cache/drover)\n"
        "  --cache-size SIZE    how much of it at most: 20G, 500M (default: 10G)\n"
        "  --allow-other        let other users in, as modes permit; a mount of root always does\n"
        "  --take-over          even if another machine seems to have it mounted for writing\n"
        "  --foreground         stay, and say on stderr what goes wrong\n"
        "  --stats FOLDER       what a mount has done, and what its requests cost; with --json\n"
        "  --endpoint URL, --region R, --ca-file FILE, --addressing path|virtual, --profile P\n"
        "                       of an S3 store\n\n"
        "fsync means stored. Close means visible here at once, and stored within about a second.\n"
        "End it with drover unmount FOLDER, which waits until everything is stored.\n",
    .run = run,
};

/* unmount -------------------------------------------------------------------------------------- */

static int unmount_folder(const char *folder)
{
    if (umount2(folder, UMOUNT_NOFOLLOW) == 0) {
        return 0;
    }
    int why = errno;
    if (why != EPERM) {
        return why;
    }
    pid_t child = fork(); /* those who are not root ask the helper that mounted it */
    if (child == 0) {
        execlp("fusermount3", "fusermount3", "-u", folder, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
        return EPERM;
    }
    return 0;
}

static int run_unmount(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    int option = getopt_long(argc, argv, ":h", options, NULL);
    if (option != -1) {
        return cli_bad_option(&cmd_unmount, option, argv);
    }
    if (argc - optind != 1) {
        return cli_usage_error(&cmd_unmount, "needs a FOLDER");
    }
    const char *folder = argv[optind];
    struct mount_talk look = mount_talk_look(folder, MOUNT_TALK_ORDER_MS);
    if (look.state == MOUNT_TALK_NONE) {
        return mount_talk_absent(folder);
    }
    if (look.state == MOUNT_TALK_SILENT) {
        return mount_talk_silent(folder);
    }
    int watch = look.pid > 0 ? mount_talk_watch(look.pid) : -1;
    int failed = unmount_folder(folder);
    if (failed) {
        return cli_error(EXIT_WORK_FAILED, "%s: %s%s", folder, strerror(failed),
                         failed == EBUSY
                             ? " (a program has a file open there, or works in it: fuser -vm "
                               "FOLDER names it)"
                             : "");
    }
    int exit_code = mount_talk_wait(watch, look.pid);
    return look.has_failed
               ? cli_error(EXIT_WORK_FAILED,
                           "%s: unmounted, but not all that was written to it is stored: "
                           "the mount's log says why",
                           folder)
               : exit_code;
}

const struct cli_command cmd_unmount = {
    .name = "unmount",
    .arguments = "FOLDER",
    .summary = "end a mount, once everything in it is stored",
    .help = "Unmounts FOLDER and waits until what was written to it is in the store.\n",
    .run = run_unmount,
};
