/* SPDX-License-Identifier: MIT */
/* options - see options.h. The table and what is looked up in it; values are set in options_set.c,
 * printed in options_print.c. */
#include "config/options.h"

#include <string.h>

#include "config/config.h"
#include "mover/base/env.h"
#include "mover/base/log.h"
#include "mover/base/words.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define AT(member) offsetof(struct fm_config, member)
#define STORE(member) offsetof(struct fm_config_store, member)
#define PEER(member) offsetof(struct fm_config_peer, member)
#define SOCKET(member) offsetof(struct fm_config_socket, member)
#define VOLUME(member) offsetof(struct fm_config_volume, member)

/* Those of transfers stand in base/words.h; a configuration cannot leave it open as their first
 * words do. */
static const char *const mode_words[] = { "0600", "0660", "0666", NULL };
static const char *const find_words[] = { "off", "rdma", "any", NULL };
static const char *const pages_words[] = { "auto", "always", "never", NULL };
static const char *const io_words[] = { "auto", "io_uring", "threads", NULL };
static const char *const layout_words[] = { "files", "hf", NULL };
static const char *const access_words[] = { "sent", "group", NULL };
static const char *const owner_words[] = { "service", "caller", NULL };
static const char *const never_words[] = { "never", NULL };
static const char *const off_words[] = { "off", NULL };
static const char *const auto_words[] = { "auto", NULL };
static const char *const iopolicy_words[] = { "numa", "round-robin", "queue-depth", NULL };
static const char *const volume_mode_words[] = { "exclusive", "read-only", "shared-read", NULL };

