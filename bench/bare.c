/* bare - the physical limit: a posix_spawn + wait loop that writes one log file a task.
 *
 *     bare COUNT FOLDER PROGRAM...     two in flight, stdout and stderr to FOLDER/N.log
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start(const char *folder, long number, char **command)
{
    char log[4096];
    snprintf(log, sizeof log, "%s/%ld.log", folder, number);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    if (posix_spawn(&pid, command[0], &actions, NULL, command, environ) != 0) {
        perror(command[0]);
        exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: bare COUNT FOLDER PROGRAM...\n", stderr);
        return 2;
    }
    long count = strtol(argv[1], NULL, 10);
    long started = 0;
    int live = 0;
    while (started < count || live > 0) {
        while (live < 2 && started < count) {
            start(argv[2], started++, argv + 3);
            live++;
        }
        int status = 0;
        if (wait(&status) > 0) {
            live--;
        }
    }
    return 0;
}
