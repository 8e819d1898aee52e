/* SPDX-License-Identifier: MIT */
/*
 * facts - what was read of one node: a plain structure, and the JSON document that fmove-facts(5)
 * describes.
 *
 * A fact is known, or unknown for a reason; nothing in between, and no default stands in for it.
 * The tables of facts_table.c are the only place that knows the keys: writer, reader, --anonymous
 * and the test of the manual go through them. The document may come from a stranger: what is read
 * is checked against its row, and what a check prints into a command is of harmless characters
 * (FM_FACT_NAME, FM_FACT_ADDRESS). Any thread; facts are their owner's.
 */
#ifndef FM_FACTS_H
#define FM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;
struct fm_json_writer;

#define FM_FACTS_VERSION 1
#define FM_FACTS_BYTES_MAX (8u << 20)		/* of a document */
#define FM_FACT_TEXT_MAX 4096u			/* of one text, with its terminator */
#define FM_FACT_UNLIMITED ((uint64_t)INT64_MAX) /* of a limit, if there is none */

#define FM_FACTS_PORTS_MAX 64u
#define FM_FACTS_GIDS_MAX 1024u
#define FM_FACTS_INTERFACES_MAX 512u
#define FM_FACTS_ADDRESSES_MAX 1024u
#define FM_FACTS_ROUTES_MAX 1024u
#define FM_FACTS_COUNTERS_MAX 2048u
#define FM_FACTS_PROCESSES_MAX 64u
#define FM_FACTS_DISKS_MAX 256u
#define FM_FACTS_FSTAB_MAX 256u
#define FM_FACTS_CONTROLLERS_MAX 256u
#define FM_FACTS_OWNERS_MAX 16u
#define FM_FACTS_STORES_MAX 64u
#define FM_FACTS_FILES_MAX 64u
#define FM_FACTS_RAILS_MAX 1024u
#define FM_FACTS_SESSIONS_MAX 256u

struct fm_fact {
	bool is_known;
	uint64_t n; /* a number; 0 or 1 */
	char *text; /* a text; of an unknown fact the reason, or NULL: it was not looked for */
};

enum fm_fact_kind {
	FM_FACT_NUMBER, /* 0 .. 2^63 - 1; of a row 0 .. max */
	FM_FACT_BOOL,
	FM_FACT_NAME,	 /* of an object of the kernel: letters, digits and _ . : @ - */
	FM_FACT_ADDRESS, /* IPv4 or IPv6, without a scope */
	FM_FACT_TEXT	 /* any bytes but NUL */
};

struct fm_facts_node {
	struct fm_fact name, read_ms, fmove, kernel, kernel_build, zfs, machine, product,
		memory_bytes, huge_pages_bytes, cpus, governor, governor_driver, io_uring_disabled,
		network_manager, netplan, rules, rp_filter, arp_ignore, arp_announce, interval_ms,
		page_cache_bytes, free_bytes, gpu, forwards, forward_policy;
};

struct fm_facts_daemon {
	struct fm_fact config, listen, total_bytes, arena_bytes, io, rdma, volumes, host_nqn,
		host_id;
};

struct fm_facts_port {
	struct fm_fact device, port, interface, driver, pci, card, cage, state, rate_mbps,
		link_layer, type, firmware, numa, pcie_mtps, pcie_lanes, pcie_mtps_max,
		pcie_lanes_max, mps, aer_fatal, aer_nonfatal, aer_correctable, rdma_mtu,
		rdma_mtu_max, roce_mode;
};

struct fm_facts_gid {
	struct fm_fact device, port, index, gid, type, interface;
};

struct fm_facts_interface {
	struct fm_fact name, mtu, state, speed_mbps, has_master, master, bond_mode, rp_filter,
		arp_ignore, arp_announce, nm_managed;
};

struct fm_facts_address {
	struct fm_fact interface, address, bits, link_local, no_prefix_route, duplicate;
};

struct fm_facts_route {
	struct fm_fact destination, bits, interface, table, metric, gateway;
};

struct fm_facts_counter {
	struct fm_fact object, name, value, growth;
};

struct fm_facts_process {
	struct fm_fact name, pid, uid, memlock_bytes, ipc_lock, files, memory_max_bytes,
		oom_score_adj;
};

struct fm_facts_disk {
	struct fm_fact name, model, pci, numa, pcie_mtps, pcie_lanes, temperature_c,
		temperature_max_c;
};

struct fm_facts_fstab {
	struct fm_fact source, point, type; /* no options: there are passwords in them */
};

struct fm_facts_controller {
	struct fm_fact name, transport, address, subsystem, host_nqn, state, reconnects;
};

struct fm_facts_owner {
	struct fm_fact name, evidence;
};

struct fm_facts_store {
	struct fm_fact name, directory, mode, type, disk, size_bytes, free_bytes, direct;
	struct fm_fact writers;		/* its rules let somebody write */
	struct fm_fact read_only;	/* its file system is mounted so */
};

struct fm_facts_file {
	struct fm_fact role, path, mode;
};

struct fm_facts_rail {
	struct fm_fact peer, kind, device, local, remote, up, mtu, speed_mbps, error,
		packet_bytes, packet_passes;
};

struct fm_facts_session {
	struct fm_fact peer, connected, device, local, remote, round_trip_us, error;
};

