/* SPDX-License-Identifier: MIT */
/*
 * config - what a node was told: the values of fmove.conf and of peers.d beside it, checked.
 *
 * Loading answers with a whole, consistent configuration or with one line that names file, line and
 * key and says what is allowed. The table in options.c is the only place that knows an option; this
 * header only gives its value a place. A configuration is plain data: it is owned by whoever loaded
 * it, is never changed afterwards, and opens nothing. Any thread.
 */
#ifndef FM_CONFIG_H
#define FM_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;

#define FM_CONFIG_DIR "/etc/fmove"
#define FM_CONFIG_FILE "fmove.conf"		/* in the configuration's directory */
#define FM_CONFIG_PEERS_DIR "peers.d"		/* beside it: one NAME.conf per peer */
#define FM_CONFIG_JOBS_DIR "jobs"		/* in node.state_directory */
#define FM_CONFIG_BOOK_DIR "peers"		/* likewise: what is known of peers' addresses */
#define FM_CONFIG_INVITES_DIR "invites"		/* beside it: see invite.h */
#define FM_CONFIG_BYTES_MAX (1u << 20)		/* of one file */
#define FM_CONFIG_DEPTH_MAX 8			/* of nesting; the real thing needs 3 */
#define FM_CONFIG_STORES_MAX 64			/* with the one of FM_CONFIG_BENCH_STORE */
/* of the peers with bench = true, added by loading; nobody can give this name to another */
#define FM_CONFIG_BENCH_STORE ".bench"
#define FM_CONFIG_PEERS_MAX 256
#define FM_CONFIG_PEER_ADDRESSES_MAX 15		/* further ones of one peer */
#define FM_CONFIG_VOLUMES_MAX 256
#define FM_CONFIG_SOCKETS_MAX 64
#define FM_CONFIG_PATHS_MAX 7			/* further addresses of one volume */
#define FM_CONFIG_NODES_MAX 64			/* that share one volume */
#define FM_CONFIG_NETWORKS_MAX 32		/* of mover.private_networks */
#define FM_CONFIG_RUNNING_MAX 64		/* of jobs.running */
#define FM_CONFIG_UPLOAD_SLOTS_MAX 16		/* of staging.upload_slots */
#define FM_CONFIG_WHO_MAX 64			/* entries of one read or write list */
#define FM_CONFIG_KEY_LEN 32			/* an Ed25519 public key */
#define FM_CONFIG_OPTIONS_MAX 128		/* rows of the table */

enum fm_config_log {
	FM_CONFIG_LOG_ERROR,
	FM_CONFIG_LOG_WARN,
	FM_CONFIG_LOG_INFO,
	FM_CONFIG_LOG_DEBUG
};
enum fm_config_mode { FM_CONFIG_MODE_0600, FM_CONFIG_MODE_0660, FM_CONFIG_MODE_0666 };
enum fm_config_pages { FM_CONFIG_PAGES_AUTO, FM_CONFIG_PAGES_ALWAYS, FM_CONFIG_PAGES_NEVER };
enum fm_config_io { FM_CONFIG_IO_AUTO, FM_CONFIG_IO_URING, FM_CONFIG_IO_THREADS };
enum fm_config_durability { FM_CONFIG_DURABLE_DISK, FM_CONFIG_DURABLE_MEMORY };
enum fm_config_layout { FM_CONFIG_LAYOUT_FILES, FM_CONFIG_LAYOUT_HF };
enum fm_config_access { FM_CONFIG_ACCESS_SENT, FM_CONFIG_ACCESS_GROUP };
enum fm_config_owner { FM_CONFIG_OWNER_SERVICE, FM_CONFIG_OWNER_CALLER };

enum fm_config_iopolicy {
	FM_CONFIG_IOPOLICY_NUMA,
	FM_CONFIG_IOPOLICY_ROUND_ROBIN,
	FM_CONFIG_IOPOLICY_QUEUE_DEPTH
};
enum fm_config_volume_mode {
	FM_CONFIG_VOLUME_EXCLUSIVE,
	FM_CONFIG_VOLUME_READ_ONLY,
	FM_CONFIG_VOLUME_SHARED_READ
};

