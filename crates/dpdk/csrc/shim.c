/*
 * The C side of Weir's DPDK crate.
 *
 * What: DPDK calls that are static inline, or that take structures whose layout changes between
 * releases, behind plain functions with plain arguments. Rust never sees such a structure, with one
 * exception: the head of rte_mbuf, whose offsets the assertions below fix (src/mbuf.rs mirrors them).
 * Cost: one call per burst, under one cycle per packet at a burst of 32.
 */
#define _GNU_SOURCE /* fopencookie */
#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include <rte_bus.h>
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_ring.h>
#include <rte_version.h>

/* Bytes of DPDK's log that are kept; src/ffi.rs mirrors it. */
#define WEIR_LOG (64 << 10)

_Static_assert(offsetof(struct rte_mbuf, buf_addr) == 0, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, data_off) == 16, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, nb_segs) == 20, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, port) == 22, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, ol_flags) == 24, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, pkt_len) == 36, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, data_len) == 40, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, hash.fdir.hi) == 48, "mirror in src/ffi.rs");
_Static_assert(RTE_MBUF_F_RX_FDIR == 1ULL << 2 && RTE_MBUF_F_RX_FDIR_ID == 1ULL << 13, "mirror in src/mbuf.rs");
_Static_assert(offsetof(struct rte_mbuf, buf_len) == 54, "mirror in src/mbuf.rs");

/* libbpf and libxdp, below the AF_XDP driver, print to stderr unless told otherwise. */
static int bpf_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
    return level == LIBBPF_DEBUG ? 0 : vfprintf(rte_log_get_stream(), format, arguments);
}
static int xdp_print(enum libxdp_print_level level, const char *format, va_list arguments)
{
    return level == LIBXDP_DEBUG ? 0 : vfprintf(rte_log_get_stream(), format, arguments);
}
/*
 * The last that DPDK logged. Peers can have drivers complain without end, so that it has a bound; and no system call is
 * made, which a filter could refuse to whoever complains. Whoever writes or reads holds the stream's lock.
 */
static struct {
    FILE *stream;
    uint64_t written;
    char text[WEIR_LOG];
} kept;
static ssize_t keep(void *unused, const char *text, size_t length)
{
    (void)unused;
    for (size_t at = 0; at < length; at++)
        kept.text[(kept.written + at) % sizeof(kept.text)] = text[at];
    kept.written += length;
    return length;
}
int weir_log_keep(void)
{
    kept.stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
    if (kept.stream == NULL)
        return -errno;
    setvbuf(kept.stream, NULL, _IONBF, 0);
    libbpf_set_print(bpf_print);
    libxdp_set_print(xdp_print);
    return rte_openlog_stream(kept.stream);
}
/* Bytes that were ever logged; none before the log is kept. */
uint64_t weir_log_written(void)
{
    if (kept.stream == NULL)
        return 0;
    flockfile(kept.stream);
    uint64_t written = kept.written;
    funlockfile(kept.stream);
    return written;
}
/* Copies what was logged from there on, as far as it is kept: WEIR_LOG bytes at most. Returns how many. */
size_t weir_log_read(uint64_t from, char *into)
{
    size_t count = 0;
    if (kept.stream == NULL)
        return 0;
    flockfile(kept.stream);
    if (kept.written > sizeof(kept.text) && from < kept.written - sizeof(kept.text))
        from = kept.written - sizeof(kept.text);
    for (; from < kept.written; from++)
        into[count++] = kept.text[from % sizeof(kept.text)];
    funlockfile(kept.stream);
    return count;
}
const char *weir_version(void) { return rte_version(); }
const char *weir_strerror(int error) { return rte_strerror(error); }
int weir_thread_register(void) { return rte_thread_register() < 0 ? -rte_errno : 0; }
void weir_thread_unregister(void) { rte_thread_unregister(); }

/* ---- processes that share memory ---- */

/*
 * DPDK registers no thread where secondary processes may attach, because the numbers of threads (their places
 * in the caches of every pool) are each process's own. Who shares memory is given one number for its one worker.
 */
