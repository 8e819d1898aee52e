/* SPDX-License-Identifier: MIT */
/*
 * wire - the node-to-node protocol, version 17. This header is its specification; fmove-wire(7)
 * says the same for readers.
 *
 * All integers are little-endian. Decoders treat every byte as hostile: length, type, flags, ranges
 * and overflow are checked before a value is used; unknown types and unknown flag bits are refused
 * (-EPROTO), wrong lengths are -EBADMSG, values outside their range -ERANGE. Encoders refuse the
 * same: what a message says may come from others (a caller's tree, a file system), and what was
 * overlooked ends one session, not the process.
 *
 * Control messages travel on the authenticated control connection, each behind a length of its own
 * (transport). Every one begins
 *
 *   off len field
 *     0   2 type     enum fm_wire_type
 *     2   2 flags    bits named per message; others 0
 *
 * A "string" is a 16-bit length and that many bytes, none of them NUL, not necessarily UTF-8. Names
 * of nodes and stores have 1 .. FM_WIRE_NAME_MAX bytes and no '/'; paths 0 .. FM_WIRE_PATH_MAX;
 * texts and notes 0 .. FM_WIRE_TEXT_MAX. Bytes called zero are zero. Behind the last field nothing
 * may follow (HELLO alone ignores what does).
 *
 * A put:  initiator = source                      A get:  initiator = sink
 *   PUT      source -> sink   make room             GET      sink -> source   open it
 *                                                   FOUND    source -> sink   or ABORT
 *   READY    sink -> source   or ABORT              READY    sink -> source   if GET said RESUME or
 *                                                   TREE; else chunks follow FOUND at once
 *   chunks on data connections, each acknowledged when it is checked and written (into a stream:
 * when it is checked) FINISH   source -> sink   sizes and CRC of the whole DONE     sink -> source
 * published (and durable, if asked); or ABORT A sink that says in READY what it has of an earlier
 * try reads that again meanwhile, and tells with KEPT what of it is to be sent after all; FINISH
 * follows the last KEPT. With HOLD in FINISH the sink answers DONE with PREPARED when everything is
 * on the disk but the name; COMMIT from the source then gives it its name, and a second DONE says
 * so. A sink that may stand still (a stream, a file of FUSE, a caller's directory) tells with
 * WINDOW how far the source may go: at once, and again whenever it got rid of some. Either side may
 * send ABORT at any time before DONE; whoever gets it forgets the transfer and answers nothing.
 *
 * A tree (TREE in PUT, GET) is the same with packs (mover/tree/pack.h) as chunks: pack n is chunk
 * n, at offset n * chunk, and may be shorter; size is unknown until FINISH. Its large files are
 * transfers of their own while it runs: PUT with `tree` set, from the source to the sink whoever
 * began it, with an empty store and the path below the tree's root. They end before FINISH of the
 * tree. A sink that was told OFFER by READY's flags answers offering packs with NEED. One that was
 * told NAMES by PUT's says before DONE which names are another now: NAMES, each answered by one
 * without names.
 */
#ifndef FM_WIRE_H
#define FM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_WIRE_MAGIC UINT32_C(0x564f4d46)	/* "FMOV" */
#define FM_WIRE_VERSION 18
#define FM_WIRE_MSG_MAX 65536
#define FM_WIRE_TEXT_MAX 1024
#define FM_WIRE_NAME_MAX 64			/* node and store names */
#define FM_WIRE_PATH_MAX 4095
#define FM_WIRE_ADDRS_MAX 32
#define FM_WIRE_TOKENS_MAX 32
#define FM_WIRE_TOKEN_LEN 16
/* directory entries of one REPLY: 128 * (255 + 40) < FM_WIRE_MSG_MAX */
#define FM_WIRE_ENTRIES_MAX 128
#define FM_WIRE_CHUNK_MIN 4096
#define FM_WIRE_CHUNK_MAX (64u << 20)
#define FM_WIRE_SLOTS_MAX 64			/* slots of one grant */
#define FM_WIRE_RANGES_MAX 2048			/* of one READY: 2048 * 16 < FM_WIRE_MSG_MAX */
/* entries that one NEED answers: FM_TREE_OFFERS_MAX */
#define FM_WIRE_NEED_MAX 1024
#define FM_WIRE_EXCLUDES_MAX 64			/* patterns of one GET */
#define FM_WIRE_EXCLUDE_LEN_MAX 255
#define FM_WIRE_GET_RANGES_MAX 1024		/* of one GET: 1024 * 16 < FM_WIRE_MSG_MAX */
#define FM_WIRE_TO_END UINT64_MAX		/* length of a range of GET: up to the end */
#define FM_WIRE_WAYS_MAX 4			/* of one GET: FM_ONLY_WAYS_MAX */
#define FM_WIRE_ONLY_CONNS_MAX 64		/* of one GET: FM_ONLY_CONNS_MAX */
/* of one VERIFIED: 8 * (4095 + 22) < FM_WIRE_MSG_MAX */
#define FM_WIRE_FINDINGS_MAX 8
/* bytes of the names of one NAMES: FM_TREE_NAMES_LEN */
#define FM_WIRE_NAMES_LEN 16384
/* of one SPACE: 8 * (4095 + 18) < FM_WIRE_MSG_MAX */
#define FM_WIRE_ASIDE_MAX 8
#define FM_WIRE_VOLUMES_MAX 64			/* of one VOLUMES: 64 * 530 < FM_WIRE_MSG_MAX */
/* an NQN, or whatever a target calls its subsystem */
#define FM_WIRE_SUBSYSTEM_MAX 223
#define FM_WIRE_WWID_MAX 159
#define FM_WIRE_GROUP_LEN 16			/* of the ID of a publication group */
#define FM_WIRE_JOB_LEN 8			/* of the id of a job */
/* bytes of the names that one expects: FM_GROUP_EXPECT_MAX */
#define FM_WIRE_EXPECT_MAX 32768
/* of one GROUPS: 4 * (4095 + 64 + 3 * 512 + 50) < FM_WIRE_MSG_MAX */
#define FM_WIRE_GROUPS_MAX 4
#define FM_WIRE_GROUP_NAMES_MAX 512		/* bytes of the names of one kind of members */
#define FM_WIRE_MISSING_MAX (10 + 1 + FM_WIRE_GROUP_NAMES_MAX)	/* bytes: how many, and names */
#define FM_WIRE_EXPIRES_MAX (366u * 24 * 3600)	/* seconds; of a group */
#define FM_WIRE_STAGE_RUN_LEN 32		/* what a staging run is known by */
#define FM_WIRE_STAGE_MAX 32768			/* bytes of the body of one STAGE */
#define FM_WIRE_FACTS_MAX 32768			/* bytes of a document in one FACTS */
#define FM_WIRE_SIZE_UNKNOWN UINT64_MAX
#define FM_WIRE_SIZE_MAX ((uint64_t)INT64_MAX)