#define FM_CONFIG_NEVER (-1)			/* seconds that were said as "never" or "off" */

#define FM_CONFIG_TRANSPORT_RDMA 1u
#define FM_CONFIG_TRANSPORT_TCP 2u

struct fm_config_node {
	char *name;
	char *listen;			/* "[::]:7471" */
	char *address;			/* where others reach us, "" if not said */
	/* absolute, or as relative as the path of the configuration was */
	char *key_file;
	char *socket;
	unsigned socket_mode;		/* enum fm_config_mode */
	char *socket_group;		/* "": the daemon's own */
	char *state_directory;		/* absolute, or "null:": none */
	bool show_facts;		/* to peers */
	unsigned find;			/* enum fm_find_where (mover/join/find_link.h) */
	unsigned log_level;		/* enum fm_config_log */
};

struct fm_config_memory {
	uint64_t arena_bytes;
	uint64_t total_bytes;
	uint64_t buffer_bytes;
	/* these, 0: what suits this machine (mover/node/tuning.h) */
	uint64_t slab_bytes;
	unsigned huge_pages;		/* enum fm_config_pages */
};

struct fm_config_mover {
	unsigned lanes;			/* 0 */
	uint64_t chunk_bytes;		/* 0 */
	unsigned transports;		/* FM_CONFIG_TRANSPORT_* */
	unsigned rdma_conns;		/* 0 */
	unsigned tcp_conns;		/* 0 */
	unsigned dscp;
	uint64_t rate_bytes;		/* a second; 0: no limit */
	uint64_t stall_ns;
	unsigned io;			/* enum fm_config_io */
	/* NULL-terminated, each of which fm_network_parse() takes */
	char **private_networks;
};

struct fm_config_jobs {
	unsigned running;		/* at once */
};

struct fm_config_staging {
	char *directory;		/* absolute, or "null:": this node keeps nothing */
	uint64_t size_bytes;
	unsigned high;			/* percent */
	unsigned low;
	uint64_t grace_ns;
	uint64_t settle_ns;
	unsigned upload_slots;		/* at once, of one run */
	uint64_t user_quota_bytes;	/* 0: none */
	char **peers;			/* NULL-terminated; "*": all */
};

struct fm_config_store {
	char *name;
	char *directory;		/* absolute, or "null:" */
	char **read;			/* NULL-terminated */
	char **write;
	unsigned durability;		/* enum fm_config_durability */
	bool may_replace;
	unsigned owner;			/* enum fm_config_owner */
	unsigned access;		/* enum fm_config_access */
	uint64_t quota_bytes;		/* 0: none */
	uint64_t partial_keep_ns;
	uint64_t group_keep_ns;
	unsigned group_limit;
	uint64_t old_keep_ns;
	bool is_buffered;
	unsigned layout;		/* enum fm_config_layout */
	char *shared;			/* what other nodes call these bytes, too; "": none do */
	char *volume;			/* of `volumes`, whose mount point it is; "": of none */
	char *file;			/* where it stands */
	unsigned line;
};

/* Of the local API, for one user. */
struct fm_config_socket {
	char *path;
	char *user;			/* whose rights all who connect have */
	unsigned mode;			/* enum fm_config_mode */
	char *group;			/* "": the daemon's */
	char *file;
	unsigned line;
};

struct fm_config_peer {
	char *name;
	char *address;			/* "HOST:PORT"; "" when it dials us */
	char **addresses;		/* further ones; NULL-terminated */
	uint8_t key[FM_CONFIG_KEY_LEN];
	bool may_bench;
	char *file;
	unsigned line;
};

struct fm_config_metrics {
	char *listen;			/* "ADDRESS:PORT"; "": nowhere */
};