void weir_thread_adopt(unsigned lcore) { RTE_PER_LCORE(_lcore_id) = lcore; }
void weir_thread_give_up(void) { RTE_PER_LCORE(_lcore_id) = LCORE_ID_ANY; }

void rte_bus_unregister(struct rte_bus *bus); /* its header is not installed */

/* Before the EAL starts as a secondary: it would open each virtual device of the primary. */
void weir_leave_devices_alone(void)
{
    struct rte_bus *bus = rte_bus_find_by_name("vdev");
    if (bus != NULL)
        rte_bus_unregister(bus);
}

/* One process sends, one receives: neither waits for the other. */
struct rte_ring *weir_ring_create(const char *name, unsigned count, int *error)
{
    struct rte_ring *ring =
        rte_ring_create(name, count, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
    *error = ring == NULL ? rte_errno : 0;
    return ring;
}
struct rte_ring *weir_ring_find(const char *name) { return rte_ring_lookup(name); }
unsigned weir_ring_count(const struct rte_ring *ring) { return rte_ring_count(ring); }
unsigned weir_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned count)
{
    return rte_ring_sc_dequeue_burst(ring, (void **)mbufs, count, NULL);
}
unsigned weir_ring_enqueue(struct rte_ring *ring, struct rte_mbuf **mbufs, unsigned count)
{
    return rte_ring_sp_enqueue_burst(ring, (void *const *)mbufs, count, NULL);
}

/* ---- the interrupt thread ---- */

static struct rte_intr_handle *doorbell; /* an eventfd that the interrupt thread listens to */
static sem_t held, released;

static void wait_for_release(void *unused)
{
    uint64_t rings;
    (void)unused;
    if (read(rte_intr_fd_get(doorbell), &rings, sizeof(rings)) < 0)
        return; /* nobody rang */
    sem_post(&held);
    while (sem_wait(&released) < 0 && errno == EINTR)
        ;
}
/* Stops DPDK's interrupt thread between two callbacks until weir_interrupts_release. One caller at a time. */
int weir_interrupts_hold(void)
{
    const uint64_t ring = 1;

    if (doorbell == NULL) {
        struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), error;
        if (handle == NULL || fd < 0)
            return -ENOMEM;
        sem_init(&held, 0, 0);
        sem_init(&released, 0, 0);
        rte_intr_fd_set(handle, fd);
        rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT);
        doorbell = handle;
        error = rte_intr_callback_register(handle, wait_for_release, NULL);
        if (error < 0) {
            doorbell = NULL;
            rte_intr_instance_free(handle);
            close(fd);
            return error;
        }
    }
    if (write(rte_intr_fd_get(doorbell), &ring, sizeof(ring)) < 0)
        return -errno;
    while (sem_wait(&held) < 0 && errno == EINTR)
        ;
    return 0;
}
void weir_interrupts_release(void) { sem_post(&released); }

/* ---- mbuf pools ---- */

/*
 * `packed` leaves out the padding that keeps an mbuf from crossing a page, which only devices that read
 * memory by themselves need; with 4-KiB pages it is four tenths of the pool. And the AF_XDP driver takes
 * a pool for as long as its mbufs together: those behind that, the kernel would refuse one by one.
 */
struct rte_mempool *weir_pool_create(const char *name, unsigned count, unsigned cache, uint16_t room, int packed,
                                     int *error)
{
    struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = room};
    unsigned flags = packed ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
    struct rte_mempool *pool = rte_mempool_create_empty(name, count, sizeof(struct rte_mbuf) + room, cache,
                                                        sizeof(private), SOCKET_ID_ANY, flags);

    *error = pool == NULL ? rte_errno : 0;
    if (pool == NULL)
        return NULL;
    /* Last in, first out: what was used last is in the cache still. By the ring that is usual packets go through all of the
       pool's memory, and where a page has 4 KiB a hypervisor may have put some of that away (docs/notebook.md). */
    *error = -rte_mempool_set_ops_byname(pool, "stack", NULL);
    rte_pktmbuf_pool_init(pool, &private);
    if (*error == 0) {
        int populated = rte_mempool_populate_default(pool);
        *error = populated < 0 ? -populated : 0;
    }
    if (*error != 0) {
        rte_mempool_free(pool);
        return NULL;
    }
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    return pool;
}
struct rte_mempool *weir_pool_find(const char *name, uint16_t *room)
{
    struct rte_mempool *pool = rte_mempool_lookup(name);
    *room = pool == NULL ? 0 : rte_pktmbuf_data_room_size(pool);
    return pool;
}
void weir_pool_free(struct rte_mempool *pool) { rte_mempool_free(pool); }
unsigned weir_pool_in_use(const struct rte_mempool *pool) { return rte_mempool_in_use_count(pool); }
int weir_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count)
{
    return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}