enum fm_wire_type {
	FM_WIRE_HELLO = 1,
	FM_WIRE_ADDRS = 2,
	FM_WIRE_TOKENS_WANT = 3,
	FM_WIRE_TOKENS = 4,
	FM_WIRE_PING = 5,
	FM_WIRE_PONG = 6,
	FM_WIRE_PUT = 7,
	FM_WIRE_READY = 8,
	FM_WIRE_GET = 9,
	FM_WIRE_FOUND = 10,
	FM_WIRE_FINISH = 11,
	FM_WIRE_DONE = 12,
	FM_WIRE_ABORT = 13,
	FM_WIRE_REQUEST = 14,
	FM_WIRE_REPLY = 15,
	FM_WIRE_BYE = 16,
	FM_WIRE_NEED = 17,
	FM_WIRE_COMMIT = 18,
	FM_WIRE_VERIFY = 19,
	FM_WIRE_VERIFIED = 20,
	FM_WIRE_VOLUMES_ASK = 21,
	FM_WIRE_VOLUMES = 22,
	FM_WIRE_KEPT = 23,
	FM_WIRE_SPACE = 24,
	FM_WIRE_RECEIVED = 25,
	FM_WIRE_RESUME = 26,
	FM_WIRE_WINDOW = 27,
	FM_WIRE_NAMES = 28,
	FM_WIRE_FACTS_ASK = 29,
	FM_WIRE_FACTS = 30,
	FM_WIRE_STAGE = 31,
	FM_WIRE_GROUPS = 32,
	FM_WIRE_TYPE_LAST = FM_WIRE_GROUPS
};

/* A string inside a message: decoded ones point into the message. Not terminated. */
struct fm_wire_str {
	const char *at;
	size_t len;
};

/*
 * HELLO: first message of either side.
 *   4  4 magic   8  2 version_min   10  2 version_max   12 16 boot_id   28 - name (string, 1 ..
 *                                                       FM_WIRE_NAME_MAX)
 *   - 8 session   2 tcp_conns   2 rdma_conns: all three may be missing, which means 0
 * The highest version that both know is spoken; without one the connection ends with BYE. What is
 * behind the last field is ignored, so that later versions can add to it. session: what the dialler
 * calls this session in RESUME; of the acceptor anything but 0. 0: the sender knows neither
 * RECEIVED nor RESUME.
 */
struct fm_wire_hello {
	uint16_t version_min;
	uint16_t version_max;
	/* random at start: tells a restarted node from a second connection */
	uint8_t boot_id[16];
	struct fm_wire_str name;
	uint64_t session;
	/* what the sender has at most on one rail; 0: it does not say */
	uint16_t tcp_conns;
	uint16_t rdma_conns;
};

/*
 * RECEIVED: 4 8 count.  RESUME: 4 8 session   12 8 count   20 8 order
 * A session outlives the connection that carries it: when a cable is cut, its dialler connects
 * anew, over another one, and says RESUME in place of HELLO; the acceptor answers with RESUME.
 * Count is how many messages the sender has had of this session, HELLO, PING, PONG, BYE, RECEIVED
 * and RESUME not counted; behind RESUME either side sends again what came after. RECEIVED says from
 * time to time what need not be kept for that. The dialler closes the old connection behind the
 * answer: a peer that was only slow would take its end for the session's. Order is the dialler's,
 * one more with each RESUME, 1 the first, and the same in the answer: one that is read behind a
 * later one is refused with BYE.
 */
struct fm_wire_resume {
	uint64_t session;		/* RESUME */
	uint64_t count;
	uint64_t order;			/* RESUME */
};

/*
 * ADDRS: where data connections can be made to the sender. At the begin of a session, and again
 * when they change. 4  2 tcp_port (0: none)   6  2 rdma_port (0: none)   8  2 count   10 - per
 * address: +0 1 family (4, 6)   +1 1 prefix_len   +2 1 is_rdma (0, 1)   +3 1 private_bits   +4 4
 *                                          speed_mbps   +8 16 address (IPv4: first 4, rest 0)
 *   +24 - name (string, at most 31)
 * private_bits: the sender takes plain TCP data there from addresses that share so many bits with
 * this one; 0: TLS only.
 */
struct fm_wire_addr {
	uint8_t family;
	uint8_t prefix_len;
	uint8_t is_rdma;
	uint8_t private_bits;
	uint32_t speed_mbps;
	uint8_t address[16];
	char name[32];
};

struct fm_wire_addrs {
	uint16_t tcp_port;
	uint16_t rdma_port;
	uint16_t count;
	struct fm_wire_addr addr[FM_WIRE_ADDRS_MAX];
};

/*
 * TOKENS_WANT: 4 2 count (1 .. FM_WIRE_TOKENS_MAX).  TOKENS: 4 2 count, 6 16*count tokens; each
 * good once, for 30 s.
 */
struct fm_wire_tokens {
	uint16_t count;
	uint8_t token[FM_WIRE_TOKENS_MAX][FM_WIRE_TOKEN_LEN];
};

