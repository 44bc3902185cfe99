/* measure - runs a command and says what it cost: wall and CPU seconds of it and all it waited for,
 * and the peak memory of the largest process among them.
 *
 *     measure COMMAND...          prints "WALL_S CPU_S PEAK_KB EXIT"
 *     measure --first COMMAND...  prints the milliseconds from the start to the first task's own
 *                                 start, which the task writes to $BENCH_STAMP (see stamp.c)
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds(struct timeval tv)
{
    return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static void print_first(double began_s)
{
    const char *path = getenv("BENCH_STAMP");
    FILE *file = path ? fopen(path, "r") : NULL;
    double stamp_s = 0;
    if (!file || fscanf(file, "%lf", &stamp_s) != 1) {
        puts("nan");
    } else {
        printf("%.2f\n", (stamp_s - began_s) * 1000.0);
    }
    if (file) {
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    int first = argc > 1 && strcmp(argv[1], "--first") == 0;
    char **command = argv + 1 + first;
    if (!*command) {
        fputs("usage: measure [--first] COMMAND...\n", stderr);
        return 2;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    double began_s = now_s();
    pid_t pid = 0;
    int failed = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
    if (failed) {
        fprintf(stderr, "measure: %s: %s\n", command[0], strerror(failed));
        return 127;
    }
    int status = 0;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    double wall_s = now_s() - began_s;
    posix_spawn_file_actions_destroy(&actions);
    if (first) {
        print_first(began_s);
    } else {
        printf("%.6f %.6f %ld %d\n", wall_s, seconds(usage.ru_utime) + seconds(usage.ru_stime),
               usage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    }
    return 0;
}
