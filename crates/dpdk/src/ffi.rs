//! The C shim's functions (`csrc/`), as Rust sees them.

use std::ffi::{c_char, c_int, c_uint};

/// Bytes of DPDK's log that are kept, as the shim says.
pub(crate) const LOG: usize = 64 << 10;

/// DPDK's mempool, never looked into from Rust.
#[repr(C)]
pub(crate) struct RteMempool {
    _private: [u8; 0],
}

/// DPDK's ring, likewise.
#[repr(C)]
pub(crate) struct RteRing {
    _private: [u8; 0],
}

/// The head of DPDK's mbuf; the shim asserts these offsets at compile time.
#[repr(C)]
pub(crate) struct RteMbuf {
    pub(crate) buf_addr: *mut u8,
    _buf_iova: u64,
    pub(crate) data_off: u16,
    _refcnt: u16,
    pub(crate) nb_segs: u16,
    pub(crate) port: u16,
    pub(crate) ol_flags: u64,
    _packet_type: u32,
    pub(crate) pkt_len: u32,
    pub(crate) data_len: u16,
    _vlan_tci: u16,
    _hash_low: u32,
    /// `hash.fdir.hi`: what a flow rule marked the packet with.
    pub(crate) mark: u32,
    _vlan_tci_outer: u16,
    pub(crate) buf_len: u16,
}

#[cfg(miri)]
impl RteMbuf {
    /// The head of a packet without a byte, behind so much headroom (`stub.rs`).
    pub(crate) fn without_packet(buf_addr: *mut u8, buf_len: u16, headroom: u16) -> Self {
        Self {
            buf_addr,
            _buf_iova: 0,
            data_off: headroom,
            _refcnt: 1,
            nb_segs: 1,
            port: u16::MAX,
            ol_flags: 0,
            _packet_type: 0,
            pkt_len: 0,
            data_len: 0,
            _vlan_tci: 0,
            _hash_low: 0,
            mark: 0,
            _vlan_tci_outer: 0,
            buf_len,
        }
    }
}

unsafe extern "C" {
    pub(crate) fn weir_eal_init(argc: c_int, argv: *mut *mut c_char, hz: u64) -> c_int;
    pub(crate) fn weir_log_keep() -> c_int;
    pub(crate) fn weir_log_written() -> u64;
    pub(crate) fn weir_log_read(from: u64, into: *mut c_char) -> usize;
    pub(crate) fn weir_version() -> *const c_char;
    pub(crate) fn weir_strerror(error: c_int) -> *const c_char;
    pub(crate) fn weir_thread_register() -> c_int;
    pub(crate) fn weir_thread_unregister();
    pub(crate) fn weir_thread_adopt(lcore: c_uint);
    pub(crate) fn weir_thread_give_up();
    pub(crate) fn weir_leave_devices_alone();

    pub(crate) fn weir_ring_create(name: *const c_char, count: c_uint, error: *mut c_int) -> *mut RteRing;
    pub(crate) fn weir_ring_find(name: *const c_char) -> *mut RteRing;
    pub(crate) fn weir_ring_count(ring: *const RteRing) -> c_uint;
    pub(crate) fn weir_ring_dequeue(ring: *mut RteRing, mbufs: *mut *mut RteMbuf, count: c_uint) -> c_uint;
    pub(crate) fn weir_ring_enqueue(ring: *mut RteRing, mbufs: *mut *mut RteMbuf, count: c_uint) -> c_uint;
    pub(crate) fn weir_interrupts_hold() -> c_int;
    pub(crate) fn weir_interrupts_release();

    pub(crate) fn weir_pool_create(
        name: *const c_char,
        count: c_uint,
        cache: c_uint,
        room: u16,
        packed: c_int,
        error: *mut c_int,
    ) -> *mut RteMempool;
    pub(crate) fn weir_pool_find(name: *const c_char, room: *mut u16) -> *mut RteMempool;
    pub(crate) fn weir_pool_free(pool: *mut RteMempool);
    pub(crate) fn weir_pool_in_use(pool: *const RteMempool) -> c_uint;
    pub(crate) fn weir_alloc_bulk(pool: *mut RteMempool, mbufs: *mut *mut RteMbuf, count: c_uint) -> c_int;
    pub(crate) fn weir_free_bulk(mbufs: *mut *mut RteMbuf, count: c_uint);

    pub(crate) fn weir_vdev_attach(name: *const c_char, arguments: *const c_char, port: *mut u16) -> c_int;
    pub(crate) fn weir_pci_attach(address: *const c_char, port: *mut u16) -> c_int;
    pub(crate) fn weir_port_configure(
        port: u16,
        queues: u16,
        descriptors: u16,
        max_frame: u16,
        pools: *mut *mut RteMempool,
    ) -> c_int;
    pub(crate) fn weir_port_close(port: u16, vdev: *const c_char);
    pub(crate) fn weir_port_link_up(port: u16) -> c_int;
    pub(crate) fn weir_port_stats(port: u16, out: *mut u64) -> c_int;
    pub(crate) fn weir_port_mac(port: u16, out: *mut u8) -> c_int;
    pub(crate) fn weir_mark_rule(
        port: u16,
        spec: *const crate::Headers,
        mask: *const crate::Headers,
        ip: c_int,
        l4: c_int,
        mark: u32,
        queues: u16,
        rule: *mut *mut std::ffi::c_void,
        why: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn weir_mark_rule_destroy(port: u16, rule: *mut std::ffi::c_void);
    pub(crate) fn weir_rx_burst(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, count: u16) -> u16;
    pub(crate) fn weir_tx_burst(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, count: u16) -> u16;
    pub(crate) fn weir_memif_rx_burst(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, count: u16) -> u16;
    pub(crate) fn weir_memif_tx_burst(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, count: u16) -> u16;
    pub(crate) fn weir_packet_open_ring(
        interface: c_uint,
        slot: u32,
        slots: u32,
        block: u32,
        waiting: c_int,
        group: *mut c_int,
        ring: *mut *mut u8,
    ) -> c_int;
    pub(crate) fn weir_packet_open_sender(interface: c_uint, waiting: c_int, bypass: c_int) -> c_int;
    pub(crate) fn weir_packet_send(
        fd: c_int,
        mbufs: *mut *mut RteMbuf,
        count: c_uint,
        error: *mut c_int,
    ) -> c_uint;
    pub(crate) fn weir_packet_lost(fd: c_int) -> u64;
    pub(crate) fn weir_packet_link(fd: c_int, interface: c_uint, mac: *mut u8) -> c_int;
    pub(crate) fn weir_af_packet_go_on(port: u16, queue: u16, pool: *mut RteMempool);
}