/* PING, PONG: 4 8 nonce, echoed. */
struct fm_wire_ping {
	uint64_t nonce;
};

/* Durability asked for. */
enum fm_wire_durability {
	FM_WIRE_DURABLE_DEFAULT = 0,
	FM_WIRE_DURABLE_DISK = 1,
	FM_WIRE_DURABLE_MEMORY = 2
};

/* flags of PUT: an existing file (tree; of an update, entry of another kind) may be replaced */
#define FM_WIRE_PUT_REPLACE 1u
#define FM_WIRE_PUT_DENSE 2u		/* the source has no holes */
#define FM_WIRE_PUT_TREE 4u		/* a directory; size is unknown, mode and mtime are 0 */
/* tree: send what differs from the version that is replaced ... */
#define FM_WIRE_PUT_UPDATE 8u
#define FM_WIRE_PUT_CHECKSUM 16u	/* ... by content, not by size and mtime */
#define FM_WIRE_PUT_DRY 32u		/* tree: say what would be sent, change nothing */
#define FM_WIRE_PUT_READBACK 64u	/* read every chunk back after it was written and compare */
/* update of a tree: what only the version there has goes; else it is kept */
#define FM_WIRE_PUT_DELETE 128u
#define FM_WIRE_PUT_NAMES 256u		/* tree: NAMES before DONE */
#define FM_WIRE_PUT_GROUP 512u		/* a member of the group of that ID, which is at the end */
#define FM_WIRE_PUT_JOB 1024u		/* the id of the initiator's job is at the end, for logs */
#define FM_WIRE_PUT_FLAGS 2047u

/*
 * PUT
 *   4  8 xfer    the initiator's number, not 0; the top bit is set if the initiator accepted the
 *                control connection
 *  12  8 size    or SIZE_UNKNOWN; TREE: what its files take at least, or SIZE_UNKNOWN   20  4 chunk
 *                bytes of a whole chunk; a power of two
 *  24  4 mode    permission bits        28  8 mtime_ns
 *  36  4 uid  40  4 gid   of the caller at the source, as the peer says
 *  44  1 durability   45 3 zero
 *  48  8 tree    0; or the tree, by its number, that this large file belongs to: store is empty
 *                then
 *  56  8 dev  64  8 ino  72  8 ctime_ns   what tells the source from any other, with size and
 *                                         mtime; all 0: nothing
 *                does (a pipe), no resume
 *  80  - store (string)   - path (string)   - with GROUP: 16 group   - with JOB: 8 job (a-z, 2-7)
 */
struct fm_wire_put {
	uint16_t flags;
	uint64_t xfer;
	uint64_t size;
	uint32_t chunk;
	uint32_t mode;
	int64_t mtime_ns;
	uint32_t uid;
	uint32_t gid;
	uint8_t durability;
	uint64_t tree;
	uint64_t dev;
	uint64_t ino;
	int64_t ctime_ns;
	struct fm_wire_str store;
	struct fm_wire_str path;
	uint8_t group[FM_WIRE_GROUP_LEN];	/* GROUP; else 0 */
	char job[FM_WIRE_JOB_LEN];		/* JOB; else 0 */
};

#define FM_WIRE_READY_DURABLE 1u	/* flags of READY: DONE will mean on disk */
#define FM_WIRE_READY_OFFER 2u		/* tree: offer files first */
#define FM_WIRE_READY_OWNERS 4u		/* tree: send owners, extended attributes, ACLs */
#define FM_WIRE_READY_CHECKSUM 8u	/* tree: offers carry the CRC32C of the content */
#define FM_WIRE_READY_DRY 16u		/* tree: offer, and send nothing */
/* WINDOW says how far the source may go: the sink may stand still (a large file of a tree) */
#define FM_WIRE_READY_WINDOW 32u
#define FM_WIRE_READY_FLAGS 63u

/*
 * READY: 4 8 xfer   12 4 chunk (what PUT said, or less: no chunk may be larger)   16 4 have_crc
 *                   20 2 count   22 2 zero
 *   24 - per range of the file that is there from an earlier try: 8 offset, 8 len   - note (string,
 * may be empty: "buffered: ...") Ranges are sorted, do not touch, and begin at multiples of 4096;
 * they are not sent again. have_crc: the xor of their contributions to the CRC of the whole
 * (base/crc32c.h). With ranges, KEPT follows, once or more often.
 */
struct fm_wire_range {
	uint64_t offset;
	uint64_t len;
};

#define FM_WIRE_RANGE_LEN 16		/* bytes of one in a message */

struct fm_wire_ready {
	uint16_t flags;
	uint64_t xfer;
	uint32_t chunk;
	uint32_t have_crc;
	uint16_t count;
	/* count ranges as they are in the message; NULL if count is 0 */
	const uint8_t *have;
	struct fm_wire_str note;
};

/* flags of GET: the sink is a stream: chunks without holes, numbered in order */
#define FM_WIRE_GET_ORDERED 1u
/* kinds of connection that may be used; both bits clear is refused (-EPROTO) */
#define FM_WIRE_GET_TCP 2u
#define FM_WIRE_GET_RDMA 4u
/* wait for READY: what is there of it, and its room, are looked at first */
#define FM_WIRE_GET_RESUME 8u
#define FM_WIRE_GET_TREE 16u		/* a directory; wait for READY */
/* also what is not what the digest kept with it says; else the source ends it (-EBADMSG) */
#define FM_WIRE_GET_ACCEPT_CORRUPT 32u
/* WINDOW says how far the source may go: the sink may stand still. With ORDERED it always does */
#define FM_WIRE_GET_WINDOW 64u
/* ranges: blocks of the digest kept with the file that they cover in part are compared, too */
#define FM_WIRE_GET_VERIFY 128u
/* no tree and no ranges: only some connections may carry it, which are named at the end */
#define FM_WIRE_GET_ONLY 256u
#define FM_WIRE_GET_JOB 512u		/* as in PUT */
#define FM_WIRE_GET_FLAGS 1023u