/* clang-format off */
/* A row: its values, then its help. */
const struct fm_option fm_options[] = {
	{ "node.name", FM_OPTION_NAME, AT(node.name), 0, 0, NULL, NULL, false,
	  "This node's name, as its peers' entries and NODE:STORE/PATH say it; not hf, which "
	  "stands for repositories of Hugging Face" },
	{ "node.listen", FM_OPTION_LISTEN, AT(node.listen), 0, 0, "[::]:7471", NULL, false,
	  "Address and port for peers, over TCP and over RDMA; an empty host is every address, "
	  "port 0 any free one" },
	{ "node.address", FM_OPTION_ADDRESS, AT(node.address), 0, 0, "", NULL, true,
	  "Where other nodes reach this one; it goes into invitations, \"\" lets fmove guess" },
	{ "node.key_file", FM_OPTION_FILE, AT(node.key_file), 0, 0, "node.key", NULL, false,
	  "This node's private key (see fmove keygen), readable by its owner only; relative to "
	  "this file's directory" },
	{ "node.socket", FM_OPTION_SOCKET, AT(node.socket), 0, 0, "/run/fmove/fmoved.sock", NULL,
	  false,
	  "The UNIX socket where fmove finds this daemon" },
	{ "node.socket_mode", FM_OPTION_CHOICE, AT(node.socket_mode), 0, 0, "0660", mode_words,
	  false,
	  "Who may use that socket: the daemon's user, its group too, everybody; each with their "
	  "own rights to files" },
	{ "node.socket_group", FM_OPTION_GROUP, AT(node.socket_group), 0, 0, "", NULL, false,
	  "The socket's group; \"\": the daemon's" },
	{ "node.state_directory", FM_OPTION_DIRECTORY, AT(node.state_directory), 0, 0,
	  "/var/lib/fmove", NULL, false,
	  "Where jobs are written down that go on without their caller (put --detach), in a "
	  "directory of its own, jobs; \"null:\": there are none" },
	{ "node.show_facts", FM_OPTION_BOOL, AT(node.show_facts), 0, 0, "true", NULL, true,
	  "Whether peers are told the facts of this node (fmove-facts(5)): its devices, addresses, "
	  "routes, limits and names of stores, as fmove doctor and fmove topology of theirs ask "
	  "for them; never keys or tokens. If not, theirs say that they are told none" },
	{ "node.find", FM_OPTION_CHOICE, AT(node.find), 0, 0, "rdma", find_words, false,
	  "On which ports fmove join --find of another machine finds this node, while an "
	  "invitation is open: those of RDMA devices, or any. It is told the node's name and "
	  "port, over UDP port 7471; off: nothing listens there" },
	{ "node.log_level", FM_OPTION_CHOICE, AT(node.log_level), 0, 0, "info", fm_log_level_names,
	  true,
	  "How much is written to the log" },

	{ "memory.arena", FM_OPTION_SIZE, AT(memory.arena_bytes), 1 * MIB, 1 * TIB, "256MiB", NULL,
	  false,
	  "Memory that transfers go through, allocated at start; a multiple of slab, if that is "
	  "set, and at most 1048576 slabs" },
	{ "memory.total", FM_OPTION_SIZE, AT(memory.total_bytes), 64 * MIB, 2 * TIB, "512MiB", NULL,
	  false,
	  "What the whole daemon may use, arena included. 48 MiB beside the arena are set aside; "
	  "who asks for more than the rest is refused" },
	{ "memory.buffers", FM_OPTION_SIZE, AT(memory.buffer_bytes), 1 * MIB, 2 * TIB, "4GiB", NULL,
	  false,
	  "Memory of local callers that this daemon maps, for transfers from and to it "
	  "(fmove_buffer_alloc()). It is theirs, and not of memory.total; a part is kept for "
	  "root, and one user has at most seven eighths of what is free. Four times as much may be "
	  "locked for RDMA, since a buffer counts for each peer and device" },
	{ "memory.slab", FM_OPTION_SIZE, AT(memory.slab_bytes), 64 * KIB, 1 * GIB, "auto",
	  auto_words, false,
	  "The piece of the arena that is lent to one connection; 1 to 64 chunks. auto: 4 to 8 "
	  "MiB, so that the connections to two peers have one each" },
	{ "memory.huge_pages", FM_OPTION_CHOICE, AT(memory.huge_pages), 0, 0, "auto", pages_words,
	  false,
	  "Whether the arena is made of reserved huge pages; auto: if there are enough" },

	{ "mover.lanes", FM_OPTION_UINT, AT(mover.lanes), 0, 16, "0", NULL, false,
	  "Threads that move data; 0: one for each processor that this service may use, 2 to 16" },
	{ "mover.chunk", FM_OPTION_POWER, AT(mover.chunk_bytes), 4 * KIB, 64 * MIB, "auto",
	  auto_words, false,
	  "Bytes that are read, checked, sent and written at once; auto: 1 MiB, less if the arena "
	  "or the slab is small" },
	{ "mover.transports", FM_OPTION_SET, AT(mover.transports), 0, 0, "rdma tcp",
	  fm_words_transport + 1, false,
	  "The transports that may be used; with both, RDMA wherever it works" },
	{ "mover.rdma_conns", FM_OPTION_UINT, AT(mover.rdma_conns), 0, 8, "0", NULL, false,
	  "Queue pairs per rail, of the numbers of two nodes the smaller one; 0: 2 to 8, by lanes "
	  "and slabs" },
	{ "mover.tcp_conns", FM_OPTION_UINT, AT(mover.tcp_conns), 0, 16, "0", NULL, false,
	  "TCP connections per rail, of the numbers of two nodes the smaller one; 0: 2 to 16, one "
	  "a lane if rails, memory and peers allow it, and over a slow link one for each 5 Gb/s" },
	{ "mover.dscp", FM_OPTION_UINT, AT(mover.dscp), 0, 63, "0", NULL, false,
	  "Differentiated services code point of data connections, RDMA and TCP" },
	{ "mover.rate_limit", FM_OPTION_RATE, AT(mover.rate_bytes), 1 * MIB, 1 * TIB, "0", NULL,
	  true,
	  "What this node sends at most, over all transfers" },
	{ "mover.stall_timeout", FM_OPTION_TIME, AT(mover.stall_ns), 2 * FM_NS_PER_S,
	  600 * FM_NS_PER_S, "10s", NULL,
	  false,
	  "A peer that is silent for this long is lost" },
	{ "mover.io", FM_OPTION_CHOICE, AT(mover.io), 0, 0, "auto", io_words, false,
	  "How files are read and written; auto: io_uring, or threads where it is refused" },
	{ "mover.private_networks", FM_OPTION_NETWORKS, AT(mover.private_networks), 0,
	  FM_CONFIG_NETWORKS_MAX, "", NULL, true,
	  "Networks whose cables and switches nobody else can reach: TCP data goes over one "
	  "unencrypted, for speed, if the peer's configuration names it too. Everywhere else TCP "
	  "is TLS" },

	{ "jobs.running", FM_OPTION_UINT, AT(jobs.running), 1, FM_CONFIG_RUNNING_MAX, "16", NULL,
	  true,
	  "Transfers of local callers that run at once; others wait. An eighth of the places is "
	  "not for one user alone" },

	{ "staging.directory", FM_OPTION_DIRECTORY, AT(staging.directory), 0, 0, "null:", NULL,
	  false,
	  "Where this node keeps what is staged (fmove-cache(5)): an empty directory on a local "
	  "disk, outside of stores and state_directory, which fmoved's user must own and nobody "
	  "else may write to; fmoved makes it if it may: else install -d -o fmove -m 711 "
	  "DIRECTORY. \"null:\": this node stages nothing" },
	{ "staging.size", FM_OPTION_SIZE, AT(staging.size_bytes), 1 * MIB, 8192 * TIB, "100GiB",
	  NULL, false,
	  "What all datasets may take together, by the sizes of their files with holes; what "
	  "others leave free on the file system bounds it, too" },
	{ "staging.high", FM_OPTION_UINT, AT(staging.high), 1, 100, "90", NULL, false,
	  "Percent of size: when datasets take more, those go that nobody holds, pins or has "
	  "open" },
	{ "staging.low", FM_OPTION_UINT, AT(staging.low), 0, 100, "75", NULL, false,
	  "Percent of size: so much they take at most, when enough have gone" },
	{ "staging.grace", FM_OPTION_TIME, AT(staging.grace_ns), 0, 366 * 24 * 3600 * FM_NS_PER_S,
	  "1h", NULL, false,
	  "A dataset stays for so long after each fmove stage of it, whoever holds it; what came "
	  "of one, after its fetch was interrupted" },
	{ "staging.settle", FM_OPTION_TIME, AT(staging.settle_ns), FM_NS_PER_S / 10,
	  60 * FM_NS_PER_S, "1s", NULL, false,
	  "A run of several nodes reads nothing before all connected nodes have said what they "
	  "have, and waits at most so long for that. Who asks later takes from the others what "
	  "they have. The value of the node that coordinates the run counts" },
	{ "staging.upload_slots", FM_OPTION_UINT, AT(staging.upload_slots), 1,
	  FM_CONFIG_UPLOAD_SLOTS_MAX, "4", NULL, false,
	  "Parts of a dataset, of up to 32 MiB, that this node reads from its disk and sends to "
	  "others at once in one run of several nodes; fewer leave more to what else runs here. "
	  "What it has in memory just then it sends besides" },
	{ "staging.user_quota", FM_OPTION_SIZE, AT(staging.user_quota_bytes), 0, 8192 * TIB, "0",
	  NULL, false,
	  "How much one user may hold and pin; what would be more is not fetched for him. What "
	  "is fetched for him just now counts for what he asks for next, and what interrupted "
	  "fetches of his left goes if that were too much: each node that asks in his name has "
	  "its own of these. What is ready and nobody holds or pins counts for nobody, also if "
	  "he staged it. What "
	  "several need counts in full for each of them, and 4 KiB for each file and directory. "
	  "What other nodes hold and pin in his name is counted separately: together with what "
	  "he has here it may not be more than this, and it leaves what he may have here as it "
	  "is. That goes for their root, too. 0: no limit" },
	{ "staging.peers", FM_OPTION_NODES, AT(staging.peers), 0, FM_CONFIG_NODES_MAX, "", NULL,
	  false,
	  "Nodes that may have this node stage what they name (fmove stage --nodes), and that it "
	  "shares the reading of a source with; each of them needs the others in its own list. "
	  "What one of them says it read is taken for the source's bytes, and each may read "
	  "copies here of what is in other nodes' stores, whose rules this node does not know: "
	  "name those that you trust, and that may have what this node has. \"*\": all peers" },

	{ "metrics.listen", FM_OPTION_SERVE, AT(metrics.listen), 0, 0, "", NULL, false,
	  "Where fmoved serves what it counts, for Prometheus (fmove-metrics(7)), as /metrics over "
	  "HTTP: an address of this machine and a port, \"127.0.0.1:7472\" for instance, or a "
	  "UNIX socket, \"unix:/run/fmove/metrics.sock\", which fmoved's user and root may use, "
	  "and from Linux 6.16 on its group. Whoever reaches it reads the names and addresses of "
	  "peers; \"\": nowhere" },

	/* fmove-nvmed's; fmoved takes no notice, nor of the volumes below. */
	{ "nvme.host_nqn", FM_OPTION_NQN, AT(nvme.host_nqn), 0, 0, "", NULL, false,
	  "The name under which this node connects to targets; \"\": what host_nqn_file says" },
	{ "nvme.host_id", FM_OPTION_UUID, AT(nvme.host_id), 0, 0, "", NULL, false,
	  "The UUID that goes with it; \"\": the one in the name, or what host_id_file says" },
	{ "nvme.host_nqn_file", FM_OPTION_FILE, AT(nvme.host_nqn_file), 0, 0, "/etc/nvme/hostnqn",
	  NULL, false,
	  "The file that other NVMe tools keep the name in" },
	{ "nvme.host_id_file", FM_OPTION_FILE, AT(nvme.host_id_file), 0, 0, "/etc/nvme/hostid",
	  NULL, false,
	  "The file that they keep the UUID in" },
	{ "nvme.socket", FM_OPTION_SOCKET, AT(nvme.socket), 0, 0, "/run/fmove-nvmed/nvmed.sock",
	  NULL, false,
	  "The UNIX socket where fmove nvme finds fmove-nvmed" },
	{ "nvme.socket_mode", FM_OPTION_CHOICE, AT(nvme.socket_mode), 0, 0, "0660", mode_words,
	  false,
	  "Who may use that socket: root, its group too, everybody" },
	{ "nvme.socket_group", FM_OPTION_GROUP, AT(nvme.socket_group), 0, 0, "", NULL, false,
	  "The socket's group; \"\": root's" },
	{ "nvme.state_directory", FM_OPTION_DIRECTORY, AT(nvme.state_directory), 0, 0,
	  "/var/lib/fmove-nvmed", NULL, false,
	  "Where fmove-nvmed remembers what it connected and what it mounted last; \"null:\": "
	  "nowhere" },
	{ "nvme.metrics_listen", FM_OPTION_SERVE, AT(nvme.metrics_listen), 0, 0, "", NULL, false,
	  "Where fmove-nvmed serves what it counts, for Prometheus (fmove-metrics(7)), as "
	  "metrics.listen says of fmoved, and on another port or socket: \"127.0.0.1:7473\", or "
	  "\"unix:/run/fmove-nvmed/metrics.sock\". "
	  "Since fmove-nvmed is root, it should be an address that strangers do not reach; \"\": "
	  "nowhere" },

	{ "stores.name", FM_OPTION_NAME, STORE(name), 0, 0, NULL, NULL, true,
	  "The store's name, as NODE:STORE/PATH says it" },
	{ "stores.directory", FM_OPTION_DIRECTORY, STORE(directory), 0, 0, NULL, NULL, true,
	  "Where its files are; it must exist, and neither hold nor be in what this node keeps for "
	  "itself: its key, peers.d, invites, jobs. \"null:\" forgets what is put there, for "
	  "measuring" },
	{ "stores.read", FM_OPTION_WHO, STORE(read), 0, FM_CONFIG_WHO_MAX, "*", NULL, true,
	  "Who may read. Users, groups and \"*\" count for staged copies, too (fmove-cache(5))" },
	{ "stores.write", FM_OPTION_WHO, STORE(write), 0, FM_CONFIG_WHO_MAX, "*", NULL, true,
	  "Who may write and remove" },
	{ "stores.durability", FM_OPTION_CHOICE, STORE(durability), 0, 0, "disk",
	  fm_words_durability + 1, true,
	  "When a put is done: on disk, or as soon as it is checked and written" },
	{ "stores.replace", FM_OPTION_BOOL, STORE(may_replace), 0, 0, "false", NULL, true,
	  "Whether an existing file may be replaced without --force" },
	{ "stores.owner", FM_OPTION_CHOICE, STORE(owner), 0, 0, "service", owner_words, true,
	  "Who owns what is new: the daemon's user, or the caller as the peer names it (needs "
	  "CAP_CHOWN); what root sends as a tree keeps its owners" },
	{ "stores.access", FM_OPTION_CHOICE, STORE(access), 0, 0, "sent", access_words, true,
	  "Who may read what is new: whom the modes that it was sent with let, or the group of the "
	  "store's directory besides, wherever the owner may. For that group the directory must "
	  "have its set-group-ID bit and the daemon's user must be a member; not with owner = "
	  "\"caller\"" },
	{ "stores.quota", FM_OPTION_SIZE, STORE(quota_bytes), 0, 8192 * TIB, "0", NULL, true,
	  "What the store may hold: the sizes of its files with their holes (apparent, not "
	  "allocated), what running transfers promised, and replaced versions as long as they are "
	  "kept; 0: as much as the file system has room for. What is in a directory that fmoved "
	  "may not read (another user's, closed to others) is left out when it counts anew: the "
	  "log says where" },
	{ "stores.partial_keep", FM_OPTION_TIME, STORE(partial_keep_ns), 1 * FM_NS_PER_S,
	  366 * 24 * 3600 * FM_NS_PER_S,
	  "168h", NULL, true,
	  "How long what an interrupted transfer left waits for the same command to go on with it; "
	  "looked at every hour" },
	{ "stores.group_keep", FM_OPTION_TIME, STORE(group_keep_ns), 1 * FM_NS_PER_S,
	  366 * 24 * 3600 * FM_NS_PER_S, "24h", NULL, true,
	  "How long a publication group that was begun and not committed is kept at most, with "
	  "what came of it; looked at every hour" },
	{ "stores.group_limit", FM_OPTION_UINT, STORE(group_limit), 1, 65536, "1024", NULL, true,
	  "How many publication groups one user may have open in it, whichever nodes he begins "
	  "them from; until a started daemon has looked through the store, what was open before "
	  "does not count, and more can be begun" },
	{ "stores.old_keep", FM_OPTION_TIME, STORE(old_keep_ns), 0, 366 * 24 * 3600 * FM_NS_PER_S,
	  "10min", NULL, true,
	  "How long a directory that was replaced is kept, for who still reads it; looked at every "
	  "hour. 0: not at all" },
	{ "stores.layout", FM_OPTION_CHOICE, STORE(layout), 0, 0, "files", layout_words, true,
	  "What is in it: files; or a hub cache of Hugging Face (its hub directory, with "
	  "models--ORG--NAME and the like in it), for fmove stage hf:ORG/NAME" },
	{ "stores.shared", FM_OPTION_NAME, STORE(shared), 0, 0, "", NULL, true,
	  "An ID for what several nodes see alike, as NFS or a parallel file system: the stores "
	  "that have it, one on each of those nodes, are one source for fmove stage, and all of "
	  "them read parts of "
	  "it. \"\": only this node has it" },
	{ "stores.volume", FM_OPTION_NAME, STORE(volume), 0, 0, "", NULL, true,
	  "The volume, of volumes below, that this store is: directory must be its mount, "
	  "shared must be left out, and no other store may name it. The store is there while "
	  "fmove-nvmed has it mounted; fmoved lets go of it before an unmount. While the volume "
	  "is sealed, the stores of all nodes that have mounted this seal are one source for "
	  "fmove stage, if the namespace has a UUID, NGUID or EUI-64; each of these nodes must "
	  "have the others in staging.peers. \"\": it is no volume" },
	{ "stores.buffered", FM_OPTION_BOOL, STORE(is_buffered), 0, 0, "false", NULL, true,
	  "Never use O_DIRECT" },

	{ "peers.name", FM_OPTION_NAME, PEER(name), 0, 0, NULL, NULL, true,
	  "The peer's name, the node.name of its own configuration" },
	{ "peers.address", FM_OPTION_ADDRESS, PEER(address), 0, 0, "", NULL, true,
	  "Where to reach it; \"\": it dials this node" },
	{ "peers.addresses", FM_OPTION_ADDRESSES, PEER(addresses), 0, FM_CONFIG_PEER_ADDRESSES_MAX,
	  "", NULL, true,
	  "Further addresses of it, over other cables, tried in turn; those it says itself when it "
	  "is connected are tried too" },
	{ "peers.key", FM_OPTION_KEY, PEER(key), 0, 0, NULL, NULL, true,
	  "Its public key: what fmove keygen printed there" },
	{ "peers.bench", FM_OPTION_BOOL, PEER(may_bench), 0, 0, "false", NULL, true,
	  "Whether it may measure with this node (fmove bench): send what is forgotten, receive "
	  "what is made up, and be told what this node's processors did. It takes no space; "
	  "mover.rate_limit limits what this node sends" },

	{ "sockets.path", FM_OPTION_SOCKET, SOCKET(path), 0, 0, NULL, NULL, true,
	  "Where it is; its directory, which is made, and those on the way there must be root's or "
	  "the daemon's, and nobody else may write to them; no link leads there" },
	{ "sockets.user", FM_OPTION_USER, SOCKET(user), 0, 0, NULL, NULL, true,
	  "Whose rights all have who connect there, whatever the kernel says of them" },
	{ "sockets.mode", FM_OPTION_CHOICE, SOCKET(mode), 0, 0, "0660", mode_words, true,
	  "Who may connect: the daemon's user, the group too, everybody; in a container its root "
	  "always" },
	{ "sockets.group", FM_OPTION_GROUP, SOCKET(group), 0, 0, "", NULL, true,
	  "The socket's group, of which the daemon's user must be a member; \"\": the daemon's" },

	{ "volumes.name", FM_OPTION_NAME, VOLUME(name), 0, 0, NULL, NULL, true,
	  "The volume's name, as fmove nvme and the units fmove-nvme@NAME say it; the same on "
	  "every node" },
	{ "volumes.subsystem", FM_OPTION_NQN, VOLUME(subsystem), 0, 0, NULL, NULL, true,
	  "What its target calls it: an NQN, or on RouterOS the name of the slot" },
	{ "volumes.address", FM_OPTION_ADDRESS, VOLUME(address), 0, 0, "", NULL, true,
	  "Where the target is, port 4420 as a rule; used even if the target advertises another "
	  "address" },
	{ "volumes.discovery", FM_OPTION_ADDRESS, VOLUME(discovery), 0, 0, "", NULL, true,
	  "Instead of address: a discovery controller, port 8009 or 4420 as a rule, that is asked "
	  "for the addresses" },
	{ "volumes.paths", FM_OPTION_ADDRESSES, VOLUME(paths), 0, FM_CONFIG_PATHS_MAX, "", NULL,
	  true,
	  "Further addresses of the same kind; the kernel uses all paths that it has" },
	{ "volumes.host_address", FM_OPTION_IP, VOLUME(host_address), 0, 0, "", NULL, true,
	  "This node's address to connect from; \"\": the kernel's choice" },
	{ "volumes.interface", FM_OPTION_WORD, VOLUME(host_interface), 0, 15, "", NULL, true,
	  "The network interface to connect through; \"\": the kernel's choice" },
	{ "volumes.queues", FM_OPTION_UINT, VOLUME(queues), 0, 128, "0", NULL, true,
	  "I/O queues, each a TCP connection; 0: as many as cores, at most 8" },
	{ "volumes.queue_size", FM_OPTION_UINT, VOLUME(queue_size), 16, 1024, "128", NULL, true,
	  "Requests in flight in each queue" },
	{ "volumes.keep_alive", FM_OPTION_SECONDS, VOLUME(keep_alive_s), 1, 3600, "5s", NULL, true,
	  "How fast a silent loss is noticed" },
	{ "volumes.reconnect_delay", FM_OPTION_SECONDS, VOLUME(reconnect_delay_s), 1, 3600, "2s",
	  NULL, true,
	  "How long the kernel waits between its attempts to connect again" },
	{ "volumes.ctrl_loss_timeout", FM_OPTION_SECONDS, VOLUME(ctrl_loss_s), 1, 7 * 24 * 3600,
	  "never", never_words, true,
	  "When the kernel gives up and takes the device away; fmove-nvmed makes it anew" },
	{ "volumes.fast_io_fail", FM_OPTION_SECONDS, VOLUME(fast_io_fail_s), 1, 7 * 24 * 3600,
	  "off", off_words, true,
	  "When reads and writes fail during a loss, instead of waiting for its end" },
	{ "volumes.header_digest", FM_OPTION_BOOL, VOLUME(has_header_digest), 0, 0, "false", NULL,
	  true,
	  "Whether the headers of the connection have a CRC32C" },
	{ "volumes.data_digest", FM_OPTION_BOOL, VOLUME(has_data_digest), 0, 0, "false", NULL, true,
	  "Whether the data have one: it costs processor time at both ends" },
	{ "volumes.secret_file", FM_OPTION_FILE, VOLUME(secret_file), 0, 0, "", NULL, true,
	  "This host's DH-HMAC-CHAP secret, readable by root only; \"\": none" },
	{ "volumes.controller_secret_file", FM_OPTION_FILE, VOLUME(controller_secret_file), 0, 0,
	  "", NULL, true,
	  "The secret by which the target must prove itself in turn; \"\": it need not" },
	{ "volumes.tls", FM_OPTION_BOOL, VOLUME(has_tls), 0, 0, "false", NULL, true,
	  "Whether the connection is TLS; refused where the kernel has none" },
	{ "volumes.iopolicy", FM_OPTION_CHOICE, VOLUME(iopolicy), 0, 0, "numa", iopolicy_words,
	  true,
	  "How the kernel chooses among several paths" },
	{ "volumes.namespace", FM_OPTION_UINT, VOLUME(nsid), 0, INT32_MAX, "0", NULL, true,
	  "The namespace's number in its subsystem; 0: not said. With neither number, uuid nor "
	  "nguid it must be the only one" },
	{ "volumes.uuid", FM_OPTION_UUID, VOLUME(uuid), 0, 0, "", NULL, true,
	  "The namespace's UUID; another one is never mounted" },
	{ "volumes.nguid", FM_OPTION_NGUID, VOLUME(nguid), 0, 0, "", NULL, true,
	  "The same by NGUID" },
	{ "volumes.mount", FM_OPTION_MOUNT_POINT, VOLUME(mount_point), 0, 0, "", NULL, true,
	  "Where it is mounted; \"\": it is connected only" },
	{ "volumes.type", FM_OPTION_WORD, VOLUME(fs_type), 0, 31, "", NULL, true,
	  "Its file system, such as ext4 or xfs; \"\": what is there" },
	{ "volumes.options", FM_OPTION_FLAGS, VOLUME(mount_options), 0, 0, "", NULL, true,
	  "Mount options besides those that mode decides (ro, rw, noload, norecovery)" },
	{ "volumes.mode", FM_OPTION_CHOICE, VOLUME(mode), 0, 0, "exclusive", volume_mode_words,
	  true,
	  "exclusive: writer alone has it; shared-read: writer fills and seals it, the others "
	  "read; read-only: nobody writes" },
	{ "volumes.writer", FM_OPTION_NAME, VOLUME(writer), 0, 0, "", NULL, true,
	  "The node.name of the only node that may write; the same on every node" },
	{ "volumes.nodes", FM_OPTION_NODES, VOLUME(nodes), 0, FM_CONFIG_NODES_MAX, "*", NULL, true,
	  "The nodes that reach it: unless a protection works without them, its writer writes only "
	  "when each has said that it does not; \"*\": every peer that fmoved ever had; [ ]: no "
	  "other node reaches it" },
};
/* clang-format on */

