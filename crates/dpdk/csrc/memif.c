/*
 * Bursts of memif ports take turns with the callbacks of their driver.
 *
 * Why: DPDK's memif driver learns in its interrupt thread that a peer came or went, and lays out or unmaps
 * the memory that they share, without asking whether a worker is in the middle of a burst over it; that
 * worker takes the process along. So build.rs has the driver register its callbacks here (objcopy renames
 * three symbols in a copy of its archive): a callback waits until no burst is under way, and lets none begin
 * until it is done. A burst that finds a callback at work moves nothing.
 * Cost: one atomic exchange a burst, on a line that only that queue's owner writes.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rte_ethdev.h>
#include <rte_interrupts.h>

#define QUEUES 16 /* that a memif port has at most: weir_port_configure refuses more */

struct gate {
    _Alignas(64) atomic_bool taken;
};
static struct gate gates[RTE_MAX_ETHPORTS][QUEUES][2];

static void take(struct gate *gate)
{
    while (atomic_exchange_explicit(&gate->taken, true, memory_order_acquire))
        sched_yield(); /* a burst takes microseconds, but its thread may have lost its core */
}
static void release(struct gate *gate) { atomic_store_explicit(&gate->taken, false, memory_order_release); }

uint16_t weir_memif_max_queues(void) { return QUEUES; }

uint16_t weir_memif_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    struct gate *gate = &gates[port][queue][0];
    if (atomic_exchange_explicit(&gate->taken, true, memory_order_acquire))
        return 0;
    count = rte_eth_rx_burst(port, queue, mbufs, count);
    release(gate);
    return count;
}
uint16_t weir_memif_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    struct gate *gate = &gates[port][queue][1];
    if (atomic_exchange_explicit(&gate->taken, true, memory_order_acquire))
        return 0;
    count = rte_eth_tx_burst(port, queue, mbufs, count);
    release(gate);
    return count;
}

/* ---- what the driver calls in place of DPDK's functions of these names ---- */

/* The driver has two callbacks: of a listening socket, and of a connection. */
#define CALLBACKS 4
static _Atomic(rte_intr_callback_fn) callbacks[CALLBACKS];

static void in_turn(unsigned number, void *argument)
{
    struct gate *first = &gates[0][0][0], *end = first + sizeof(gates) / sizeof(*first);

    for (struct gate *gate = first; gate < end; gate++)
        take(gate);
    atomic_load(&callbacks[number])(argument);
    for (struct gate *gate = first; gate < end; gate++)
        release(gate);
}
static void in_turn_0(void *argument) { in_turn(0, argument); }
static void in_turn_1(void *argument) { in_turn(1, argument); }
static void in_turn_2(void *argument) { in_turn(2, argument); }
static void in_turn_3(void *argument) { in_turn(3, argument); }

/* What is registered for a callback, one for each: DPDK finds them again by address. NULL if there are too many. */
static rte_intr_callback_fn stand_in(rte_intr_callback_fn callback)
{
    static const rte_intr_callback_fn stand_ins[CALLBACKS] = {in_turn_0, in_turn_1, in_turn_2, in_turn_3};

    for (unsigned number = 0; number < CALLBACKS; number++) {
        rte_intr_callback_fn known = NULL;
        if (atomic_compare_exchange_strong(&callbacks[number], &known, callback) || known == callback)
            return stand_ins[number];
    }
    return NULL;
}
int weir_memif_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *argument)
{
    rte_intr_callback_fn ours = stand_in(callback);
    return ours == NULL ? -ENOSPC : rte_intr_callback_register(handle, ours, argument);
}
int weir_memif_callback_unregister(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *argument)
{
    return rte_intr_callback_unregister(handle, stand_in(callback), argument);
}
int weir_memif_callback_unregister_pending(const struct rte_intr_handle *handle, rte_intr_callback_fn callback,
                                           void *argument, rte_intr_unregister_callback_fn done)
{
    return rte_intr_callback_unregister_pending(handle, stand_in(callback), argument, done);
}
