/*
 * The start of the EAL, which asks for more than it needs, and for memory where it costs most. build.rs has it ask here (objcopy
 * renames two symbols in a copy of its archive).
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

/*
 * DPDK asks this before it measures the frequency of the TSC itself, for which it sleeps 0.1 s: of a CPU of AMD in every
 * process. Weir knows it. Linked in place of DPDK's own, which is all that its object has.
 */
static uint64_t tsc_hz;
uint64_t get_tsc_freq_arch(void);
uint64_t get_tsc_freq_arch(void) { return tsc_hz; }

int weir_eal_init(int argc, char **argv, uint64_t hz)
{
    tsc_hz = hz;
    return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

/*
 * Cores and NUMA nodes.
 *
 * Why: it asks by access(2) for each of 128 lcores in each of 32 NUMA nodes, and for each of 1,024 CPUs, whether the kernel shows
 * it: five thousand system calls, almost all for numbers that the machine cannot have. The kernel says which it can
 * (`possible`, its Documentation/admin-guide/cputopology.rst); what is beyond is answered here, and any other path goes to the
 * kernel as it is.
 * Cost: two files read, once a process.
 */
int weir_eal_access(const char *path, int mode);

static unsigned int cpus, nodes; /* the first number that is beyond */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One more than the last number of a list as the kernel writes them ("0-3,8-11"). Of a file that is not there, or is no such list,
 * the most there is: nothing is beyond. */
static unsigned int beyond(const char *list)
{
    FILE *file = fopen(list, "re");
    unsigned int number = UINT_MAX;
    char after = ',';

    if (file == NULL)
        return UINT_MAX;
    while ((after == ',' || after == '-') && fscanf(file, "%u%c", &number, &after) == 2)
        ;
    fclose(file);
    return after == '\n' && number < UINT_MAX ? number + 1 : UINT_MAX;
}

static void look(void)
{
    cpus = beyond("/sys/devices/system/cpu/possible");
    nodes = beyond("/sys/devices/system/node/possible");
}

int weir_eal_access(const char *path, int mode)
{
    unsigned int node = 0, cpu;

    if (sscanf(path, "/sys/devices/system/node/node%u/cpu%u", &node, &cpu) == 2 ||
        sscanf(path, "/sys/devices/system/cpu/cpu%u/", &cpu) == 1) {
        pthread_once(&once, look);
        if (cpu >= cpus || node >= nodes) {
            errno = ENOENT;
            return -1;
        }
    }
    return access(path, mode);
}

/*
 * Ordinary memory.
 *
 * Why: without huge pages the EAL reserves addresses for its memory right behind a table whose length depends on how much that
 * is, at a multiple of 4 KiB. Linux has larger pages for shared memory, where it is told to use them (`shmem_enabled` in its
 * Documentation/admin-guide/mm/transhuge.rst), but only where addresses and offsets are alike in a page of that size: mostly
 * not there. A large reservation that may be anywhere is asked for at the next multiple of 2 MiB.
 * Cost: less than 2 MiB of addresses.
 */
enum { ALIGNMENT = 2 << 20, LARGE = 32 << 20 };

void *weir_eal_mmap(void *hint, size_t length, int protection, int flags, int file, off_t offset);

void *weir_eal_mmap(void *hint, size_t length, int protection, int flags, int file, off_t offset)
{
    if (protection == PROT_NONE && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == 0 && length >= LARGE)
        hint = (void *)(((uintptr_t)hint + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return mmap(hint, length, protection, flags, file, offset);
}
