/*
 * Raw sockets of the kernel (AF_PACKET): setting them up, and sending a burst.
 *
 * Why not DPDK's driver: it asks the kernel to put fragments together (PACKET_FANOUT_FLAG_DEFRAG), so that
 * whole datagrams come in that no link carries, cuts what its slots do not hold, and leaves checksums that
 * a virtual interface left out (src/af_packet.rs).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_mbuf.h>

/* src/af_packet.rs mirrors these; they are the kernel's, and stay as they are. */
_Static_assert(sizeof(struct tpacket2_hdr) == 32 && sizeof(struct virtio_net_hdr) == 10, "mirror in src/af_packet.rs");
_Static_assert(TPACKET_ALIGNMENT == 16, "mirror in src/af_packet.rs");

static int set(int fd, int option, int value)
{
    return setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)) < 0 ? -errno : 0;
}
/* So many bytes may wait in the socket; what the system allows where that is more than it does. */
static void allow(int fd, int forced, int option, int bytes)
{
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) < 0)
        setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes));
}
static int bind_to(int fd, unsigned interface, uint16_t protocol)
{
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = (int)interface};
    return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

#define WEIR_ALONE -1 /* mirror in src/af_packet.rs; a group's number may be 0 */
#define WEIR_FIRST -2

/*
 * A socket that receives all frames of an interface but those that this machine sends, into a ring of
 * `slots` slots in blocks of `block` bytes; what is longer than a slot waits in the socket as a whole.
 * `group` is WEIR_ALONE for an interface's only socket; else sockets share the frames by flow: WEIR_FIRST begins
 * a group and stores its number, which the others pass. Returns the socket.
 */
int weir_packet_open_ring(unsigned interface, uint32_t slot, uint32_t slots, uint32_t block, int waiting, int *group,
                          uint8_t **ring)
{
    struct tpacket_req request = {
        .tp_block_size = block, .tp_frame_size = slot, .tp_frame_nr = slots, .tp_block_nr = slots / (block / slot)};
    struct packet_mreq all = {.mr_ifindex = (int)interface, .mr_type = PACKET_MR_PROMISC};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return -errno;
    allow(fd, SO_RCVBUFFORCE, SO_RCVBUF, waiting);
    if ((error = set(fd, PACKET_VERSION, TPACKET_V2)) < 0 || (error = set(fd, PACKET_VNET_HDR, 1)) < 0 ||
        (error = set(fd, PACKET_IGNORE_OUTGOING, 1)) < 0 || (error = set(fd, PACKET_COPY_THRESH, 1)) < 0)
        goto failed;
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) < 0)
        goto failed_by_errno;
    *ring = mmap(NULL, (size_t)block * request.tp_block_nr, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ring == MAP_FAILED)
        goto failed_by_errno;
    if ((error = bind_to(fd, interface, ETH_P_ALL)) < 0)
        goto failed_mapped;
    if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) < 0) {
        error = -errno;
        goto failed_mapped;
    }
    if (*group != WEIR_ALONE) {
        int first = *group == WEIR_FIRST;
        uint32_t wanted = (first ? 0 : (uint32_t)*group) | PACKET_FANOUT_HASH << 16;
        socklen_t length = sizeof(wanted);
        if (first)
            wanted |= (uint32_t)PACKET_FANOUT_FLAG_UNIQUEID << 16;
        if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &wanted, sizeof(wanted)) < 0 ||
            getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &wanted, &length) < 0) {
            error = -errno;
            goto failed_mapped;
        }
        *group = (int)(wanted & 0xffff);
    }
    return fd;

failed_mapped:
    munmap(*ring, (size_t)block * request.tp_block_nr);
    goto failed;
failed_by_errno:
    error = -errno;
failed:
    close(fd);
    return error;
}

/* A socket that only sends. Returns it. */
int weir_packet_open_sender(unsigned interface, int waiting, int bypass)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return -errno;
    allow(fd, SO_SNDBUFFORCE, SO_SNDBUF, waiting);
    if ((bypass && (error = set(fd, PACKET_QDISC_BYPASS, 1)) < 0) || (error = bind_to(fd, interface, 0)) < 0) {
        close(fd);
        return error;
    }
    return fd;
}

/* Sends packets of one segment in order; returns how many, and stores what kept the next one back. */
unsigned weir_packet_send(int fd, struct rte_mbuf **mbufs, unsigned count, int *error)
{
    struct iovec parts[64];
    struct mmsghdr messages[64];
    int sent;

    *error = 0;
    if (count > 64)
        count = 64;
    memset(messages, 0, count * sizeof(messages[0]));
    for (unsigned at = 0; at < count; at++) {
        parts[at].iov_base = rte_pktmbuf_mtod(mbufs[at], void *);
        parts[at].iov_len = rte_pktmbuf_data_len(mbufs[at]);
        messages[at].msg_hdr.msg_iov = &parts[at];
        messages[at].msg_hdr.msg_iovlen = 1;
    }
    do
        sent = sendmmsg(fd, messages, count, MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        *error = errno;
    return sent < 0 ? 0 : (unsigned)sent;
}

/* Frames that the kernel had no room for since it was asked last. */
uint64_t weir_packet_lost(int fd)
{
    struct tpacket_stats stats;
    socklen_t length = sizeof(stats);
    return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) < 0 ? 0 : stats.tp_drops;
}

/* Whether the interface is up and has a carrier, and its address. */
int weir_packet_link(int fd, unsigned interface, uint8_t mac[6])
{
    struct ifreq request;
    int running;

    memset(&request, 0, sizeof(request));
    if (if_indextoname(interface, request.ifr_name) == NULL || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return 0;
    running = (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    if (ioctl(fd, SIOCGIFHWADDR, &request) == 0)
        memcpy(mac, request.ifr_hwaddr.sa_data, 6);
    return running;
}