void weir_free_bulk(struct rte_mbuf **mbufs, unsigned count) { rte_pktmbuf_free_bulk(mbufs, count); }

/* ---- ports ---- */

int weir_vdev_attach(const char *name, const char *arguments, uint16_t *port)
{
    int error = rte_vdev_init(name, arguments);
    if (error < 0)
        return error;
    error = rte_eth_dev_get_port_by_name(name, port);
    if (error < 0)
        rte_vdev_uninit(name);
    return error;
}
int weir_pci_attach(const char *address, uint16_t *port)
{
    int error = rte_eal_hotplug_add("pci", address, "");
    if (error < 0 && error != -EEXIST)
        return error;
    return rte_eth_dev_get_port_by_name(address, port);
}
uint16_t weir_memif_max_queues(void); /* memif.c */

int weir_port_configure(uint16_t port, uint16_t queues, uint16_t descriptors, uint16_t max_frame,
                        struct rte_mempool **pools)
{
    struct rte_eth_conf conf;
    struct rte_eth_dev_info info;
    uint16_t rx = descriptors, tx = descriptors;
    uint16_t mtu = max_frame > 1522 ? max_frame - RTE_ETHER_HDR_LEN - 4 : 0;
    int error = rte_eth_dev_info_get(port, &info);

    if (error < 0)
        return error;
    if (strcmp(info.driver_name, "net_memif") == 0 && queues > weir_memif_max_queues())
        return -EINVAL;
    memset(&conf, 0, sizeof(conf));
    if (queues > 1) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP) & info.flow_type_rss_offloads;
        if (conf.rx_adv_conf.rss_conf.rss_hf == 0)
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
    }
    /* Some drivers deliver marks only where that is asked for first; those that cannot say so. */
    rte_eth_rx_metadata_negotiate(port, &(uint64_t){RTE_ETH_RX_METADATA_USER_MARK});
    error = rte_eth_dev_configure(port, queues, queues, &conf);
    if (error < 0)
        return error;
    /* AF_PACKET says 1518 whatever its slots hold; its interface has the MTU it was given. */
    if (strcmp(info.driver_name, "net_af_packet") == 0)
        mtu = 0;
    if (mtu != 0 && (error = rte_eth_dev_set_mtu(port, mtu)) < 0 && error != -ENOTSUP)
        return error;
    error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
    if (error < 0)
        return error;
    for (uint16_t queue = 0; queue < queues; queue++) {
        error = rte_eth_rx_queue_setup(port, queue, rx, SOCKET_ID_ANY, NULL, pools[queue]);
        if (error == 0)
            error = rte_eth_tx_queue_setup(port, queue, tx, SOCKET_ID_ANY, NULL);
        if (error < 0)
            return error;
    }
    error = rte_eth_dev_start(port);
    if (error < 0)
        return error;
    rte_eth_promiscuous_enable(port); /* virtual ports without a filter refuse it; harmless */
    return 0;
}
void weir_port_close(uint16_t port, const char *vdev)
{
    struct rte_eth_dev_info info;
    struct rte_device *device = rte_eth_dev_info_get(port, &info) == 0 ? info.device : NULL;

    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
    if (vdev != NULL)
        rte_vdev_uninit(vdev);
    else if (device != NULL)
        rte_dev_remove(device); /* so that the device can be opened again */
}
int weir_port_link_up(uint16_t port)
{
    struct rte_eth_link link;
    memset(&link, 0, sizeof(link));
    return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}
