/* SPDX-License-Identifier: MIT */
/*
 * facts_table - every key of the document, its kind and its place. See facts.h; fmove-facts(5) says
 * what each means.
 */
#include "mover/facts/facts.h"

#define NUMBER(type, member) UP_TO(type, member, FM_FACT_UNLIMITED)
#define UP_TO(type, member, max) \
	{ #member, FM_FACT_NUMBER, offsetof(struct fm_facts_##type, member), false, max }
#define BOOL(type, member) \
	{ #member, FM_FACT_BOOL, offsetof(struct fm_facts_##type, member), false, 0 }
#define NAME(type, member) \
	{ #member, FM_FACT_NAME, offsetof(struct fm_facts_##type, member), false, 0 }
#define TEXT(type, member) \
	{ #member, FM_FACT_TEXT, offsetof(struct fm_facts_##type, member), false, 0 }
#define OWN_TEXT(type, member) \
	{ #member, FM_FACT_TEXT, offsetof(struct fm_facts_##type, member), true, 0 }
#define OWN_ADDRESS(type, member) \
	{ #member, FM_FACT_ADDRESS, offsetof(struct fm_facts_##type, member), true, 0 }
#define END { NULL, 0, 0, false, 0 }

/* Beyond these it is no such thing, and reckoning with it would lead beyond all numbers. */
#define MBPS_MAX 100000000u
#define MTPS_MAX 1000000u
#define LANES_MAX 64u
#define MTU_MAX 0x7fffffffu
#define BITS_MAX 128u
#define MODE_MAX 07777u
#define PORT_MAX 255u
#define CELSIUS_MAX 1000u

static const struct fm_facts_row node_rows[] = {
	OWN_TEXT(node, name), NUMBER(node, read_ms), TEXT(node, fmove), TEXT(node, kernel),
	TEXT(node, kernel_build), TEXT(node, zfs), TEXT(node, machine),
	TEXT(node, product), NUMBER(node, memory_bytes),
	NUMBER(node, huge_pages_bytes), NUMBER(node, cpus), TEXT(node, governor),
	TEXT(node, governor_driver), NUMBER(node, io_uring_disabled),
	BOOL(node, network_manager), BOOL(node, netplan), NUMBER(node, rules),
	NUMBER(node, rp_filter), NUMBER(node, arp_ignore), NUMBER(node, arp_announce),
	NUMBER(node, interval_ms), NUMBER(node, page_cache_bytes), NUMBER(node, free_bytes),
	TEXT(node, gpu), BOOL(node, forwards), TEXT(node, forward_policy), END,
};

static const struct fm_facts_row daemon_rows[] = {
	OWN_TEXT(daemon, config), OWN_TEXT(daemon, listen), NUMBER(daemon, total_bytes),
	NUMBER(daemon, arena_bytes), TEXT(daemon, io), TEXT(daemon, rdma),
	NUMBER(daemon, volumes), OWN_TEXT(daemon, host_nqn), OWN_TEXT(daemon, host_id), END,
};

static const struct fm_facts_row port_rows[] = {
	NAME(port, device), UP_TO(port, port, PORT_MAX), NAME(port, interface),
	NAME(port, driver), NAME(port, pci), NUMBER(port, card), NAME(port, cage),
	TEXT(port, state), UP_TO(port, rate_mbps, MBPS_MAX), TEXT(port, link_layer),
	TEXT(port, type), TEXT(port, firmware), NUMBER(port, numa),
	UP_TO(port, pcie_mtps, MTPS_MAX), UP_TO(port, pcie_lanes, LANES_MAX),
	UP_TO(port, pcie_mtps_max, MTPS_MAX), UP_TO(port, pcie_lanes_max, LANES_MAX),
	UP_TO(port, mps, MTU_MAX), NUMBER(port, aer_fatal), NUMBER(port, aer_nonfatal),
	NUMBER(port, aer_correctable), UP_TO(port, rdma_mtu, MTU_MAX),
	UP_TO(port, rdma_mtu_max, MTU_MAX),
	TEXT(port, roce_mode), END,
};

static const struct fm_facts_row gid_rows[] = {
	NAME(gid, device), UP_TO(gid, port, PORT_MAX), NUMBER(gid, index),
	OWN_ADDRESS(gid, gid), TEXT(gid, type), NAME(gid, interface), END,
};

static const struct fm_facts_row interface_rows[] = {
	NAME(interface, name), UP_TO(interface, mtu, MTU_MAX), TEXT(interface, state),
	UP_TO(interface, speed_mbps, MBPS_MAX), BOOL(interface, has_master),
	NAME(interface, master), TEXT(interface, bond_mode),
	NUMBER(interface, rp_filter), NUMBER(interface, arp_ignore),
	NUMBER(interface, arp_announce), BOOL(interface, nm_managed), END,
};

static const struct fm_facts_row address_rows[] = {
	NAME(address, interface), OWN_ADDRESS(address, address), UP_TO(address, bits, BITS_MAX),
	BOOL(address, link_local), BOOL(address, no_prefix_route), BOOL(address, duplicate),
	END,
};

static const struct fm_facts_row route_rows[] = {
	OWN_ADDRESS(route, destination), UP_TO(route, bits, BITS_MAX), NAME(route, interface),
	NUMBER(route, table), NUMBER(route, metric), OWN_ADDRESS(route, gateway), END,
};

static const struct fm_facts_row counter_rows[] = {
	NAME(counter, object), NAME(counter, name), NUMBER(counter, value),
	NUMBER(counter, growth), END,
};

static const struct fm_facts_row process_rows[] = {
	NAME(process, name), NUMBER(process, pid), NUMBER(process, uid),
	NUMBER(process, memlock_bytes), BOOL(process, ipc_lock), NUMBER(process, files),
	NUMBER(process, memory_max_bytes), TEXT(process, oom_score_adj), END,
};

static const struct fm_facts_row disk_rows[] = {
	NAME(disk, name), TEXT(disk, model), NAME(disk, pci), NUMBER(disk, numa),
	UP_TO(disk, pcie_mtps, MTPS_MAX), UP_TO(disk, pcie_lanes, LANES_MAX),
	UP_TO(disk, temperature_c, CELSIUS_MAX), UP_TO(disk, temperature_max_c, CELSIUS_MAX), END,
};

static const struct fm_facts_row fstab_rows[] = {
	OWN_TEXT(fstab, source), OWN_TEXT(fstab, point), TEXT(fstab, type), END,
};

static const struct fm_facts_row controller_rows[] = {
	NAME(controller, name), TEXT(controller, transport), OWN_TEXT(controller, address),
	OWN_TEXT(controller, subsystem), OWN_TEXT(controller, host_nqn),
	TEXT(controller, state), NUMBER(controller, reconnects), END,
};

static const struct fm_facts_row owner_rows[] = {
	NAME(owner, name), TEXT(owner, evidence), END,
};

static const struct fm_facts_row store_rows[] = {
	OWN_TEXT(store, name), OWN_TEXT(store, directory), UP_TO(store, mode, MODE_MAX),
	TEXT(store, type), NAME(store, disk), NUMBER(store, size_bytes),
	NUMBER(store, free_bytes), BOOL(store, direct), BOOL(store, writers),
	BOOL(store, read_only), END,
};

static const struct fm_facts_row file_rows[] = {
	TEXT(file, role), OWN_TEXT(file, path), UP_TO(file, mode, MODE_MAX), END,
};

static const struct fm_facts_row rail_rows[] = {
	OWN_TEXT(rail, peer), TEXT(rail, kind), NAME(rail, device), OWN_ADDRESS(rail, local),
	OWN_ADDRESS(rail, remote), BOOL(rail, up), UP_TO(rail, mtu, MTU_MAX),
	UP_TO(rail, speed_mbps, MBPS_MAX), OWN_TEXT(rail, error),
	UP_TO(rail, packet_bytes, MTU_MAX), BOOL(rail, packet_passes), END,
};

static const struct fm_facts_row session_rows[] = {
	OWN_TEXT(session, peer), BOOL(session, connected), NAME(session, device),
	OWN_ADDRESS(session, local), OWN_ADDRESS(session, remote),
	NUMBER(session, round_trip_us), OWN_TEXT(session, error), END,
};

#define ONE(type) \
	{ #type, type##_rows, offsetof(struct fm_facts, type), sizeof(struct fm_facts_##type), \
	  0, 0, 0 }
#define LIST(list, type, max) \
	{ #list, type##_rows, offsetof(struct fm_facts, list), sizeof(struct fm_facts_##type), \
	  max, offsetof(struct fm_facts, list##_count), offsetof(struct fm_facts, list##_read) }

const struct fm_facts_section fm_facts_sections[] = {
	ONE(node),
	ONE(daemon),
	LIST(ports, port, FM_FACTS_PORTS_MAX),
	LIST(gids, gid, FM_FACTS_GIDS_MAX),
	LIST(interfaces, interface, FM_FACTS_INTERFACES_MAX),
	LIST(addresses, address, FM_FACTS_ADDRESSES_MAX),
	LIST(routes, route, FM_FACTS_ROUTES_MAX),
	LIST(counters, counter, FM_FACTS_COUNTERS_MAX),
	LIST(processes, process, FM_FACTS_PROCESSES_MAX),
	LIST(disks, disk, FM_FACTS_DISKS_MAX),
	LIST(fstab, fstab, FM_FACTS_FSTAB_MAX),
	LIST(controllers, controller, FM_FACTS_CONTROLLERS_MAX),
	LIST(owners, owner, FM_FACTS_OWNERS_MAX),
	LIST(stores, store, FM_FACTS_STORES_MAX),
	LIST(files, file, FM_FACTS_FILES_MAX),
	LIST(rails, rail, FM_FACTS_RAILS_MAX),
	LIST(sessions, session, FM_FACTS_SESSIONS_MAX),
	{ NULL, NULL, 0, 0, 0, 0, 0 },
};