/* From an address of the source to one of the sink. */
struct fm_wire_way {
	uint8_t family;			/* 4, 6 */
	uint8_t source[16];		/* IPv4: first 4, rest 0 */
	uint8_t sink[16];
};

/*
 * GET: 4 8 xfer   12 4 chunk   16 8 rate_bytes (a second; 0: no limit)   24 4 uid   28 4 gid   32 2
 *                              count (tree)   34 2 ranges (no tree)
 *   36 - store   - path   - per pattern of what not to send: string (1 .. FM_WIRE_EXCLUDE_LEN_MAX)
 *   - per range: 8 offset, 8 len (TO_END: up to the end of the file)
 *   - if flag ONLY: 1 conns (at once; 0: all)   1 ways (0: any; not both are 0), per way: 1 family
 *     (4, 6), 16 address of the source, 16 address of the sink (IPv4: first 4, rest 0)
 *   - with JOB: 8 job (as in PUT)
 * With ranges (1 .. FM_WIRE_GET_RANGES_MAX; 0: the whole file) the file that is sent is these, one
 * after the other, in any order, also of length 0 or twice. FOUND has the sum of their lengths.
 */
struct fm_wire_get {
	uint16_t flags;
	uint64_t xfer;
	uint32_t chunk;
	uint64_t rate_bytes;
	uint32_t uid;
	uint32_t gid;
	uint16_t count;
	struct fm_wire_str store;
	struct fm_wire_str path;
	struct fm_wire_str exclude[FM_WIRE_EXCLUDES_MAX];
	uint16_t range_count;
	/* range_count ranges as they are in the message; NULL if that is 0 */
	const uint8_t *ranges;
	uint8_t conns;
	uint8_t way_count;
	struct fm_wire_way way[FM_WIRE_WAYS_MAX];
	char job[FM_WIRE_JOB_LEN];	/* JOB; else 0 */
};

#define FM_WIRE_FOUND_DENSE 1u
#define FM_WIRE_FOUND_FLAGS 1u

/*
 * FOUND: 4 8 xfer   12 8 size (tree: what its files take at least, or SIZE_UNKNOWN)   20 4 mode
 *                   24 8 mtime_ns   32 8 dev   40 8 ino
 *   48 8 ctime_ns (as in PUT)   56 - note (string)
 */
struct fm_wire_found {
	uint16_t flags;
	uint64_t xfer;
	uint64_t size;
	uint32_t mode;
	int64_t mtime_ns;
	uint64_t dev;
	uint64_t ino;
	int64_t ctime_ns;
	struct fm_wire_str note;
};

#define FM_WIRE_FINISH_HOLD 1u		/* flags of FINISH: answer PREPARED and wait for COMMIT */
/* it is not what the source's digest says, which was accepted: keep no digest with it */
#define FM_WIRE_FINISH_CORRUPT 2u
#define FM_WIRE_FINISH_FLAGS 3u

/*
 * FINISH: 4 8 xfer   12 8 size (tree: packs * chunk)   20 8 data_bytes (size less holes)   28 8
 *                                                      chunks   36 4 crc (CRC32C of the whole)
 *   40 4 zero   size >= data_bytes >= chunks, and no chunks without bytes. Bytes without chunks:
 *               all of them were there
 *   already.
 */
struct fm_wire_finish {
	uint16_t flags;
	uint64_t xfer;
	uint64_t size;
	uint64_t data_bytes;
	uint64_t chunks;
	uint32_t crc;
};

#define FM_WIRE_DONE_DURABLE 1u		/* flags of DONE: it is on disk */
#define FM_WIRE_DONE_PREPARED 2u	/* all but the name: COMMIT is awaited */
#define FM_WIRE_DONE_REFLINKED 4u	/* tree: reused files are reflinks; else hard links */
#define FM_WIRE_DONE_FLAGS 7u

/*
 * DONE: 4 8 xfer   then what a tree's sink made, 8 bytes each, 0 for a file: 12 files   20 dirs
 *                  28 links   36 hard_links   44 bytes
 *   52 reused_files   60 reused_bytes   68 resumed_files   76 resumed_bytes   84 damaged_files   92
 *                                       damaged_bytes (were there, and were not what
 *   they should be)   100 added   108 replaced   116 removed   124 kept (names, compared with what
 *                                                was there)
 *   132 - note (string): what was not as asked
 */
struct fm_wire_done {
	uint16_t flags;
	uint64_t xfer;
	uint64_t files;
	uint64_t dirs;
	uint64_t links;
	uint64_t hard_links;
	uint64_t bytes;
	uint64_t reused_files;
	uint64_t reused_bytes;
	uint64_t resumed_files;
	uint64_t resumed_bytes;
	uint64_t damaged_files;
	uint64_t damaged_bytes;
	uint64_t added;
	uint64_t replaced;
	uint64_t removed;
	uint64_t kept;
	struct fm_wire_str note;
};

/* flags of ABORT: what is there may stay for the next try */
#define FM_WIRE_ABORT_KEEP 1u
/* with EBUSY only: no place is free, or too many are its node's; it may be asked again */
#define FM_WIRE_ABORT_FULL 2u
#define FM_WIRE_ABORT_FLAGS 3u

/* ABORT: 4 8 xfer   12 4 code (a positive Linux errno, 1 .. 4095)   16 - text (string, at most
 *                   FM_WIRE_TEXT_MAX) */
struct fm_wire_abort {
	uint16_t flags;
	uint64_t xfer;
	uint32_t code;
	struct fm_wire_str text;
};

/*
 * NEED (sink -> source): which entries of the offering pack `seq` are to be sent.
 *   4 8 xfer   12 8 seq   20 2 count (1 .. FM_WIRE_NEED_MAX)   22 2 zero   24 (count + 7) / 8 bits;
 *                         bit i of byte i / 8 is entry i, bits
 *   behind the last are 0
 */
