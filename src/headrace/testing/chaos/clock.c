/* Loaded into a run's processes (LD_PRELOAD), it moves their wall clock by the nanoseconds that a file says.
 *
 * Clocks that cannot be set go on as they are, and with them most waits. Who waits until a time by the wall clock means
 * the moved one, and waits as long as he meant to. The file is mapped, so that a move is seen at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static const volatile int64_t *moved;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("HEADRACE_CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *found = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (found != MAP_FAILED) moved = found;
}

static struct timespec by(struct timespec at, int64_t nanoseconds) {
  int64_t all = at.tv_sec * SECOND + at.tv_nsec + nanoseconds;
  return (struct timespec){.tv_sec = all / SECOND, .tv_nsec = all % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  long failed = syscall(SYS_clock_gettime, clock, at);
  if (failed || !moved || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)failed;
  *at = by(*at, *moved);
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  (void)zone; /* nobody asks for it any more, and the system does not know it */
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

/* A time that somebody waits for, as the system has it. Times since the machine began are of clocks that stay. */
static struct timespec meant(const struct timespec *until) {
  return moved && until->tv_sec > SECOND ? by(*until, -*moved) : *until;
}

/* The newest of a function's versions in the C library: the oldest have another layout of what is waited on. */
static void *original(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
  return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!next) next = original("pthread_cond_timedwait");
  struct timespec real = meant(until);
  return next(condition, mutex, &real);
}

int cnd_timedwait(void *condition, void *mutex, const struct timespec *until) {
  static int (*next)(void *, void *, const struct timespec *);
  if (!next) next = original("cnd_timedwait");
  struct timespec real = meant(until);
  return next(condition, mutex, &real);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
  static int (*next)(sem_t *, const struct timespec *);
  if (!next) next = original("sem_timedwait");
  struct timespec real = meant(until);
  return next(semaphore, &real);
}