/* fmove-nvmed's, as the volumes are; fmoved takes no notice of either. */
struct fm_config_nvme {
	char *host_nqn;			/* "": what host_nqn_file says */
	char *host_id;
	char *host_nqn_file;
	char *host_id_file;
	char *socket;
	unsigned socket_mode;		/* enum fm_config_mode */
	char *socket_group;
	char *state_directory;		/* absolute, or "null:": none */
	char *metrics_listen;		/* "ADDRESS:PORT"; "": nowhere */
};

struct fm_config_volume {
	char *name;
	char *subsystem;
	char *address;			/* "HOST:PORT"; either this or discovery, the other is "" */
	char *discovery;
	char **paths;			/* further ones of the same kind; NULL-terminated */
	char *host_address;		/* these two "" if not said */
	char *host_interface;
	unsigned queues;		/* 0: as many as suit this machine */
	unsigned queue_size;
	int keep_alive_s;
	int reconnect_delay_s;
	int ctrl_loss_s;		/* or FM_CONFIG_NEVER */
	int fast_io_fail_s;		/* or FM_CONFIG_NEVER: off */
	bool has_header_digest;
	bool has_data_digest;
	char *secret_file;		/* as node.key_file; "": none */
	char *controller_secret_file;
	bool has_tls;
	unsigned iopolicy;		/* enum fm_config_iopolicy */
	unsigned nsid;			/* 0, "", "": not said */
	char *uuid;			/* lower case */
	char *nguid;			/* 32 digits, lower case */
	char *mount_point;		/* absolute; "": it is connected only */
	char *fs_type;			/* "": what is there */
	char *mount_options;
	unsigned mode;			/* enum fm_config_volume_mode */
	char *writer;			/* "": nobody, or nothing is mounted */
	/* who is to be heard before it is written; NULL-terminated; "*" alone: every peer */
	char **nodes;
	char *file;
	unsigned line;
};

struct fm_config {
	char *file;			/* as it was given */
	char *dir;			/* of the file; peers.d and invites are in there */
	struct fm_config_node node;
	struct fm_config_memory memory;
	struct fm_config_mover mover;
	struct fm_config_jobs jobs;
	struct fm_config_staging staging;
	struct fm_config_metrics metrics;
	struct fm_config_nvme nvme;
	struct fm_config_store *stores;
	unsigned store_count;
	struct fm_config_peer *peers;
	unsigned peer_count;
	struct fm_config_socket *sockets;
	unsigned socket_count;
	struct fm_config_volume *volumes;
	unsigned volume_count;
	/* by row of the table; 0: the default is in force */
	unsigned line_of[FM_CONFIG_OPTIONS_MAX];
	atomic_uint users;		/* besides the first */
};

/* Why that file cannot be opened, code, and what to do. Returns code. */
int fm_config_no_file(const char *file, int code, struct fm_err *err);

/* Read and check a file and the peers.d beside it. -errno of the file, or -EINVAL; err says where
 * and what to do. */
int fm_config_load(const char *file, struct fm_config **out, struct fm_err *err);

/*
 * The same without peers.d, which is not even looked at: it belongs to the user of fmoved, who thus
 * can neither show root a file nor keep from its work what needs no peer.
 */
int fm_config_load_alone(const char *file, struct fm_config **out, struct fm_err *err);

/* A file of peers.d that is not there yet, or not with that text. */
struct fm_config_peer_text {
	const char *name;	/* of the file */
	const char *text;
};

/* What fm_config_load() would say with it: nothing is to be written that no daemon could start
 * with. */
int fm_config_try_peer(const char *file, const struct fm_config_peer_text *peer,
		       struct fm_err *err);

/* The same for text in memory, called `file` in errors; no peers.d. Not necessarily terminated. */
int fm_config_load_string(const char *text, size_t len, const char *file, struct fm_config **out,
			  struct fm_err *err);

/* One more user of it, from one who is. Each calls fm_config_free(), on whatever thread. */
void fm_config_share(struct fm_config *cfg);

/* By the last user. NULL is allowed. */
void fm_config_free(struct fm_config *cfg);

#endif