int weir_port_stats(uint16_t port, uint64_t out[7])
{
    struct rte_eth_stats stats;
    int error = rte_eth_stats_get(port, &stats);
    if (error < 0)
        return error;
    out[0] = stats.ipackets;
    out[1] = stats.opackets;
    out[2] = stats.ibytes;
    out[3] = stats.obytes;
    out[4] = stats.imissed + stats.rx_nombuf;
    out[5] = stats.ierrors;
    out[6] = stats.oerrors;
    return 0;
}
int weir_port_mac(uint16_t port, uint8_t out[6])
{
    struct rte_ether_addr mac;
    int error = rte_eth_macaddr_get(port, &mac);
    if (error == 0)
        memcpy(out, mac.addr_bytes, 6);
    return error;
}
/* ---- rules that mark packets (rte_flow) ---- */

/* What a rule compares, in network order; src/flow_rule.rs mirrors it. A header whose mask is zero is not named. */
struct weir_headers {
    uint8_t eth_dst[6], eth_src[6];
    uint8_t eth_type[2], vlan_tci[2];
    uint8_t ip_src[16], ip_dst[16]; /* IPv4: the first four bytes */
    uint8_t ip_proto, ip_tos;
    uint8_t tp_src[2], tp_dst[2];
};
_Static_assert(sizeof(struct weir_headers) == 54, "mirror in src/flow_rule.rs");

static int none(const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    while (count > 0 && *byte == 0)
        byte++, count--;
    return count == 0;
}
/*
 * Has packets marked and received as if there were no rule. Where `rule` is NULL the driver is asked only
 * whether it would. What carries on differs: most drivers know PASSTHRU, others want RSS or a queue.
 */
int weir_mark_rule(uint16_t port, const struct weir_headers *spec, const struct weir_headers *mask, int ip, int l4,
                   uint32_t mark, uint16_t queues, void **rule, const char **why)
{
    struct rte_flow_item_eth eth = {0}, eth_mask = {0};
    struct rte_flow_item_vlan vlan = {0}, vlan_mask = {0};
    struct rte_flow_item_ipv4 v4 = {0}, v4_mask = {0};
    struct rte_flow_item_ipv6 v6 = {0}, v6_mask = {0};
    struct rte_flow_item_tcp tcp = {0}, tcp_mask = {0};
    struct rte_flow_item_udp udp = {0}, udp_mask = {0};
    struct rte_flow_item items[6], *item = items;
    struct rte_flow_action_mark action_mark = {.id = mark};
    struct rte_flow_action_queue action_queue = {.index = 0};
    uint16_t all[RTE_MAX_QUEUES_PER_PORT];
    struct rte_flow_action_rss rss = {.queue_num = queues, .queue = all, .types = RTE_ETH_RSS_IP};
    const struct rte_flow_action onward[] = {
        {.type = RTE_FLOW_ACTION_TYPE_PASSTHRU},
        {.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss},
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &action_queue},
    };
    const struct rte_flow_attr attr = {.ingress = 1};
    struct rte_flow_error error;
    int failed = -ENOTSUP;

    memset(items, 0, sizeof(items));
    for (uint16_t queue = 0; queue < queues && queue < RTE_MAX_QUEUES_PER_PORT; queue++)
        all[queue] = queue;
