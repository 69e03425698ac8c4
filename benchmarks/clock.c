/* A wall clock that is an hour ahead. Debian's libfaketime 0.9.10 makes Python's time.sleep fail. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *value) {
    int failed = syscall(SYS_clock_gettime, clock, value);
    if (!failed && clock == CLOCK_REALTIME) value->tv_sec += 3600;
    return failed;
}
int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, value, zone);
    if (!failed) value->tv_sec += 3600;
    return failed;
}
time_t time(time_t *value) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (value) *value = now.tv_sec;
    return now.tv_sec;
}