/* Each list: the items and how many of them count. */
struct fm_facts {
	struct fm_facts_node node;
	struct fm_facts_daemon daemon;
	struct fm_facts_port ports[FM_FACTS_PORTS_MAX];
	struct fm_facts_gid gids[FM_FACTS_GIDS_MAX];
	struct fm_facts_interface interfaces[FM_FACTS_INTERFACES_MAX];
	struct fm_facts_address addresses[FM_FACTS_ADDRESSES_MAX];
	struct fm_facts_route routes[FM_FACTS_ROUTES_MAX];
	struct fm_facts_counter counters[FM_FACTS_COUNTERS_MAX];
	struct fm_facts_process processes[FM_FACTS_PROCESSES_MAX];
	struct fm_facts_disk disks[FM_FACTS_DISKS_MAX];
	struct fm_facts_fstab fstab[FM_FACTS_FSTAB_MAX];
	struct fm_facts_controller controllers[FM_FACTS_CONTROLLERS_MAX];
	struct fm_facts_owner owners[FM_FACTS_OWNERS_MAX];
	struct fm_facts_store stores[FM_FACTS_STORES_MAX];
	struct fm_facts_file files[FM_FACTS_FILES_MAX];
	struct fm_facts_rail rails[FM_FACTS_RAILS_MAX];
	struct fm_facts_session sessions[FM_FACTS_SESSIONS_MAX];
	size_t ports_count, gids_count, interfaces_count, addresses_count, routes_count,
		counters_count, processes_count, disks_count, fstab_count, controllers_count,
		owners_count, stores_count, files_count, rails_count, sessions_count;
	/* Whether a list could be read at all; a list that could not is empty and has a reason. */
	struct fm_fact ports_read, gids_read, interfaces_read, addresses_read, routes_read,
		counters_read, processes_read, disks_read, fstab_read, controllers_read,
		owners_read, stores_read, files_read, rails_read, sessions_read;
	uint64_t left_out; /* items that found no room in their list */
};

/* ---- the tables ---- */

struct fm_facts_row {
	const char *key;
	enum fm_fact_kind kind;
	size_t offset;	  /* of a struct fm_fact in the item */
	bool is_personal; /* --anonymous leaves it out */
	uint64_t max;	  /* of a number that is read from a document */
};

struct fm_facts_section {
	const char *key;
	const struct fm_facts_row *rows; /* ended by one without a key */
	size_t offset; /* of the item, or of the first of a list, in struct fm_facts */
	size_t item_size;
	size_t max;			  /* of a list; 0: it is one object */
	size_t count_offset, read_offset; /* of a list: size_t and struct fm_fact */
};

/* Ended by one without a key. */
extern const struct fm_facts_section fm_facts_sections[];

/* How many items a section of these facts has; the i-th of them. */
size_t fm_facts_count(const struct fm_facts *facts, const struct fm_facts_section *section);
struct fm_fact *fm_facts_fact(struct fm_facts *facts, const struct fm_facts_section *section,
			      size_t i, const struct fm_facts_row *row);

/* ---- making them ---- */

/* Nothing is known. NULL: no memory. */
struct fm_facts *fm_facts_new(void);

/* NULL is allowed. */
void fm_facts_free(struct fm_facts *facts);

/*
 * One more item of a list that begins at `items`, *count of them; NULL, and counted in left_out: it
 * is full.
 */
void *fm_facts_add(struct fm_facts *facts, const void *items, size_t *count);

/*
 * Each replaces what was there. A text that its kind does not allow, or no memory, makes it
 * unknown.
 */
void fm_fact_number(struct fm_fact *fact, uint64_t n);
void fm_fact_text(struct fm_fact *fact, enum fm_fact_kind kind, const char *text);
void fm_fact_drop(struct fm_fact *fact); /* unknown, without a reason */
void fm_fact_unknown(struct fm_fact *fact, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * What is_personal says is unknown afterwards, and so is why something beside it is unknown: a
 * reason has names in it.
 */
void fm_facts_anonymize(struct fm_facts *facts);

/* ---- reading them ---- */

/* "" and 0 of what is unknown. */
const char *fm_text_of(const struct fm_fact *fact);
const char *fm_shown(const struct fm_fact *fact);	       /* "(not known)" in its place */
bool fm_fact_is(const struct fm_fact *fact, const char *text); /* known, and this text */
bool fm_fact_is_true(const struct fm_fact *fact);
bool fm_fact_is_same(const struct fm_fact *a, const struct fm_fact *b); /* both known, and equal */

/* ---- the document ---- */

/* As a value of another document; key: NULL in an array. */
void fm_facts_put(struct fm_json_writer *w, const char *key, const struct fm_facts *facts);

/* Into buf, terminated. Its length, or -EMSGSIZE. */
int fm_facts_write(const struct fm_facts *facts, char *buf, size_t cap);

/*
 * -EINVAL with the reason: no JSON, no facts, a value that its row does not allow; -EOPNOTSUPP: of
 * a newer version; -E2BIG: longer than FM_FACTS_BYTES_MAX; -ENOMEM. Unknown keys are passed over.
 */
int fm_facts_parse(const char *text, size_t len, struct fm_facts **out, struct fm_err *err);

/* The same of a file. -errno of it. */
int fm_facts_load(const char *path, struct fm_facts **out, struct fm_err *err);

#endif
