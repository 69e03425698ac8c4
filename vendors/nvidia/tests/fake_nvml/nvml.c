/* A stand-in for libnvidia-ml.so.1: it plays the machine that the file named by FAKE_NVML describes.

   One line each:
     init CODE                      what nvmlInit returns
     driver VERSION
     cuda NUMBER                    such as 12020
     gpu MIB MAJOR MINOR LINKS MIG WATTS JOULES MASK PID ERROR AFTER NAME
                                    memory, compute capability, NVLinks that are up, MIG mode (-1: not supported),
                                    power drawn, energy counted so far (-1: not supported), clock reasons,
                                    a process that computes on it (0: none, -1: not supported),
                                    the error it answers with once it has been asked AFTER times for its handle
   Each reading of the energy counter adds one second's worth of the power. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define UNINITIALIZED 1
#define MOST 16

struct gpu {
    int mib, major, minor, links, mig, watts, pid, error, after, asked;
    long long joules;
    unsigned long long mask;
    char name[96];
};

static struct gpu gpus[MOST];
static unsigned count;
static int code, cuda, initialised;
static char driver[80];

static int fits(void *handle) {
    struct gpu *one = handle;
    return one >= gpus && one < gpus + count;
}

static int state(struct gpu *one) {
    if (!initialised) return UNINITIALIZED;
    if (!fits(one)) return INVALID_ARGUMENT;
    return one->error && one->asked > one->after ? one->error : SUCCESS;
}

static void read_line(const char *line) {
    struct gpu one = {0};
    if (sscanf(line, "init %d", &code) == 1 || sscanf(line, "driver %79s", driver) == 1) return;
    if (sscanf(line, "cuda %d", &cuda) == 1) return;
    if (sscanf(line, "gpu %d %d %d %d %d %d %lld %llx %d %d %d %95[^\n]", &one.mib, &one.major, &one.minor, &one.links,
               &one.mig, &one.watts, &one.joules, &one.mask, &one.pid, &one.error, &one.after, one.name) == 12 && count < MOST)
        gpus[count++] = one;
}

int nvmlInitWithFlags(unsigned flags) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    (void)flags;
    code = 9; /* driver not loaded */
    count = 0;
    while (file && fgets(line, sizeof line, file)) read_line(line);
    if (file) fclose(file);
    initialised = code == SUCCESS;
    return code;
}

int nvmlShutdown(void) {
    initialised = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int error) { return error == 15 ? "GPU is lost" : "fake error"; }

static int text(const char *from, char *to, unsigned size) {
    snprintf(to, size, "%s", from);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(driver, to, size); }

int nvmlSystemGetCudaDriverVersion_v2(int *to) {
    *to = cuda;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *to) {
    *to = count;
    return initialised ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    if (index >= count) return INVALID_ARGUMENT;
    gpus[index].asked++;
    *to = &gpus[index];
    return state(&gpus[index]);
}

#define ANSWER(type, name, value)                                                                                      \
    int name(struct gpu *one, type *to) {                                                                              \
        int found = state(one);                                                                                        \
        if (found == SUCCESS) *to = (value);                                                                           \
        return found;                                                                                                  \
    }

ANSWER(unsigned, nvmlDeviceGetPowerUsage, one->watts * 1000)
ANSWER(unsigned, nvmlDeviceGetEnforcedPowerLimit, 400000)
ANSWER(unsigned, nvmlDeviceGetPowerManagementDefaultLimit, 400000)
ANSWER(unsigned, nvmlDeviceGetMaxPcieLinkGeneration, 4)
ANSWER(unsigned, nvmlDeviceGetMaxPcieLinkWidth, 16)
#ifdef BEFORE_535
ANSWER(unsigned long long, nvmlDeviceGetCurrentClocksThrottleReasons, one->mask)
#else
ANSWER(unsigned long long, nvmlDeviceGetCurrentClocksEventReasons, one->mask)
#endif

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *one, unsigned *many, struct process *to) {
    int found = state(one), there = one->pid > 0;
    if (found != SUCCESS) return found;
    if (one->pid < 0) return NOT_SUPPORTED;
    if (*many < (unsigned)there) {
        *many = there;
        return 7; /* insufficient size */
    }
    if (there) *to = (struct process){one->pid, 1 << 20, -1u, -1u};
    *many = there;
    return SUCCESS;
}

int nvmlDeviceGetName(struct gpu *one, char *to, unsigned size) {
    int found = state(one);
    return found == SUCCESS ? text(one->name, to, size) : found;
}

int nvmlDeviceGetUUID(struct gpu *one, char *to, unsigned size) {
    int found = state(one);
    if (found == SUCCESS) snprintf(to, size, "GPU-%08d-aaaa-bbbb-cccc-000000000000", (int)(one - gpus));
    return found;
}

int nvmlDeviceGetMemoryInfo(struct gpu *one, unsigned long long *to) {
    int found = state(one);
    if (found != SUCCESS) return found;
    to[0] = (unsigned long long)one->mib << 20; /* total, free, used */
    to[2] = 512ULL << 20;
    to[1] = to[0] - to[2];
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(struct gpu *one, int *major, int *minor) {
    *major = one->major;
    *minor = one->minor;
    return state(one);
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(struct gpu *one, struct pci *to) {
    int found = state(one);
    if (found != SUCCESS) return found;
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", (unsigned)(one - gpus) * 16 + 7);
    return SUCCESS;
}

int nvmlDeviceGetEccMode(struct gpu *one, int *current, int *pending) {
    *current = *pending = 1;
    return state(one);
}

int nvmlDeviceGetMigMode(struct gpu *one, unsigned *current, unsigned *pending) {
    if (one->mig < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)one->mig;
    return state(one);
}

int nvmlDeviceGetTotalEnergyConsumption(struct gpu *one, unsigned long long *to) {
    if (one->joules < 0) return NOT_SUPPORTED;
    one->joules += one->watts;
    *to = (unsigned long long)one->joules * 1000;
    return state(one);
}

int nvmlDeviceGetMaxClockInfo(struct gpu *one, int type, unsigned *to) {
    *to = type == 1 ? 1410 : 1215; /* SM, memory */
    return state(one);
}

int nvmlDeviceGetUtilizationRates(struct gpu *one, unsigned *to) {
    to[0] = 99; /* gpu, memory */
    to[1] = 50;
    return state(one);
}

int nvmlDeviceGetTemperature(struct gpu *one, int sensor, unsigned *to) {
    (void)sensor;
    *to = 61;
    return state(one);
}

int nvmlDeviceGetClockInfo(struct gpu *one, int type, unsigned *to) {
    (void)type;
    *to = 1410;
    return state(one);
}

int nvmlDeviceGetNvLinkState(struct gpu *one, unsigned link, int *to) {
    if (!one->links) return NOT_SUPPORTED;
    if (link >= (unsigned)one->links) return INVALID_ARGUMENT;
    *to = 1;
    return state(one);
}

/* four GPUs at a time hang on one processor, two at a time on one switch */
int nvmlDeviceGetTopologyCommonAncestor(struct gpu *one, struct gpu *other, int *to) {
    int here = (int)(one - gpus), there = (int)(other - gpus);
    *to = here / 2 == there / 2 ? 20 : here / 4 == there / 4 ? 40 : 50;
    return state(one);
}