const unsigned fm_option_count = sizeof(fm_options) / sizeof(fm_options[0]);
_Static_assert(sizeof(fm_options) / sizeof(fm_options[0]) <= FM_CONFIG_OPTIONS_MAX,
	       "line_of has a place for each row");

const char *fm_option_name(const struct fm_option *o)
{
	return strchr(o->path, '.') + 1;
}

bool fm_option_is_in(const struct fm_option *o, const char *section)
{
	size_t len = strlen(section);

	return strncmp(o->path, section, len) == 0 && o->path[len] == '.';
}

bool fm_option_are_equal(const char *section, const void *a, const void *b)
{
	for (unsigned i = 0; i < fm_option_count; i++)
		if (fm_option_is_in(&fm_options[i], section) &&
		    !fm_option_is_equal(&fm_options[i], a, b))
			return false;
	return true;
}

const struct fm_option *fm_option_find(const char *section, const char *name)
{
	for (unsigned i = 0; i < fm_option_count; i++)
		if (fm_option_is_in(&fm_options[i], section) &&
		    strcmp(fm_option_name(&fm_options[i]), name) == 0)
			return &fm_options[i];
	return NULL;
}

#define NEAREST_LEN_MAX 32	/* longer words are not mistyped options */

/* How many letters must be changed, added or taken away: Levenshtein's distance, in one row of its
 * table. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NEAREST_LEN_MAX + 1];
	unsigned len_b = (unsigned)strlen(b);

	for (unsigned j = 0; j <= len_b; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= len_b; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);
			unsigned add = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = change < add ? change : add;
		}
	}
	return row[len_b];
}

const char *fm_option_nearest(const char *section, const char *name)
{
	static const char *const sections[] = {"node",	  "memory", "mover",  "jobs",
					       "staging", "metrics", "nvme",   "stores",
					       "peers",	  "sockets", "volumes"};
	unsigned count = section ? fm_option_count : sizeof(sections) / sizeof(sections[0]);
	const char *best = NULL;
	/* half of it wrong is another word */
	unsigned best_distance = (unsigned)strlen(name) / 2 + 1;

	if (strlen(name) > NEAREST_LEN_MAX)
		return NULL;
	for (unsigned i = 0; i < count; i++) {
		const char *candidate = section ? fm_option_name(&fm_options[i]) : sections[i];
		unsigned d;

		if (section && !fm_option_is_in(&fm_options[i], section))
			continue;
		d = distance(name, candidate);
		if (d < best_distance) {
			best = candidate;
			best_distance = d;
		}
	}
	return best;
}
