/* A monotonic clock at half speed. A sleep stands for work: it takes as long as without the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    long long nanoseconds = now->tv_sec * 1000000000LL + now->tv_nsec;
    if (clock == CLOCK_MONOTONIC) nanoseconds /= 2;
    now->tv_sec = nanoseconds / 1000000000LL;
    now->tv_nsec = nanoseconds % 1000000000LL;
    return status;
}
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_nanosleep");
    if (clock != CLOCK_MONOTONIC || !(flags & TIMER_ABSTIME)) return real(clock, flags, until, left);
    struct timespec now;
    clock_gettime(clock, &now);
    long long nanoseconds = (until->tv_sec - now.tv_sec) * 1000000000LL + until->tv_nsec - now.tv_nsec;
    if (nanoseconds <= 0) return 0;
    struct timespec wait = {nanoseconds / 1000000000LL, nanoseconds % 1000000000LL};
    return real(clock, 0, &wait, left);
}
