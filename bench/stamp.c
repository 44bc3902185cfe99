/* stamp - a task that writes when it started to its first argument, once. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_EXCL, 0644) : -1;
    if (fd >= 0) {
        dprintf(fd, "%.9f\n", (double)now.tv_sec + (double)now.tv_nsec / 1e9);
        close(fd);
    }
    return 0;
}