struct fm_wire_need {
	uint64_t xfer;
	uint64_t seq;
	uint16_t count;
	uint8_t bits[FM_WIRE_NEED_MAX / 8];
};

#define FM_WIRE_KEPT_LAST 1u		/* flags of KEPT: that was all; FINISH may follow */
#define FM_WIRE_KEPT_FLAGS 1u

/*
 * KEPT (sink -> source), after a READY with ranges: what was there is read again while the rest
 * comes. 4 8 xfer   12 8 reread (bytes of it, so far)   20 8 offset, 28 8 len of a stretch in these
 *                                                  ranges that is not what it should be: send it
 *   36 4 crc (its contributions in have_crc, which go with it)   40 4 zero
 * A stretch begins at a multiple of 4096, and is told once. len, offset and crc 0: none; it goes
 * on.
 */
struct fm_wire_kept {
	uint16_t flags;
	uint64_t xfer;
	uint64_t reread;
	struct fm_wire_range damaged;
	uint32_t crc;
};

/*
 * NAMES (sink -> source, of a tree that PUT said NAMES for): names that were added, replaced and
 * removed, or would be in a dry run. 4 8 xfer   12 2 len (of what follows, 0 .. FM_WIRE_NAMES_LEN)
 * 14 2 zero   16 - per name: +0 1 change (1 added, 2 replaced, 3 removed) +1 - path below the root
 * of the tree (string, 1 .. FM_WIRE_PATH_MAX; "." is the root) Nothing follows before the source
 * has answered with NAMES of len 0, which asks for more. After the last one is DONE.
 */
struct fm_wire_names {
	uint64_t xfer;
	uint16_t len;
	const uint8_t *at;		/* the names as they are in the message; NULL if len is 0 */
};

/* COMMIT (source -> sink): 4 8 xfer. */
struct fm_wire_commit {
	uint64_t xfer;
};

/*
 * WINDOW (sink -> source), behind a GET with ORDERED or WINDOW, or a READY with WINDOW: 4 8 xfer 12
 * 8 to (more than before, from 1): the chunks numbered below `to` may be sent. Before the first
 * WINDOW none may. The sink has room for them beside the slots that it lends, so it acknowledges
 * each as soon as it came, however long its stream or file takes none.
 */
struct fm_wire_window {
	uint64_t xfer;
	uint64_t to;
};

/* VERIFY: 4 8 id   12 4 uid   16 4 gid   20 - store   - path: re-read it and compare with the
 *                                                     digests kept. */
struct fm_wire_verify {
	uint64_t id;
	uint32_t uid;
	uint32_t gid;
	struct fm_wire_str store;
	struct fm_wire_str path;
};

#define FM_WIRE_VERIFIED_MORE 1u	/* flags of VERIFIED: it goes on */
#define FM_WIRE_VERIFIED_FULL 2u	/* with EBUSY only: as that of ABORT */
#define FM_WIRE_VERIFIED_FLAGS 3u

enum fm_wire_finding {
	FM_WIRE_CORRUPT = 1,
	FM_WIRE_UNREADABLE = 2,
	FM_WIRE_CHANGED = 3,		/* another size or time, too */
	FM_WIRE_MISSING = 4,		/* the manifest of its tree lists it */
	FM_WIRE_SWAPPED = 5,		/* whole, but another file than that lists */
};

/*
 * VERIFIED: 4 8 id   12 4 code (0, or a positive errno)   16 2 count   18 2 zero   20 8 files
 * 28 8 bytes   36 8 corrupt   44 8 unreadable   52 8 changed   60 8 missing   68 8 swapped
 * 76 8 without (a digest)   84 8 unlisted (in a manifest)   92 - text (string)   - per finding:
 * 1 kind, 3 zero, 8 offset (of the first block that differs, or byte that cannot be read), 8 length
 * (of such blocks, or bytes, in a row; 0: not known), path (string). The numbers are of all so far;
 * each finding is said once.
 */
struct fm_wire_found_bad {
	uint8_t kind;
	uint64_t offset;
	uint64_t length;
	struct fm_wire_str path;
};

struct fm_wire_verified {
	uint16_t flags;
	uint64_t id;
	uint32_t code;
	uint16_t count;
	uint64_t files;
	uint64_t bytes;
	uint64_t corrupt;
	uint64_t unreadable;
	uint64_t changed;
	uint64_t missing;
	uint64_t swapped;
	uint64_t without;
	uint64_t unlisted;
	struct fm_wire_str text;
	struct fm_wire_found_bad finding[FM_WIRE_FINDINGS_MAX];
};

enum fm_wire_verb {
	FM_WIRE_STAT = 1,
	FM_WIRE_LIST = 2,
	FM_WIRE_REMOVE = 3,
	FM_WIRE_MKDIR = 4,
	FM_WIRE_PARTIALS = 5,
	FM_WIRE_FREE = 6,
	FM_WIRE_PURGE = 7,
	FM_WIRE_PURGE_PARTIALS = 8,
	FM_WIRE_MOVE = 9,
	FM_WIRE_LINK = 10,
	FM_WIRE_GROUP_BEGIN = 11,
	FM_WIRE_GROUP_CHECK = 12,
	FM_WIRE_GROUP_COMMIT = 13,
	FM_WIRE_GROUP_DISCARD = 14,
	FM_WIRE_GROUP_LIST = 15,
	FM_WIRE_LOOK = 16
};

#define FM_WIRE_KEEP_MAX 1000

#define FM_WIRE_REQUEST_RECURSIVE 1u	/* flags of REQUEST, REMOVE only */
#define FM_WIRE_REQUEST_DRY 2u		/* PURGE and PURGE_PARTIALS only: nothing goes */
/* MOVE, LINK, GROUP_BEGIN, _CHECK, _COMMIT: what has the name may go */
#define FM_WIRE_REQUEST_REPLACE 4u
/* LINK with REPLACE only: not if it leads to what was published later than `to`, beside it */
#define FM_WIRE_REQUEST_LATER 8u
#define FM_WIRE_REQUEST_FLAGS 15u