#define NAME(type_, spec_, mask_) *item++ = (struct rte_flow_item){.type = type_, .spec = spec_, .mask = mask_}
#define NAME_IF(type_, spec_, mask_) \
    if (none(mask_, sizeof(*(mask_)))) \
        NAME(type_, NULL, NULL); \
    else \
        NAME(type_, spec_, mask_)
    for (int is_mask = 0; is_mask < 2; is_mask++) {
        const struct weir_headers *from = is_mask ? mask : spec;
        struct rte_flow_item_ipv4 *to4 = is_mask ? &v4_mask : &v4;
        struct rte_flow_item_ipv6 *to6 = is_mask ? &v6_mask : &v6;
        memcpy(is_mask ? &eth_mask.hdr.dst_addr : &eth.hdr.dst_addr, from->eth_dst, 6);
        memcpy(is_mask ? &eth_mask.hdr.src_addr : &eth.hdr.src_addr, from->eth_src, 6);
        memcpy(is_mask ? &vlan_mask.hdr.vlan_tci : &vlan.hdr.vlan_tci, from->vlan_tci, 2);
        memcpy(&to4->hdr.src_addr, from->ip_src, 4);
        memcpy(&to4->hdr.dst_addr, from->ip_dst, 4);
        to4->hdr.next_proto_id = from->ip_proto;
        to4->hdr.type_of_service = from->ip_tos;
        memcpy(to6->hdr.src_addr, from->ip_src, 16);
        memcpy(to6->hdr.dst_addr, from->ip_dst, 16);
        to6->hdr.proto = from->ip_proto;
        memcpy(is_mask ? &tcp_mask.hdr.src_port : &tcp.hdr.src_port, from->tp_src, 2);
        memcpy(is_mask ? &tcp_mask.hdr.dst_port : &tcp.hdr.dst_port, from->tp_dst, 2);
        memcpy(is_mask ? &udp_mask.hdr.src_port : &udp.hdr.src_port, from->tp_src, 2);
        memcpy(is_mask ? &udp_mask.hdr.dst_port : &udp.hdr.dst_port, from->tp_dst, 2);
    }
    if (ip == 0 && none(mask->vlan_tci, 2)) { /* else the next item says it */
        memcpy(&eth.hdr.ether_type, spec->eth_type, 2);
        memcpy(&eth_mask.hdr.ether_type, mask->eth_type, 2);
    }
    NAME_IF(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask);
    if (!none(mask->vlan_tci, 2))
        NAME(RTE_FLOW_ITEM_TYPE_VLAN, &vlan, &vlan_mask);
    if (ip == 4) {
        NAME_IF(RTE_FLOW_ITEM_TYPE_IPV4, &v4, &v4_mask);
    } else if (ip == 6) {
        NAME_IF(RTE_FLOW_ITEM_TYPE_IPV6, &v6, &v6_mask);
    }
    if (l4 == IPPROTO_TCP) {
        NAME_IF(RTE_FLOW_ITEM_TYPE_TCP, &tcp, &tcp_mask);
    } else if (l4 == IPPROTO_UDP) {
        NAME_IF(RTE_FLOW_ITEM_TYPE_UDP, &udp, &udp_mask);
    }
    NAME(RTE_FLOW_ITEM_TYPE_END, NULL, NULL);

    *why = NULL;
    for (unsigned way = 0; way < RTE_DIM(onward); way++) {
        const struct rte_flow_action actions[] = {
            {.type = RTE_FLOW_ACTION_TYPE_MARK, .conf = &action_mark},
            onward[way],
            {.type = RTE_FLOW_ACTION_TYPE_END},
        };
        if (onward[way].type == RTE_FLOW_ACTION_TYPE_QUEUE && queues > 1)
            continue; /* it would take packets from the other queues */
        memset(&error, 0, sizeof(error));
        failed = rte_flow_validate(port, &attr, items, actions, &error);
        if (failed == 0 && rule != NULL) {
            *rule = rte_flow_create(port, &attr, items, actions, &error);
            failed = *rule == NULL ? -rte_errno : 0;
        }
        if (failed == 0)
            return 0;
        *why = error.message;
    }
    return failed < 0 ? failed : -ENOTSUP;
}
void weir_mark_rule_destroy(uint16_t port, void *rule)
{
    struct rte_flow_error error;
    rte_flow_destroy(port, rule, &error);
}
uint16_t weir_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    return rte_eth_rx_burst(port, queue, mbufs, count);
}
uint16_t weir_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    return rte_eth_tx_burst(port, queue, mbufs, count);
}
/*
 * The AF_PACKET driver hands its ring to the kernel in the call that fills it, and whatever the kernel
 * would not take then waits for the next call. There is no call without a packet; but one longer than
 * any slot of the ring is freed by the driver before it asks the kernel to go on.
 */
void weir_af_packet_go_on(uint16_t port, uint16_t queue, struct rte_mempool *pool)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == NULL)
        return;
    mbuf->pkt_len = UINT32_MAX;
    if (rte_eth_tx_burst(port, queue, &mbuf, 1) == 0)
        rte_pktmbuf_free(mbuf);
}