/*
 * REQUEST: 4 8 id   12 1 verb   13 3 zero   16 4 uid   20 4 gid   24 - store   - path   - after
 *                                                      (LIST, PARTIALS: names behind
 * it; else empty)   - to (MOVE: the new name of path, below the same store; LINK: what the link
 * path says; else empty).
 * PARTIALS: unfinished transfers into that directory, by the names they would get; size: what is
 * there of them. FREE: what the store has room for; with an empty store that of the first one, in
 * the order of the names' bytes, behind the name `after` that the asker may read or write.
 * PURGE: what was replaced and is kept aside goes, path is empty; DRY: it is only told, path: what
 * is behind that one. PURGE_PARTIALS: the same of what is unfinished in the store.
 * The answer to FREE and these two is SPACE, or REPLY with a code.
 * LINK alone: at the end   - 4 keep (0, or 1 .. FM_WIRE_KEEP_MAX: so many stay of what the link was
 * led to with this set, and `to` is a name beside it).
 * GROUP_BEGIN, _CHECK, _COMMIT, _DISCARD alone: at the end   - 16 group   - 8 expires_s (BEGIN; 0:
 * as the store says)   - 4 members (that are expected, or 0)   - expect (string, 0 ..
 * FM_WIRE_EXPECT_MAX: the names that are expected, one a line). CHECK: whether COMMIT would do it.
 * GROUP_LIST: the open groups of the store, path: what is behind that one. The answer is GROUPS, or
 * REPLY with a code.
 * LOOK: as STAT, but of a symbolic link itself.
 */
struct fm_wire_request {
	uint16_t flags;
	uint64_t id;
	uint8_t verb;
	uint32_t uid;
	uint32_t gid;
	struct fm_wire_str store;
	struct fm_wire_str path;
	struct fm_wire_str after;
	struct fm_wire_str to;
	uint32_t keep;			/* LINK; else 0 */
	/* GROUP_*; else 0 */
	uint8_t group[FM_WIRE_GROUP_LEN];
	uint64_t expires_s;
	uint32_t members;
	struct fm_wire_str expect;
};

/* flags of REPLY: ask again with `after` = the last name; needs an entry */
#define FM_WIRE_REPLY_MORE 1u
#define FM_WIRE_REPLY_FULL 2u		/* with EBUSY only: as that of ABORT */
#define FM_WIRE_REPLY_SEALED 4u		/* STAT: what it shares by that ID never changes */
#define FM_WIRE_REPLY_WRITTEN 8u	/* STAT: by the node whose name is the text */
#define FM_WIRE_REPLY_FLAGS 15u

/*
 * REPLY: 4 8 id   12 4 code (0, or a positive errno)   16 2 count   18 - text (string)   - says
 *        (string, 0 .. FM_WIRE_PATH_MAX: of LOOK what the link says; of ENODATA to GROUP_CHECK and
 *        _COMMIT how many members are missing, in decimal digits, and the names of the first of
 *        them, each behind a line feed, 0 .. FM_WIRE_MISSING_MAX; else empty)   - per entry:
 *   +0 1 type (enum fm_node_type)   +1 3 zero   +4 4 mode   +8 8 size   +16 8 mtime_ns   +24 8
 *                                               whole (PARTIALS: bytes it will
 *   have, or SIZE_UNKNOWN; else 0)   +32 - name (string; empty for STAT and LOOK)
 * text: code != 0: why; of STAT the ID by which the store is shared, or with WRITTEN which other
 * node has its volume mounted read-write; of LINK with `keep` what stays beyond that and why; else
 * empty. code != 0: no entries. Those of LINK with `keep` are what went.
 * A name of an entry has at most 255 bytes, no '/', and is not "." or "..".
 */
struct fm_wire_entry {
	uint8_t type;
	uint32_t mode;
	uint64_t size;
	int64_t mtime_ns;
	uint64_t whole;
	struct fm_wire_str name;
};

struct fm_wire_reply {
	uint16_t flags;
	uint64_t id;
	uint32_t code;
	uint16_t count;
	struct fm_wire_str text;
	struct fm_wire_str says;
	struct fm_wire_entry entry[FM_WIRE_ENTRIES_MAX];
};

#define FM_WIRE_GROUPS_MORE 1u		/* flags of GROUPS: ask again; needs one */
#define FM_WIRE_GROUPS_FLAGS 1u

/*
 * GROUPS: 4 8 id   12 2 count   14 2 zero   16 - per group:
 *   +0 8 begun_ns   +8 8 expires_ns (since 1970)   +16 4 uid   +20 4 expected (names; 0: not said)
 *   +24 4 may_replace (0, 1)   +28 4 there   +32 4 coming   +36 4 missing (how many names of each)
 *   +40 - path (string, 1 .. FM_WIRE_PATH_MAX)   - peer (string, whose user began it; empty: that
 *   node's)   - names that are there, that come, that are missing (3 strings, one a line; as many
 *   as fit into FM_WIRE_GROUP_NAMES_MAX bytes)
 * In the order of the paths' bytes.
 */
enum fm_wire_members { FM_WIRE_THERE, FM_WIRE_COMING, FM_WIRE_ABSENT, FM_WIRE_MEMBERS_COUNT };

struct fm_wire_group {
	int64_t begun_ns;
	int64_t expires_ns;
	uint32_t uid;
	uint32_t expected;
	uint32_t may_replace;
	uint32_t count[FM_WIRE_MEMBERS_COUNT];
	struct fm_wire_str path;
	struct fm_wire_str peer;
	struct fm_wire_str names[FM_WIRE_MEMBERS_COUNT];
};

struct fm_wire_groups {
	uint16_t flags;
	uint64_t id;
	uint16_t count;
	struct fm_wire_group group[FM_WIRE_GROUPS_MAX];
};

/* flags of SPACE: PURGE did not come to all of them; ask again; needs one */
#define FM_WIRE_SPACE_MORE 1u
/* not all of the store was looked through yet: aside may be more */
#define FM_WIRE_SPACE_COUNTING 2u
/* FREE: what the store's rules allow the asker */
#define FM_WIRE_SPACE_READ 4u
#define FM_WIRE_SPACE_WRITE 8u
#define FM_WIRE_SPACE_FLAGS 15u

/*
 * SPACE: the answer to FREE, PURGE and PURGE_PARTIALS that went well.
 *   4 8 id   12 8 size   20 8 free   28 8 used   36 8 quota (0: none)   44 8 promised   52 8 aside
 *   60 4 trees   64 2 count   66 2 code (0, or a positive errno: its file system
 *                 failed, and nothing above is known)   68 8 silent_ns (0: it said the above)
 *   76 - store (string; empty: there is no further one)
 *   - per directory that was replaced (PURGE): +0 8 bytes   +8 8 since_ns (since 1970)
 *   +16 - path (string, 1 .. FM_WIRE_PATH_MAX), which ends in .fmove.HASH.old or in that, / and the
 *   name that it had
 * All bytes; size and free: SIZE_UNKNOWN where there is no limit. aside goes with the `trees`
 * directories that were replaced and are kept for a while.
 */
struct fm_wire_aside {
	uint64_t bytes;
	int64_t since_ns;
	struct fm_wire_str path;
};

struct fm_wire_space {
	uint16_t flags;
	uint64_t id;
	uint64_t size;
	uint64_t free;
	uint64_t used;
	uint64_t quota;
	uint64_t promised;
	uint64_t aside;
	uint32_t trees;
	uint16_t count;
	uint16_t code;
	uint64_t silent_ns;
	struct fm_wire_str store;
	struct fm_wire_aside tree[FM_WIRE_ASIDE_MAX];
};

/* VOLUMES_ASK: 4 8 id: which shared volumes has that node, and how? */
struct fm_wire_volumes_ask {
	uint64_t id;
};

/* flags of VOLUMES: another one with more of them follows; needs a volume */
#define FM_WIRE_VOLUMES_MORE 1u

#define FM_WIRE_VOLUME_MOUNTED 1u	/* or about to be */
#define FM_WIRE_VOLUME_READ_WRITE 2u	/* that mount */
/* by this node, the writer: it writes no more until it says otherwise */
#define FM_WIRE_VOLUME_SEALED 4u
#define FM_WIRE_VOLUME_STATES 7u

/*
 * VOLUMES: 4 8 id   12 4 code (0, or a positive errno)   16 2 count   18 2 zero   20 - text
 *                                                        (string)   - per volume:
 *   +0 1 state (bits)   +1 3 zero   +4 8 epoch (the writer: of its last seal or unseal; others: the
 *                                   highest of these that it has heard of;
 *   0: none)
 *   +12 - name   - subsystem (string, 1 .. FM_WIRE_SUBSYSTEM_MAX)   - wwid (string, 0 ..
 *                FM_WIRE_WWID_MAX; empty: never seen)
 *   - writer (that its configuration names; may be empty)
 * code != 0: no volumes.
 */
struct fm_wire_volume {
	uint8_t state;
	uint64_t epoch;
	struct fm_wire_str name;
	struct fm_wire_str subsystem;
	struct fm_wire_str wwid;
	struct fm_wire_str writer;
};

struct fm_wire_volumes {
	uint16_t flags;
	uint64_t id;
	uint32_t code;
	uint16_t count;
	struct fm_wire_str text;
	struct fm_wire_volume volume[FM_WIRE_VOLUMES_MAX];
};

/* FACTS_ASK: 4 8 id: what was read of that node (fmove-facts(5))? */
struct fm_wire_facts_ask {
	uint64_t id;
};

/* flags of FACTS: another one with more of it follows; needs a piece */
#define FM_WIRE_FACTS_MORE 1u

/*
 * FACTS: 4 8 id   12 4 code (0, or a positive errno)   16 - text (string)   - piece of the document
 *                                                      (string, 0 .. FM_WIRE_FACTS_MAX)
 * code != 0: no piece.
 */
struct fm_wire_facts {
	uint16_t flags;
	uint64_t id;
	uint32_t code;
	struct fm_wire_str text;
	struct fm_wire_str piece;
};

enum fm_wire_stage_kind {
	FM_WIRE_STAGE_ABOUT = 1,	/* what is staged, by whom: the sender takes part */
	FM_WIRE_STAGE_RUN = 2,		/* a message of the run (staging/run/encode.h) */
	FM_WIRE_STAGE_IS = 3,		/* how far the sender is, or why it takes no part */
	FM_WIRE_STAGE_ASK = 4,		/* what the receiver has of datasets (there.h) */
	FM_WIRE_STAGE_SAYS = 5,		/* the answer to that */
	FM_WIRE_STAGE_KEEP = 6,		/* or show, a dataset for a user of the sender (keep.h) */
	FM_WIRE_STAGE_KEPT = 7,		/* the answer to that */
	FM_WIRE_STAGE_WHO = 8,		/* may read what is in a store of the receiver (named.h) */
	FM_WIRE_STAGE_NAMED = 9,	/* the answer to that */
};

/*
 * STAGE: 4 32 run   36 1 kind   37 1 zero   38 - body (16-bit length, so many bytes, of any value)
 * Nodes that stage one dataset together. Who takes no part in the run, and does not begin one over
 * ABOUT, drops it. ASK, SAYS, KEEP, KEPT, WHO and NAMED are of no run: zeros.
 */
struct fm_wire_stage {
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	uint8_t kind;
	const uint8_t *body;
	size_t len;
};

/* BYE: 4 - text (string): why the connection ends. */
struct fm_wire_bye {
	struct fm_wire_str text;
};

/* Any control message, decoded. Strings point into the buffer that was decoded. */
struct fm_wire_msg {
	enum fm_wire_type type;
	union {
		struct fm_wire_hello hello;
		struct fm_wire_addrs addrs;
		struct fm_wire_tokens tokens;		/* TOKENS and TOKENS_WANT */
		struct fm_wire_facts_ask facts_ask;
		struct fm_wire_facts facts;
		struct fm_wire_stage stage;
		struct fm_wire_ping ping;		/* PING and PONG */
		struct fm_wire_resume resume;		/* RESUME and RECEIVED */
		struct fm_wire_put put;
		struct fm_wire_ready ready;
		struct fm_wire_get get;
		struct fm_wire_found found;
		struct fm_wire_finish finish;
		struct fm_wire_done done;
		struct fm_wire_abort abort;
		struct fm_wire_request request;
		struct fm_wire_reply reply;
		struct fm_wire_space space;
		struct fm_wire_groups groups;
		struct fm_wire_bye bye;
		struct fm_wire_need need;
		struct fm_wire_commit commit;
		struct fm_wire_kept kept;
		struct fm_wire_window window;
		struct fm_wire_names names;
		struct fm_wire_verify verify;
		struct fm_wire_verified verified;
		struct fm_wire_volumes_ask volumes_ask;
		struct fm_wire_volumes volumes;
	};
};

/* Into buf; returns the length. 0: a message that no decoder takes. */
size_t fm_wire_encode(const struct fm_wire_msg *msg, uint8_t buf[static FM_WIRE_MSG_MAX]);

/* -EBADMSG, -EPROTO or -ERANGE, as above. */
int fm_wire_decode(const uint8_t *buf, size_t len, struct fm_wire_msg *msg);

/* "PUT"; "?" for a type that is none. */
const char *fm_wire_type_name(unsigned type);

struct fm_wire_str fm_wire_str(const char *text);

/* Range number i of those in a message; into such bytes. */
struct fm_wire_range fm_wire_range(const uint8_t *have, unsigned i);
void fm_wire_set_range(uint8_t *have, unsigned i, struct fm_wire_range range);

/*
 * Whether what a user gave may go into a message as the name of a node or store, as a path.
 * Encoders refuse the others, so ask before.
 */
bool fm_wire_is_good_name(const char *at, size_t len);
bool fm_wire_is_good_path(const char *at, size_t len);
/* Whether it is an id of a job: letters a-z and digits 2-7. */
bool fm_wire_is_good_job(const char job[static FM_WIRE_JOB_LEN]);

/* ---- data messages: 64 bytes each, on a data connection ----
 *
 *   off len field
 *     0   1 type        enum fm_data_type
 *     1   1 status      ACK: enum fm_ack_status; else 0
 *     2   2 slot        CHUNK, ACK: which slot of the grant; GRANT: number of slots (1 ..
 *                       FM_WIRE_SLOTS_MAX); else 0
 *     4   4 generation  of the grant that slot belongs to, never 0; WANT: 0
 *     8   8 xfer        CHUNK, ACK; GRANT: remote address of slot 0; else 0
 *    16   8 seq         CHUNK, ACK: the chunk's number in its transfer, from 0; else 0
 *    24   8 offset      CHUNK: in the file; else 0
 *    32   4 length      CHUNK: 1 .. chunk, a multiple of 4096 unless it ends the file or is a pack;
 *                       GRANT: bytes of a slot (FM_WIRE_CHUNK_MIN .. FM_WIRE_CHUNK_MAX, a multiple
 *                       of 4096); else 0
 *    36   4 data_crc    CHUNK: CRC32C of the payload; GRANT: rkey; else 0
 *    40  20 zero
 *    60   4 crc         CRC32C of bytes 0 .. 59
 *
 * WANT    sender -> receiver   there are chunks to send and no grant
 * GRANT   receiver -> sender   these slots are the sender's to fill: one chunk each
 * CHUNK   sender -> receiver   the payload is in that slot
 * ACK     receiver -> sender   the chunk was dealt with (written, or taken into its window); its
 *                              slot is the sender's again
 * REVOKE  receiver -> sender   fill no more slots of this generation
 * RETURN  sender -> receiver   no chunk of this generation is under way: the memory is yours again
 */
enum fm_data_type {
	FM_DATA_GRANT = 1,
	FM_DATA_CHUNK = 2,
	FM_DATA_ACK = 3,
	FM_DATA_REVOKE = 4,
	FM_DATA_RETURN = 5,
	FM_DATA_WANT = 6
};

enum fm_ack_status {
	FM_ACK_WRITTEN = 0,
	FM_ACK_CORRUPT = 1,	/* data_crc does not match: send it again */
	FM_ACK_DROPPED = 2,	/* no such transfer any more */
	/* The same came over another connection and is looked at now: send it again a little later,
	 * it may be damaged. */
	FM_ACK_BUSY = 3,
};

#define FM_DATA_MSG_SIZE 64

/* Of a GRANT only type and generation are to be looked at here; fm_grant_of() has the rest. */
struct fm_data_msg {
	uint8_t type;
	uint8_t status;
	uint16_t slot;
	uint32_t generation;
	uint64_t xfer;
	uint64_t seq;
	uint64_t offset;
	uint32_t length;
	uint32_t data_crc;
};

/* What a GRANT lends: `slots` slots of `slot_bytes` each, one behind the other from `remote` on. */
struct fm_grant {
	uint32_t generation;
	unsigned slots;			/* 1 .. FM_WIRE_SLOTS_MAX */
	uint32_t slot_bytes;
	uint32_t rkey;
	uint64_t remote;
};

/* msg: one of type FM_DATA_GRANT that fm_data_decode() took. */
struct fm_grant fm_grant_of(const struct fm_data_msg *msg);
struct fm_data_msg fm_grant_msg(const struct fm_grant *grant);

/* -EINVAL: a message that no decoder takes; buf is as it was. */
int fm_data_encode(const struct fm_data_msg *msg, uint8_t buf[static FM_DATA_MSG_SIZE]);

/* -EILSEQ: crc is wrong. Else as fm_wire_decode(). */
int fm_data_decode(const uint8_t buf[static FM_DATA_MSG_SIZE], struct fm_data_msg *msg);

#endif
