/* SPDX-License-Identifier: MIT */
/*
 * config: the option table, loading, checking; the example and the manual page agree with the
 * table.
 *
 * links: fm_config
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/check.h"
#include "config/config.h"
#include "config/entries.h"
#include "config/files.h"
#include "config/options.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"

#define NODE "node = { name = \"n1\"; };\n"
#define KEY1 "Kz3wP0hnzBv3Wb5hCbYXGTVSgyQjXFWAFTuT7ndLmuw="
#define KEY2 "Lz3wP0hnzBv3Wb5hCbYXGTVSgyQjXFWAFTuT7ndLmuw="

/* A volume that is complete, and what else is said in its entry. */
#define V(more)                                                                                    \
	"{ name = \"v\"; subsystem = \"disk1\"; address = \"h:4420\"; mount = \"/v\"; " more " }"
#define VOLUME(more) NODE "volumes = ( " V("writer = \"n1\"; " more) " );"
#define UUID_A "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
#define UUID_B "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"

static int load(const char *text, struct fm_config **cfg, struct fm_err *err)
{
	return fm_config_load_string(text, strlen(text), "f.conf", cfg, err);
}

/* The text is refused, and the error holds each of the given parts. */
static void refused(const char *text, const char *where, const char *part)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	int ret = load(text, &cfg, &err);
	bool is_as_expected =
		ret == -EINVAL && strstr(err.text, where) == err.text && strstr(err.text, part);

	if (!is_as_expected)
		printf("\n    %s    gave %d: %s\n", text, ret, err.text);
	CU_ASSERT_TRUE(is_as_expected);
	if (ret == 0)
		fm_config_free(cfg);
}

static void test_defaults(void)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL_FATAL(load(NODE, &cfg, &err), 0);
	CU_ASSERT_STRING_EQUAL(cfg->node.name, "n1");
	CU_ASSERT_STRING_EQUAL(cfg->node.listen, "[::]:7471");
	CU_ASSERT_STRING_EQUAL(cfg->node.key_file, "node.key");
	CU_ASSERT_STRING_EQUAL(cfg->node.socket, "/run/fmove/fmoved.sock");
	CU_ASSERT_EQUAL(cfg->node.log_level, FM_CONFIG_LOG_INFO);
	CU_ASSERT_EQUAL(cfg->memory.arena_bytes, UINT64_C(256) << 20);
	CU_ASSERT_EQUAL(cfg->memory.total_bytes, UINT64_C(512) << 20);
	CU_ASSERT_EQUAL(cfg->mover.chunk_bytes, 0);		/* chosen at the start */
	CU_ASSERT_EQUAL(cfg->memory.slab_bytes, 0);
	CU_ASSERT_EQUAL(cfg->mover.tcp_conns, 0);
	CU_ASSERT_EQUAL(cfg->mover.rdma_conns, 0);
	CU_ASSERT_EQUAL(cfg->mover.transports, FM_CONFIG_TRANSPORT_RDMA | FM_CONFIG_TRANSPORT_TCP);
	CU_ASSERT_EQUAL(cfg->mover.stall_ns, 10 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(cfg->mover.rate_bytes, 0);
	CU_ASSERT_EQUAL(cfg->jobs.running, 16);
	CU_ASSERT_STRING_EQUAL(cfg->node.state_directory, "/var/lib/fmove");
	CU_ASSERT_EQUAL(cfg->store_count, 0);
	CU_ASSERT_EQUAL(cfg->peer_count, 0);
	CU_ASSERT_EQUAL(cfg->volume_count, 0);
	CU_ASSERT_STRING_EQUAL(cfg->nvme.host_nqn, "");
	CU_ASSERT_STRING_EQUAL(cfg->nvme.host_nqn_file, "/etc/nvme/hostnqn");
	CU_ASSERT_STRING_EQUAL(cfg->nvme.host_id_file, "/etc/nvme/hostid");
	CU_ASSERT_STRING_EQUAL(cfg->nvme.socket, "/run/fmove-nvmed/nvmed.sock");
	CU_ASSERT_STRING_EQUAL(cfg->nvme.state_directory, "/var/lib/fmove-nvmed");
	fm_config_free(cfg);
}

static const char full[] =
	"node = {\n"
	"  name = \"spark-1\"; listen = \"10.0.0.1:7000\"; address = \"spark-1.lan:7000\"; "
	"key_file = \"/k/key\";\n"
	"  socket = \"/tmp/s\"; socket_mode = \"0666\"; socket_group = \"users\"; log_level = "
	"\"debug\";\n"
	"};\n"
	"memory = { arena = \"64MiB\"; total = 268435456; slab = \"4 MiB\"; huge_pages = "
	"\"never\"; };\n"
	"mover = { lanes = 3; chunk = \"64KiB\"; transports = [ \"tcp\" ]; rdma_conns = 8; "
	"tcp_conns = 16; dscp = 46;\n"
	"  rate_limit = \"10Gbit/s\"; stall_timeout = \"2.5s\"; io = \"threads\"; };\n"
	"stores = ( { name = \"a\"; directory = \"/srv/a\"; read = [ \"*\" ]; write = ( "
	"\"peer:n2\", \"user:root\", "
	"\"group:wheel\" );\n"
	"  durability = \"memory\"; replace = true; owner = \"caller\"; quota = \"1.5TB\"; "
	"buffered = true; },\n"
	"  { name = \"b\"; directory = \"null:\"; write = []; } );\n"
	"peers = ( { name = \"n2\"; address = \"[fe80::1%eth0]:7471\"; addresses = [ \"h:7471\" ]; "
	"key = \"" KEY1 "\"; },\n"
	"  { name = \"n3\"; key = \"" KEY2 "\"; bench = true; } );\n"
	"nvme = { host_nqn = \"nqn.2014-08.org.nvmexpress:uuid:" UUID_A "\"; host_id = \"" UUID_A
	"\"; socket = \"/tmp/n\";\n"
	"  socket_mode = \"0600\"; socket_group = \"users\"; state_directory = \"null:\";\n"
	"  metrics_listen = \"[::1]:7473\"; };\n"
	"volumes = ( { name = \"data\"; subsystem = \"usb1 part 2\"; address = \"h:4420\"; paths = "
	"[ \"[fe80::9%eth0]:4421\" ];\n"
	"  host_address = \"fe80::1%eth0\"; interface = \"eth0.100\"; queues = 4; queue_size = 64; "
	"keep_alive = \"3s\";\n"
	"  reconnect_delay = \"4s\"; ctrl_loss_timeout = \"10min\"; fast_io_fail = \"1min\"; "
	"header_digest = true; data_digest = true;\n"
	"  secret_file = \"s.key\"; controller_secret_file = \"/c.key\"; tls = true; iopolicy = "
	"\"round-robin\"; namespace = 3;\n"
	"  uuid = \"AAAAAAAA-aaaa-aaaa-aaaa-aaaaaaaaaaaa\"; nguid = "
	"\"01234567-89AB-cdef-0123-456789abcdef\"; mount = \"/srv/data\";\n"
	"  type = \"xfs\"; options = \"noatime,logbufs=8\"; mode = \"shared-read\"; writer = "
	"\"n2\"; },\n"
	"  { name = \"raw\"; subsystem = \"disk2\"; discovery = \"h:8009\"; } );\n";

static void test_everything_said(void)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL_FATAL(load(full, &cfg, &err), 0);
	CU_ASSERT_STRING_EQUAL(cfg->node.listen, "10.0.0.1:7000");
	CU_ASSERT_STRING_EQUAL(cfg->node.key_file, "/k/key");
	CU_ASSERT_EQUAL(cfg->node.socket_mode, FM_CONFIG_MODE_0666);
	CU_ASSERT_STRING_EQUAL(cfg->node.socket_group, "users");
	CU_ASSERT_EQUAL(cfg->memory.total_bytes, UINT64_C(256) << 20);
	CU_ASSERT_EQUAL(cfg->memory.slab_bytes, 4u << 20);
	CU_ASSERT_EQUAL(cfg->memory.huge_pages, FM_CONFIG_PAGES_NEVER);
	CU_ASSERT_EQUAL(cfg->mover.lanes, 3);
	CU_ASSERT_EQUAL(cfg->mover.transports, FM_CONFIG_TRANSPORT_TCP);
	CU_ASSERT_EQUAL(cfg->mover.rate_bytes, UINT64_C(1250000000));
	CU_ASSERT_EQUAL(cfg->mover.stall_ns, UINT64_C(2500000000));
	CU_ASSERT_EQUAL(cfg->mover.io, FM_CONFIG_IO_THREADS);
	CU_ASSERT_EQUAL_FATAL(cfg->store_count, 3);
	CU_ASSERT_STRING_EQUAL(cfg->stores[0].write[2], "group:wheel");
	CU_ASSERT_PTR_NULL(cfg->stores[0].write[3]);
	CU_ASSERT_EQUAL(cfg->stores[0].durability, FM_CONFIG_DURABLE_MEMORY);
	CU_ASSERT_TRUE(cfg->stores[0].may_replace && cfg->stores[0].is_buffered);
	CU_ASSERT_EQUAL(cfg->stores[0].quota_bytes, UINT64_C(1500000000000));
	CU_ASSERT_EQUAL(cfg->stores[0].owner, FM_CONFIG_OWNER_CALLER);
	CU_ASSERT_STRING_EQUAL(cfg->stores[1].read[0], "*");
	CU_ASSERT_PTR_NULL(cfg->stores[1].write[0]);
	CU_ASSERT_EQUAL_FATAL(cfg->peer_count, 2);
	CU_ASSERT_EQUAL(cfg->peers[0].key[0], 0x2b);
	CU_ASSERT_STRING_EQUAL(cfg->peers[0].addresses[0], "h:7471");
	CU_ASSERT_PTR_NULL(cfg->peers[0].addresses[1]);
	CU_ASSERT_PTR_NULL(cfg->peers[1].addresses[0]);
	CU_ASSERT_STRING_EQUAL(cfg->peers[1].address, "");
	fm_config_free(cfg);
}

/* Goal: only the peers of whom it is said may measure, in a store of a name that no other can
 * have. */
static void test_bench_store(void)
{
	static const char text[] =
		NODE "peers = ( { name = \"a\"; key = \"" KEY1 "\"; },\n"
		     "  { name = \"b\"; key = \"" KEY2 "\"; bench = %s; } );\n";
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	char said[600];

	(void)snprintf(said, sizeof(said), text, "true");
	CU_ASSERT_EQUAL_FATAL(load(said, &cfg, &err), 0);
	CU_ASSERT_EQUAL_FATAL(cfg->store_count, 1);
	CU_ASSERT_STRING_EQUAL(cfg->stores[0].name, ".bench");
	CU_ASSERT_STRING_EQUAL(cfg->stores[0].directory, "null:");
	CU_ASSERT_STRING_EQUAL(cfg->stores[0].read[0], "peer:b");
	CU_ASSERT_PTR_NULL(cfg->stores[0].read[1]);
	CU_ASSERT_STRING_EQUAL(cfg->stores[0].write[0], "peer:b");
	CU_ASSERT_PTR_NULL(cfg->stores[0].write[1]);
	CU_ASSERT_EQUAL(cfg->stores[0].line, 3);
	CU_ASSERT_EQUAL(cfg->stores[0].durability, FM_CONFIG_DURABLE_DISK);
	fm_config_free(cfg);
	(void)snprintf(said, sizeof(said), text, "false");
	CU_ASSERT_EQUAL_FATAL(load(said, &cfg, &err), 0);
	CU_ASSERT_EQUAL(cfg->store_count, 0);
	fm_config_free(cfg);
	refused(NODE "stores = ( { name = \".bench\"; directory = \"/s\"; } );",
		"f.conf:2: stores.name: ", "");
}

/* It takes the place of a store. */
static void test_bench_store_has_room(void)
{
	char text[8192];
	int len = snprintf(text, sizeof(text), NODE "stores = ( ");

	for (unsigned i = 0; i < FM_CONFIG_STORES_MAX; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"%s{ name = \"s%u\"; directory = \"/s%u\"; }", i ? ", " : "", i, i);
	(void)snprintf(text + len, sizeof(text) - (size_t)len,
		       " );\npeers = ( { name = \"a\"; key = \"" KEY1 "\"; bench = true; } );\n");
	refused(text, "f.conf:3: peers.bench: ", "at most 63");
}

static void test_volumes_said(void)
{
	struct fm_err err = { 0 };
	struct fm_config_volume *v;
	struct fm_config *cfg;

	CU_ASSERT_EQUAL_FATAL(load(full, &cfg, &err), 0);
	CU_ASSERT_STRING_EQUAL(cfg->nvme.host_id, UUID_A);
	CU_ASSERT_STRING_EQUAL(cfg->nvme.state_directory, "null:");
	CU_ASSERT_STRING_EQUAL(cfg->nvme.metrics_listen, "[::1]:7473");
	CU_ASSERT_EQUAL_FATAL(cfg->volume_count, 2);
	v = &cfg->volumes[0];
	CU_ASSERT_STRING_EQUAL(v->subsystem, "usb1 part 2");
	CU_ASSERT_STRING_EQUAL(v->paths[0], "[fe80::9%eth0]:4421");
	CU_ASSERT_PTR_NULL(v->paths[1]);
	CU_ASSERT_STRING_EQUAL(v->nodes[0], "*");
	CU_ASSERT_PTR_NULL(v->nodes[1]);
	CU_ASSERT_STRING_EQUAL(v->host_address, "fe80::1%eth0");
	CU_ASSERT_TRUE(v->keep_alive_s == 3 && v->reconnect_delay_s == 4 && v->ctrl_loss_s == 600 &&
		       v->fast_io_fail_s == 60);
	CU_ASSERT_TRUE(v->has_header_digest && v->has_data_digest && v->has_tls);
	CU_ASSERT_STRING_EQUAL(v->secret_file, "s.key");
	CU_ASSERT_STRING_EQUAL(v->uuid, UUID_A);
	CU_ASSERT_STRING_EQUAL(v->nguid, "0123456789abcdef0123456789abcdef");
	CU_ASSERT_TRUE(v->nsid == 3 && v->mode == FM_CONFIG_VOLUME_SHARED_READ &&
		       v->iopolicy == FM_CONFIG_IOPOLICY_ROUND_ROBIN);
	v++;
	CU_ASSERT_STRING_EQUAL(v->discovery, "h:8009");
	CU_ASSERT_TRUE(!v->address[0] && !v->paths[0] && !v->secret_file[0] && !v->mount_point[0] &&
		       !v->writer[0]);
	CU_ASSERT_TRUE(v->keep_alive_s == 5 && v->reconnect_delay_s == 2);
	CU_ASSERT_TRUE(v->ctrl_loss_s == FM_CONFIG_NEVER && v->fast_io_fail_s == FM_CONFIG_NEVER);
	CU_ASSERT_TRUE(v->queues == 0 && v->queue_size == 128 && v->nsid == 0 &&
		       v->mode == FM_CONFIG_VOLUME_EXCLUSIVE);
	fm_config_free(cfg);
}

/* Each says file, line and key, what is wrong and what is allowed. */
static void test_mistakes(void)
{
	refused("", "f.conf: node.name: ", "missing; it must be a name");
	refused("node = {\n nam = \"x\"; };", "f.conf:2: node.nam: ", "did you mean node.name?");
	refused("nod = {};", "f.conf:1: nod: ", "did you mean node?");
	refused(NODE "completely_else = 3;", "f.conf:2: completely_else: ", "unknown key; ");
	refused("node = 3;", "f.conf:1: node: ", "must be a group");
	refused("node = {\n name = \"a\";\n name = \"b\";\n};", "f.conf:3: ", "said twice");
	refused("node = { name = \"a b\"; };",
		"f.conf:1: node.name: ", "\"a b\" is not allowed; must be a name");
	refused("node = { name = 3; };", "f.conf:1: node.name: ", "3 is not allowed");
	refused("node = { name = \"hf\"; };", "f.conf:1: node.name: ", "hf:ORG/NAME");
	refused("node = { name = \"-x\"; };", "f.conf:1: node.name: ", "not allowed");
	refused("node = { name = \"n\\x1b[2J\"; };", "f.conf:1: node.name: ", "\"n\\x1b[2J\"");
	refused("node = { name = \"n1\"; listen = \"7471\"; };",
		"f.conf:1: node.listen: ", "port 0 .. 65535");
	refused("node = { name = \"n1\"; listen = \"[::]:65536\"; };",
		"f.conf:1: node.listen: ", "port 0 .. 65535");
	refused("node = { name = \"n1\"; address = \"host\"; };",
		"f.conf:1: node.address: ", "port 1 .. 65535");
	refused("node = { name = \"n1\"; address = \"a/b:1\"; };",
		"f.conf:1: node.address: ", "HOST:PORT");
	refused("node = { name = \"n1\"; socket = \"run/s\"; };",
		"f.conf:1: node.socket: ", "absolute path");
	refused("node = { name = \"n1\"; log_level = \"loud\"; };",
		"f.conf:1: node.log_level: ", "one of error, warn, info, debug");
	refused(NODE "mover = {\n lanes = 17; };",
		"f.conf:3: mover.lanes: ", "17 is not allowed; must be 0 .. 16");
	refused(NODE "mover = { lanes = -1; };", "f.conf:2: mover.lanes: ", "must be 0 .. 16");
	refused(NODE "mover = { lanes = 4294967297; };", "f.conf:2: 4294967297: ", "too large");
	refused(NODE "mover = { lanes = 0x100000001; };", "f.conf:2: 0x100000001: ", "too large");
	refused(NODE "mover = { lanes = 4294967297L; };",
		"f.conf:2: mover.lanes: ", "must be 0 .. 16");
	refused(NODE "mover = { lanes = 1.5; };", "f.conf:2: mover.lanes: ", "must be 0 .. 16");
	refused(NODE "mover = { chunk = \"3MiB\"; };",
		"f.conf:2: mover.chunk: ", "a power of two such as \"64MiB\", 4KiB .. 64MiB");
	refused(NODE "mover = { chunk = \"1M\"; };",
		"f.conf:2: mover.chunk: ", "\"1M\" is not allowed");
	refused(NODE "mover = { stall_timeout = 10; };",
		"f.conf:2: mover.stall_timeout: ", "a time such as");
	refused(NODE "mover = { stall_timeout = \"1s\"; };",
		"f.conf:2: mover.stall_timeout: ", "2s .. 10min");
	refused(NODE "mover = { rate_limit = \"5B/s\"; };",
		"f.conf:2: mover.rate_limit: ", "1MiB/s .. 1TiB/s");
	refused(NODE "mover = { transports = []; };",
		"f.conf:2: mover.transports: ", "a list of rdma, tcp");
	refused(NODE "mover = { transports = \"tcp\"; };",
		"f.conf:2: mover.transports: ", "a list of rdma, tcp");
	refused(NODE "mover = { transports = [ \"udp\" ]; };",
		"f.conf:2: mover.transports: ", "a list of rdma, tcp");
}

#define ON_VOLUME(store)                                                                           \
	NODE "stores = ( { name = \"a\"; " store " } ); volumes = ( { name = \"x\"; "              \
	     "subsystem = \"d\"; address = \"h:1\"; mount = \"/v\"; writer = \"n1\"; } );"

static void test_mistakes_in_lists(void)
{
	refused(NODE "stores = {};", "f.conf:2: stores: ", "must be a list of groups");
	refused(NODE "stores = ( 3 );", "f.conf:2: stores: ", "entry 1 must be a group");
	refused(NODE "stores = (\n { name = \"a\"; } );", "f.conf:", "stores.directory: missing");
	refused(NODE "stores = ( { name = \"a\"; directory = \"b\"; } );",
		"f.conf:2: stores.directory: ", "an absolute path");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/a/../b\"; } );",
		"f.conf:2: stores.directory: ", "without");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/a//b\"; } );",
		"f.conf:2: stores.directory: ", "absolute path");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; read = [ \"bob\" ]; } );",
		"f.conf:2: stores.read: ", "\"user:NAME\"");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; read = [ 7 ]; } );",
		"f.conf:2: stores.read: ", "must be a list");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; replace = 1; } );",
		"f.conf:2: stores.replace: ", "true or false");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; },\n { name = \"a\"; "
		     "directory = \"/c\"; } );",
		"f.conf:3: stores.name: ", "is there already, in line 2");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; shared = \"x\"; },\n { name = "
		     "\"c\"; directory = \"/c\"; shared = \"x\"; } );",
		"f.conf:3: stores.shared: ", "is of the store \"a\" already, in line 2");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/b\"; shared = \"x/y\"; } );",
		"f.conf:2: stores.shared: ", "a name");
	refused(NODE "stores = ( { name = \"a\"; directory = \"null:\"; shared = \"x\"; } );",
		"f.conf:2: stores.shared: ", "has no bytes that others could see");
	refused(NODE "stores = ( { name = \"a\"; directory = \"/v\"; volume = \"x\"; } );",
		"f.conf:2: stores.volume: ", "no entry of volumes with a mount");
	refused(ON_VOLUME("directory = \"/v/a\"; volume = \"x\";"), "f.conf:2: stores.volume: ",
		"\"x\" is mounted at \"/v\"; say that");
	refused(ON_VOLUME("directory = \"/v\"; volume = \"x\"; shared = \"y\";"),
		"f.conf:2: stores.volume: ", "remove shared");
	refused(ON_VOLUME("directory = \"/v\"; volume = \"x\"; }, { name = \"b\"; "
			  "directory = \"/v\"; volume = \"x\";"),
		"f.conf:2: stores.volume: ", "is the store \"a\" already, in line 2");
	refused(NODE "peers = ( { name = \"p\"; } );", "f.conf:2: peers.key: ", "missing");
	refused(NODE "peers = ( { name = \"hf\"; key = \"" KEY1 "\"; } );",
		"f.conf:2: peers.name: ", "hf:ORG/NAME");
	refused(NODE "peers = ( { name = \"p\"; key = \"abc\"; } );",
		"f.conf:2: peers.key: ", "44 characters of base64");
	refused(NODE "peers = ( { name = \"n1\"; key = \"" KEY1 "\"; } );",
		"f.conf:2: peers.name: ", "own name");
	refused(NODE "peers = ( { name = \"a\"; key = \"" KEY1
		     "\"; }, { name = \"a\"; key = \"" KEY2 "\"; } );",
		"f.conf:2: peers.name: ", "is there already");
	refused(NODE "peers = ( { name = \"a\"; key = \"" KEY1
		     "\"; }, { name = \"b\"; key = \"" KEY1 "\"; } );",
		"f.conf:2: peers.key: ", "have the same key");
	refused(NODE "peers = ( { name = \"p\"; addresses = [ \"h\" ]; key = \"" KEY1 "\"; } );",
		"f.conf:2: peers.addresses: ", "HOST:PORT");
	refused(NODE "peers = ( { name = \"p\"; address = \"a:1\"; addresses = [ \"b:1\", \"a:1\" "
		     "]; key = \"" KEY1 "\"; } );",
		"f.conf:2: peers.addresses: ", "\"a:1\" is said twice for \"p\"");
}

static void test_private_networks(void)
{
#define NETWORKS(list) NODE "mover = { private_networks = " list "; };"
	const char *where = "f.conf:2: mover.private_networks: ";
	char many[1024] = NODE "mover = { private_networks = [ \"10.0.0.0/8\"";
	struct fm_config *cfg = NULL;

	refused(NETWORKS("\"10.0.0.0/30\""), where, "a list of networks");
	refused(NETWORKS("[ 10 ]"), where, "");
	refused(NETWORKS("[ \"10.0.0.1/30\" ]"), where, "zeros behind");
	refused(NETWORKS("[ \"0.0.0.0/0\" ]"), where, "7 bits or more");
	refused(NETWORKS("[ \"fe80::/10\" ]"), where, "not link-local");
	for (unsigned i = 0; i < FM_CONFIG_NETWORKS_MAX; i++)
		strcat(many, ", \"10.0.0.0/8\"");
	strcat(many, " ]; };");
	refused(many, where, "33 entries; at most 32");
	CU_ASSERT_EQUAL_FATAL(load(NETWORKS("[ \"10.1.0.0/30\", \"fd00:1::/64\" ]"), &cfg, NULL),
			      0);
	CU_ASSERT_STRING_EQUAL(cfg->mover.private_networks[0], "10.1.0.0/30");
	CU_ASSERT_STRING_EQUAL(cfg->mover.private_networks[1], "fd00:1::/64");
	CU_ASSERT_PTR_NULL(cfg->mover.private_networks[2]);
	fm_config_free(cfg);
}

static void test_mistakes_in_volumes(void)
{
	refused(NODE "volumes = {};", "f.conf:2: volumes: ", "must be a list of groups");
	refused(NODE "volume = ( );", "f.conf:2: volume: ", "did you mean volumes?");
	refused(NODE "volumes = (\n { name = \"v\"; } );",
		"f.conf:3: volumes.subsystem: ", "missing; it must be 1 to 223 bytes");
	refused(VOLUME("adress = 3;"),
		"f.conf:2: volumes.adress: ", "did you mean volumes.address?");
	refused(VOLUME("keep_alive = \"500ms\";"),
		"f.conf:2: volumes.keep_alive: ", "whole seconds");
	refused(VOLUME("keep_alive = \"never\";"), "f.conf:2: volumes.keep_alive: ", "1s .. 1h");
	refused(VOLUME("keep_alive = 5;"), "f.conf:2: volumes.keep_alive: ", "such as \"10s\"");
	refused(VOLUME("keep_alive = \"0s\";"), "f.conf:2: volumes.keep_alive: ", "1s .. 1h");
	refused(VOLUME("ctrl_loss_timeout = \"off\";"),
		"f.conf:2: volumes.ctrl_loss_timeout: ", "1s .. 168h, or \"never\"");
	refused(VOLUME("ctrl_loss_timeout = -1;"),
		"f.conf:2: volumes.ctrl_loss_timeout: ", "or \"never\"");
	refused(VOLUME("fast_io_fail = \"never\";"),
		"f.conf:2: volumes.fast_io_fail: ", "or \"off\"");
	refused(VOLUME("queue_size = 8;"), "f.conf:2: volumes.queue_size: ", "16 .. 1024");
	refused(VOLUME("namespace = -1;"), "f.conf:2: volumes.namespace: ", "0 .. 2147483647");
	refused(VOLUME("uuid = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\";"),
		"f.conf:2: volumes.uuid: ", "a UUID such as");
	refused(VOLUME("nguid = \"0123\";"), "f.conf:2: volumes.nguid: ", "32 hexadecimal digits");
	refused(VOLUME("nguid = \"0123456789abcdef0123456789abcdeg\";"),
		"f.conf:2: volumes.nguid: ", "32 hexadecimal");
	refused(VOLUME("host_address = \"host\";"),
		"f.conf:2: volumes.host_address: ", "without a port");
	refused(VOLUME("host_address = \"10.0.0.1%eth0\";"),
		"f.conf:2: volumes.host_address: ", "without a port");
	refused(VOLUME("host_address = \"fe80::1%\";"),
		"f.conf:2: volumes.host_address: ", "without a port");
	refused(VOLUME("interface = \"a,b\";"), "f.conf:2: volumes.interface: ", "1 to 15 letters");
	refused(VOLUME("interface = \"a234567890123456\";"),
		"f.conf:2: volumes.interface: ", "1 to 15 letters");
	refused(VOLUME("paths = [ \"\" ];"), "f.conf:2: volumes.paths: ", "\"HOST:PORT\"");
	refused(VOLUME("paths = \"h:1\";"), "f.conf:2: volumes.paths: ", "a list of");
	refused(VOLUME("paths = [ \"h:1\", \"h:2\", \"h:3\", \"h:4\", \"h:5\", \"h:6\", \"h:7\", "
		       "\"h:8\" ];"),
		"f.conf:2: volumes.paths: ", "8 entries; at most 7");
	refused(VOLUME("nodes = \"n2\";"), "f.conf:2: volumes.nodes: ", "a list of");
	refused(VOLUME("nodes = [ \"n/2\" ];"),
		"f.conf:2: volumes.nodes: ", "a list of nodes' names, or of \"*\" alone");
	refused(VOLUME("type = \"ext4 \";"), "f.conf:2: volumes.type: ", "1 to 31 letters");
	refused(VOLUME("options = \"a b\";"), "f.conf:2: volumes.options: ", "without blanks");
	refused(VOLUME("mode = \"shared\";"),
		"f.conf:2: volumes.mode: ", "one of exclusive, read-only, shared-read");
	refused(NODE "volumes = ( { name = \"v\"; subsystem = \"a,hostnqn=b\"; } );",
		"f.conf:2: volumes.subsystem: ", "without commas");
	refused(NODE "volumes = ( { name = \"v\"; subsystem = \" a\"; } );",
		"f.conf:2: volumes.subsystem: ", "no blank at either end");
	refused(NODE "volumes = ( { name = \"v\"; subsystem = \"\"; } );",
		"f.conf:2: volumes.subsystem: ", "1 to 223 bytes");
	refused(NODE "volumes = ( { name = \"v\"; subsystem = \"disk\xe4\"; } );",
		"f.conf:2: volumes.subsystem: ", "of UTF-8");
	refused(NODE "volumes = ( { name = \"v\"; subsystem = \"d\"; address = \"h\"; } );",
		"f.conf:2: volumes.address: ", "port 1");
	refused(NODE "nvme = { host_id = \"x\"; };", "f.conf:2: nvme.host_id: ", "a UUID");
	refused(NODE "nvme = { socket = \"x\"; };", "f.conf:2: nvme.socket: ", "an absolute path");
	refused(NODE "nvme = { host_nqn_file = \"\"; };",
		"f.conf:2: nvme.host_nqn_file: ", "the path of a file");
}

static void test_mount_points(void)
{
	static const char *const bad[] = {"v",	  "/",	   "//v",   "/v/",   "/v/../w",
					  "/./v", "null:", "/v\\n", "/v\xe4"};
	char text[256];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(text, sizeof(text),
			       NODE "volumes = ( { name = \"v\"; subsystem = \"d\"; address = "
				    "\"h:1\"; mount = \"%s\"; } );",
			       bad[i]);
		refused(text, "f.conf:2: volumes.mount: ",
			"an absolute path without \".\", \"..\" and control");
	}
}

/* Volumes that could do harm, or that nobody can mean. */
static void test_volumes_that_do_not_go_together(void)
{
	static const char *const options[] = {
		"ro",	      "rw",	    "noatime,ro",     "rw,nodev",
		"a,noload,b", "norecovery", "errors=continue"};
	char text[512];

	refused(NODE "volumes = ( { name = \"v\"; subsystem = \"d\"; } );",
		"f.conf:2: volumes.address: ", "missing for \"v\"");
	refused(VOLUME("discovery = \"h:8009\";"),
		"f.conf:2: volumes.discovery: ", "say one of them");
	refused(VOLUME("paths = [ \"h:4420\" ];"),
		"f.conf:2: volumes.paths: ", "\"h:4420\" is said twice");
	refused(VOLUME("paths = [ \"a:1\", \"b:1\", \"a:1\" ];"),
		"f.conf:2: volumes.paths: ", "\"a:1\" is said twice");
	refused(VOLUME("nodes = [ \"n1\", \"*\" ];"),
		"f.conf:2: volumes.nodes: ", "\"*\" is every peer");
	refused(VOLUME("nodes = [ \"n1\", \"n2\", \"n1\" ];"),
		"f.conf:2: volumes.nodes: ", "\"n1\" is said twice");
	refused(NODE "volumes = ( " V("") " );", "f.conf:2: volumes.writer: ", "missing for \"v\"");
	refused(NODE "volumes = ( " V("mode = \"shared-read\";") " );",
		"f.conf:2: volumes.writer: ", "missing for \"v\"");
	refused(VOLUME("mode = \"read-only\";"), "f.conf:2: volumes.writer: ", "nobody writes");
	refused(VOLUME("fast_io_fail = \"30s\";"),
		"f.conf:2: volumes.fast_io_fail: ", "stops its journal");
	refused(VOLUME("mode = \"shared-read\"; fast_io_fail = \"30s\";"),
		"f.conf:2: volumes.fast_io_fail: ", "must be \"off\"");
	refused(VOLUME("ctrl_loss_timeout = \"1s\";"),
		"f.conf:2: volumes.ctrl_loss_timeout: ", "shorter than reconnect_delay (2s)");
	refused(NODE "volumes = ( " V("mode = \"read-only\"; fast_io_fail = \"1min\"; "
				      "ctrl_loss_timeout = \"30s\";") " );",
		"f.conf:2: volumes.fast_io_fail: ", "longer than ctrl_loss_timeout (30s)");
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		(void)snprintf(text, sizeof(text), VOLUME("options = \"%s\";"), options[i]);
		refused(text, "f.conf:2: volumes.options: ", "\" is not allowed; ");
	}
}

/* Two volumes: what the second says besides its subsystem, and what is wrong with that; NULL:
 * nothing. */
static void test_two_volumes(void)
{
	static const struct { const char *first, *second, *key, *part;
	} pairs[] = {
		{"", "name = \"v\"; subsystem = \"disk2\";",
		 "name: ", "is there already, in line 2"},
		{"", "name = \"w\"; subsystem = \"disk2\"; mount = \"/v\"; mode = \"read-only\";",
		 "mount: ", "mount point of \"v\""},
		{"", "name = \"w\"; subsystem = \"disk2\";", NULL, NULL},
		{"", "name = \"w\"; subsystem = \"disk1\";", "subsystem: ", "may be one namespace"},
		{"namespace = 1;", "name = \"w\"; subsystem = \"disk1\";",
		 "subsystem: ", "may be one namespace"},
		{"namespace = 1;", "name = \"w\"; subsystem = \"disk1\"; namespace = 1;",
		 "subsystem: ", "tell them apart"},
		{"namespace = 1;", "name = \"w\"; subsystem = \"disk1\"; namespace = 2;", NULL,
		 NULL},
		{"namespace = 1;", "name = \"w\"; subsystem = \"disk1\"; uuid = \"" UUID_A "\";",
		 "subsystem: ", "tell them apart"},
		{"uuid = \"" UUID_A "\";",
		 "name = \"w\"; subsystem = \"disk1\"; uuid = \"" UUID_B "\";", NULL, NULL},
		{"uuid = \"" UUID_A "\";",
		 "name = \"w\"; subsystem = \"disk2\"; uuid = \"" UUID_A "\";",
		 "subsystem: ", "one namespace"},
		{"nguid = \"0123456789abcdef0123456789abcdef\";",
		 "name = \"w\"; subsystem = \"disk2\"; nguid = "
		 "\"01234567-89ab-cdef-0123-456789abcdef\";",
		 "subsystem: ", "one namespace"},
	};

	for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char text[1024], where[64];
		struct fm_err err = { 0 };
		struct fm_config *cfg;

		(void)snprintf(text, sizeof(text),
			       NODE "volumes = ( " V(
				       "writer = \"n1\"; %s") ",\n{ address = \"h:1\"; %s } );",
			       pairs[i].first, pairs[i].second);
		if (pairs[i].key) {
			(void)snprintf(where, sizeof(where), "f.conf:3: volumes.%s", pairs[i].key);
			refused(text, where, pairs[i].part);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(load(text, &cfg, &err), 0);
		fm_config_free(cfg);
	}
}

/* The same entry on a node that only reads: there it may fail fast. */
static void test_readers_may_fail_fast(void)
{
	static const char text[] =
		"node = { name = \"n2\"; };\n"
		"volumes = ( " V(
			"writer = \"n1\"; mode = \"shared-read\"; fast_io_fail = \"30s\";") " );";
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL_FATAL(load(text, &cfg, &err), 0);
	CU_ASSERT_EQUAL(cfg->volumes[0].fast_io_fail_s, 30);
	fm_config_free(cfg);
}

static void accepted(const char *text)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	char whole[400];

	(void)snprintf(whole, sizeof(whole), NODE "%s", text);
	CU_ASSERT_EQUAL(load(whole, &cfg, &err), 0);
	if (err.code == 0)
		fm_config_free(cfg);
	else
		printf("\n%s\n", err.text);
}

static void test_cross_checks(void)
{
	refused(NODE "memory = { slab = \"1MiB\"; };\nmover = { chunk = \"4MiB\"; };",
		"f.conf:2: memory.slab: ", "a multiple of mover.chunk (4MiB)");
	refused(NODE "memory = { slab = \"16MiB\"; };\nmover = { chunk = \"64KiB\"; };",
		"f.conf:2: memory.slab: ", "at most 64 times mover.chunk (4MiB)");
	refused(NODE "memory = { arena = \"16MiB\"; slab = \"16MiB\"; };",
		"f.conf:2: memory.arena: ", "at least twice memory.slab (32MiB)");
	refused(NODE "memory = { arena = \"40MiB\"; slab = \"16MiB\"; };",
		"f.conf:2: memory.arena: ", "a multiple of memory.slab (16MiB)");
	/* What is not set is chosen, if anything can be. */
	refused(NODE "memory = { slab = \"66KiB\"; };",
		"f.conf:2: memory.slab: ", "a 64th of it or more (4KiB)");
	refused(NODE "memory = { arena = \"64MiB\"; };\nmover = { chunk = \"64MiB\"; };",
		"f.conf:2: memory.arena: ", "at least twice mover.chunk (128MiB)");
	refused(NODE "memory = { arena = \"65537KiB\"; };",
		"f.conf:2: memory.arena: ", "a multiple of the smallest slab (64KiB)");
	refused(NODE "memory = { arena = \"65GiB\"; total = \"128GiB\"; slab = \"64KiB\"; };",
		"f.conf:2: memory.arena: ", "at most 1048576 times memory.slab (64GiB)");
	refused(NODE "memory = { arena = \"257GiB\"; total = \"1TiB\"; };\nmover = { chunk = "
		     "\"4KiB\"; };",
		"f.conf:2: memory.arena: ",
		"at most 1048576 slabs of 64 times mover.chunk (256GiB)");
	refused(NODE "memory = { slab = 0; };",
		"f.conf:2: memory.slab: ", "a size such as \"64MiB\", 64KiB .. 1GiB, or \"auto\"");
	accepted("memory = { arena = \"16MiB\"; };");
	accepted("memory = { arena = \"40MiB\"; };");
	accepted("memory = { slab = \"auto\"; };\nmover = { chunk = \"auto\"; lanes = 0; tcp_conns "
		 "= 0; rdma_conns = 0; };");
	accepted("memory = { slab = \"68KiB\"; arena = \"68MiB\"; };");
	accepted("memory = { arena = \"64GiB\"; total = \"128GiB\"; slab = \"64KiB\"; };");
	accepted("memory = { arena = \"256GiB\"; total = \"1TiB\"; };\nmover = { chunk = \"4KiB\"; "
		 "};");
	accepted("memory = { arena = \"1TiB\"; total = \"2TiB\"; };");
	accepted("mover = { chunk = \"64KiB\"; };");
	accepted("mover = { chunk = \"64MiB\"; };");
	refused(NODE "memory = { total = \"256MiB\"; };", "f.conf:2: memory.total: ", "(312MiB)");
}

/* ... nor let peers in, and what the package's purge removes is no store. */
static void refused_as_ours(const char *directory)
{
	struct fm_config *cfg = NULL;
	struct fm_err err = { 0 };
	char text[256];

	(void)snprintf(text, sizeof(text),
		       "node = { name = \"n1\"; state_directory = \"null:\"; };\n"
		       "stores = ( { name = \"a\"; directory = \"%s\"; } );", directory);
	CU_ASSERT_EQUAL(fm_config_load_string(text, strlen(text), "/etc/fmove/f.conf", &cfg, &err),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "must not be within each other"));
	if (cfg)
		fm_config_free(cfg);
}

static void test_the_nodes_own_is_no_part_of_a_store(void)
{
	refused_as_ours("/etc");
	refused_as_ours("/etc/fmove");
	refused_as_ours("/etc/fmove/peers.d");
	refused_as_ours("/etc/fmove/invites/x");
}

static void test_the_key_is_in_no_store(void)
{
	refused("node = { name = \"n1\"; key_file = \"/srv/data/k/node.key\"; };\n"
		"stores = ( { name = \"a\"; directory = \"/srv/data\"; } );",
		"f.conf:2: stores.directory: ", "key of the node");
}

/* Who may write a store must not be able to write down jobs. */
static void test_jobs_are_no_part_of_a_store(void)
{
	static const char *const apart[] = {"/var/lib/fmove/data", "/var/lib/fmove/jobs2", "/srv",
					    "/var/lib/fmove/peers2", "null:"};
	static const char *const within[] = {"/", "/var", "/var/lib/fmove", "/var/lib/fmove/jobs",
					     "/var/lib/fmove/jobs/x", "/var/lib/fmove/peers",
					     "/var/lib/fmove/peers/x"};
	struct fm_config *cfg;
	struct fm_err err;
	char text[256];

	for (unsigned i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
		(void)snprintf(text, sizeof(text),
			       NODE "stores = ( { name = \"a\"; directory = \"%s\"; } );",
			       within[i]);
		refused(text, "f.conf:2: stores.directory: ", "must not be within each other");
	}
	for (unsigned i = 0; i < sizeof(apart) / sizeof(apart[0]); i++) {
		(void)snprintf(text, sizeof(text),
			       NODE "stores = ( { name = \"a\"; directory = \"%s\"; } );",
			       apart[i]);
		CU_ASSERT_EQUAL_FATAL(load(text, &cfg, &err), 0);
		fm_config_free(cfg);
	}
	CU_ASSERT_EQUAL_FATAL(load("node = { name = \"n1\"; state_directory = \"null:\"; };"
				   "stores = ( { name = \"a\"; directory = \"/\"; } );",
				   &cfg, &err), 0);
	fm_config_free(cfg);
	refused(NODE "jobs = { running = 0; };", "f.conf:2: jobs.running: ", "1 .. 64");
	refused(NODE "jobs = { runing = 1; };",
		"f.conf:2: jobs.runing: ", "did you mean jobs.running");
}

static void test_staging(void)
{
	static const struct {
		const char *dir, *where;
	} within[] = {
		{"/", "f.conf:2: stores.directory: "},
		{"/srv", "f.conf:2: stores.directory: "},
		{"/srv/data", "f.conf:2: stores.directory: "},
		{"/srv/data/cache", "f.conf:2: stores.directory: "},
		{"/var/lib/fmove", "f.conf:2: staging.directory: "},
		{"/var/lib", "f.conf:2: staging.directory: "},
	};
	struct fm_config *cfg;
	struct fm_err err;
	char text[300];

	CU_ASSERT_EQUAL_FATAL(load(NODE, &cfg, &err), 0);
	CU_ASSERT_STRING_EQUAL(cfg->staging.directory, "null:");
	CU_ASSERT_EQUAL(cfg->staging.grace_ns, UINT64_C(3600000000000));
	CU_ASSERT_EQUAL(cfg->staging.settle_ns, FM_NS_PER_S);
	fm_config_free(cfg);
	CU_ASSERT_EQUAL_FATAL(load(NODE
				   "staging = { directory = \"/srv/cache\"; size = \"2TiB\"; high "
				   "= 80; low = 60; "
				   "grace = \"2h\"; user_quota = \"1TiB\"; settle = \"100ms\"; };"
				   "stores = ( { name = \"a\"; directory = \"/srv/data\"; } );",
				   &cfg, &err),
			      0);
	CU_ASSERT_STRING_EQUAL(cfg->staging.directory, "/srv/cache");
	CU_ASSERT_TRUE(cfg->staging.size_bytes == UINT64_C(2) << 40 && cfg->staging.high == 80 &&
		       cfg->staging.low == 60);
	CU_ASSERT_EQUAL(cfg->staging.user_quota_bytes, UINT64_C(1) << 40);
	CU_ASSERT_EQUAL(cfg->staging.settle_ns, FM_NS_PER_S / 10);
	fm_config_free(cfg);
	for (unsigned i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
		(void)snprintf(text, sizeof(text),
			       NODE "staging = { directory = \"%s\"; };"
				    "stores = ( { name = \"a\"; directory = \"/srv/data\"; } );",
			       within[i].dir);
		refused(text, within[i].where, "must not be within each other");
	}
	refused(NODE "staging = { high = 80; low = 81; };",
		"f.conf:2: staging.low: ", "at most staging.high (80)");
	refused(NODE "staging = { high = 70; };",
		"f.conf: staging.low (by default): ", "at most staging.high (70)");
	refused(NODE "staging = { high = 101; };", "f.conf:2: staging.high: ", "1 .. 100");
	refused(NODE "staging = { gracious = \"1h\"; };",
		"f.conf:2: staging.gracious: ", "did you mean staging.grace");
	refused(NODE "stagin = { };", "f.conf:2: stagin", "did you mean staging");
}

static void test_hostile_text(void)
{
	char deep[400] = NODE "a = ";
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	char *big;

	refused("node = { name = \"n1\" \n listen = ; };", "f.conf:2: ", "syntax error");
	refused(NODE
		"stores = ( { name = \"a\"; directory = \"/var/lib/fmove/jobs/\\x1b[2J\"; } );",
		"f.conf:2: stores.directory: ", "jobs/\\x1b[2J\"");
	refused(NODE "\"", "f.conf:2: ", "the string that begins in this line does not end");
	refused(NODE "a = 3; \"b \\\"",
		"f.conf:2: ", "the string that begins in this line does not end");
	refused(NODE "\n/* a\n\n",
		"f.conf:3: ", "the comment that begins in this line does not end");
	refused(NODE "\n/*/", "f.conf:3: ", "the comment that begins in this line does not end");
	refused("@include \"/dev/zero\"", "f.conf:1: @include", "not supported");
	refused(NODE "/*\n*/ \t@include \"/dev/zero\"", "f.conf:", "");
	refused(NODE " \t@include \"/dev/zero\"", "f.conf:2: @include", "not supported");
	memset(deep + strlen(deep), '(', 300);
	refused(deep, "f.conf:2: ", "nested deeper than 8");
	CU_ASSERT_EQUAL(fm_config_load_string("a\0b", 3, "f.conf", &cfg, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "NUL"));
	big = calloc(1, FM_CONFIG_BYTES_MAX + 1);
	if (!big)
		return;
	memset(big, ' ', FM_CONFIG_BYTES_MAX + 1);
	CU_ASSERT_EQUAL(fm_config_load_string(big, FM_CONFIG_BYTES_MAX + 1, "f.conf", &cfg, &err),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "larger than"));
	free(big);
}

static void test_too_many(void)
{
	char *text = calloc(1, 100000);
	size_t at = 0;

	if (!text)
		return;
	at += (size_t)sprintf(text, NODE "stores = (");
	for (int i = 0; i < 65; i++)
		at += (size_t)sprintf(text + at, "%s{ name = \"s%d\"; directory = \"/s\"; }",
				      i ? "," : "", i);
	sprintf(text + at, ");");
	refused(text, "f.conf:2: stores: ", "65 entries; at most 64 are allowed");
	at = (size_t)sprintf(text, NODE "stores = ({ name = \"a\"; directory = \"/s\"; read = [");
	for (int i = 0; i < 65; i++)
		at += (size_t)sprintf(text + at, "%s\"user:u%d\"", i ? "," : "", i);
	sprintf(text + at, "]; });");
	refused(text, "f.conf:2: stores.read: ", "65 entries; at most 64");
	free(text);
}

/* Goal: no allocation or open that fails is lost. Method: the n-th one fails, for every n, until
 * none does. */
static void test_nth_failure(void)
{
	struct fm_err err;
	struct fm_config *cfg;
	bool has_fired = true;
	unsigned n;

	for (n = 1; has_fired && n < 1000; n++) {
		int ret;

		fm_err_clear(&err);
		fm_fault_arm(NULL, n);
		ret = load(full, &cfg, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret, has_fired ? -ENOMEM : 0);
		if (ret == 0)
			fm_config_free(cfg);
		else
			CU_ASSERT_TRUE(err.text[0]);
	}
	CU_ASSERT_FALSE(has_fired);
#ifdef FM_FAULTS
	CU_ASSERT_TRUE(n > 20);
#endif
}

/* ---- files ---- */

static char dir[] = "/tmp/fmove-test-config.XXXXXX";

static void put_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	struct fm_err err;
	struct fm_file_write how = { .path = path, .mode = 0600, .may_replace = true };

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CU_ASSERT_EQUAL_FATAL(fm_file_write(&how, text, &err), 0);
}

static int load_dir(struct fm_config **cfg, struct fm_err *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/fmove.conf", dir);
	return fm_config_load(path, cfg, err);
}

static void remove_dir(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	CU_ASSERT_EQUAL(system(command), 0);
}

static void test_peers_directory(void)
{
	uint8_t key[FM_CONFIG_KEY_LEN] = { 7 };
	struct fm_peer_file peer = { .name = "n2", .address = "10.0.0.2:7471", .key = key };
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	put_file("fmove.conf", NODE);
	CU_ASSERT_EQUAL(fm_peer_file_write(dir, &peer, &err), 0);
	CU_ASSERT_EQUAL(fm_peer_file_write(dir, &peer, &err), -EEXIST);
	peer.may_replace = true;
	peer.address = "10.0.0.3:7471";
	CU_ASSERT_EQUAL(fm_peer_file_write(dir, &peer, &err), 0);
	put_file("peers.d/.hidden.conf", "nonsense");
	put_file("peers.d/README", "nonsense");
	CU_ASSERT_EQUAL_FATAL(load_dir(&cfg, &err), 0);
	CU_ASSERT_EQUAL_FATAL(cfg->peer_count, 1);
	CU_ASSERT_STRING_EQUAL(cfg->peers[0].address, "10.0.0.3:7471");
	CU_ASSERT_EQUAL(memcmp(cfg->peers[0].key, key, sizeof(key)), 0);
	CU_ASSERT_TRUE(strstr(cfg->node.key_file, dir) == cfg->node.key_file);
	fm_config_free(cfg);

	put_file("peers.d/n9.conf", "name = \"n8\"; key = \"" KEY1 "\";\n");
	CU_ASSERT_EQUAL(load_dir(&cfg, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(
		err.text, "peers.d/n9.conf:1: peers.name: \"n8\" must stand in a file n8.conf"));
	put_file("peers.d/n9.conf", "name = \"n9\";\nkez = \"" KEY1 "\";\n");
	CU_ASSERT_EQUAL(load_dir(&cfg, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(
		err.text, "peers.d/n9.conf:2: peers.kez: unknown key; did you mean peers.key?"));
	put_file("peers.d/n9.conf", "name = \"n9\"; key = \"" KEY1 "\";\n");
	fm_peer_file_remove(dir, "n2");
	CU_ASSERT_EQUAL_FATAL(load_dir(&cfg, &err), 0);
	CU_ASSERT_EQUAL(cfg->peer_count, 1);
	fm_config_free(cfg);
	remove_dir();
}

static void put_peer(const char *name)
{
	uint8_t key[FM_CONFIG_KEY_LEN] = { 7 };
	struct fm_peer_file peer = { .name = name, .address = "10.0.0.2:7471", .key = key };
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_peer_file_write(dir, &peer, &err), 0);
}

/* Whether a peer's entry is taken for removed, as the directory is now. */
static bool is_lacked(const struct fm_config *was, const char *name)
{
	struct fm_config_entries entries;
	char path[PATH_MAX];
	bool is;

	snprintf(path, sizeof(path), "%s/fmove.conf", dir);
	fm_config_entries_read(path, &entries);
	is = fm_config_entries_lack(&entries, was, name);
	fm_config_entries_free(&entries);
	return is;
}

static void move_file(const char *from, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];

	snprintf(a, sizeof(a), "%s/%s", dir, from);
	snprintf(b, sizeof(b), "%s/%s", dir, to);
	CU_ASSERT_EQUAL(rename(a, b), 0);
}

/* fmove.conf that cannot tell all of its peers: those that stood in it are not taken for removed,
 * whoever had a file is. */
static void check_unknown_file(const struct fm_config *was, const char *text)
{
	put_file("fmove.conf", text);
	CU_ASSERT_FALSE(is_lacked(was, "n3"));
	CU_ASSERT_FALSE(is_lacked(was, "n2"));
	move_file("peers.d/n2.conf", "peers.d/n2.conf.off");
	CU_ASSERT_TRUE(is_lacked(was, "n2"));
	CU_ASSERT_FALSE(is_lacked(was, "n3"));
	move_file("peers.d/n2.conf.off", "peers.d/n2.conf");
}

#define N3 "{ name = \"n3\"; key = \"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\"; }"

/* Goal: who is removed is told from who cannot be read, whatever else is wrong. Method: n2 has a
 * file, n3 an entry in fmove.conf; both are spoiled and taken away. */
static void test_entries(void)
{
	static const char *const unknown[] = {
		NODE "nonsense",
		NODE "peerz = ( " N3 " );",
		NODE "peers = { };",
		NODE "peers = ( { nam = \"n3\"; } );",
		NODE "peers = ( { name = \"n 3\"; } );",
		NODE "peers = ( 7 );",
		"@include \"/dev/zero\"",
		/* what a disk that is full leaves of it, or who is just writing it */
		"",
		"\n# nothing but this\n",
		"memory = { arena = \"64MiB\"; };",
		"node = 7;",
		NODE "peers = ( ",
	};
	struct fm_err err = { 0 };
	struct fm_config *was;

	CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0700), 0);
	put_file("fmove.conf", NODE "peers = ( " N3 " );");
	put_peer("n2");
	CU_ASSERT_EQUAL_FATAL(load_dir(&was, &err), 0);
	CU_ASSERT_EQUAL(was->peer_count, 2);
	CU_ASSERT_FALSE(is_lacked(was, "n2"));
	CU_ASSERT_FALSE(is_lacked(was, "n3"));
	CU_ASSERT_TRUE(is_lacked(was, "joined-later"));
	put_file("peers.d/n4.conf", "nonsense");
	CU_ASSERT_FALSE(is_lacked(was, "n4"));
	put_file("fmove.conf", NODE "stores = 7; peers = ( { name = \"n3\"; kye = 7; } );");
	CU_ASSERT_FALSE(is_lacked(was, "n3"));
	put_file("fmove.conf", NODE "stores = 7; peers = ( );");
	CU_ASSERT_TRUE(is_lacked(was, "n3"));
	CU_ASSERT_FALSE(is_lacked(was, "n2"));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		check_unknown_file(was, unknown[i]);
	move_file("fmove.conf", "fmove.gone");
	CU_ASSERT_FALSE(is_lacked(was, "n3"));
	move_file("peers.d", "gone");
	CU_ASSERT_FALSE(is_lacked(was, "n2")); /* the whole place is gone */
	move_file("fmove.gone", "fmove.conf");
	CU_ASSERT_TRUE(is_lacked(was, "n2"));
	put_file("peers.d", "not a directory");
	CU_ASSERT_FALSE(is_lacked(was, "n2"));
	fm_config_free(was);
	remove_dir();
}

/* Goal: what cannot be read is no removal. Method: the n-th call fails, for every n. */
static void test_entries_nth_failure(void)
{
	struct fm_config *was;
	struct fm_err err = { 0 };
	bool has_fired = true;
	unsigned n;

	CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0700), 0);
	put_file("fmove.conf", NODE "peers = ( " N3 " );");
	put_peer("n2");
	CU_ASSERT_EQUAL_FATAL(load_dir(&was, &err), 0);
	for (n = 1; has_fired && n < 100; n++) {
		bool is_gone;

		fm_fault_arm(NULL, n);
		is_gone = is_lacked(was, "n2") || is_lacked(was, "n3");
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_FALSE(is_gone);
	}
	CU_ASSERT_FALSE(has_fired);
#ifdef FM_FAULTS
	CU_ASSERT_TRUE(n > 5);
#endif
	fm_config_free(was);
	remove_dir();
}

static void peers_are(const char *what)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL(load_dir(&cfg, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, what));
	CU_ASSERT_PTR_NULL(strstr(err.text, "hunter2"));
}

/* Whoever may write there could have root show him any file, or wait for a writer that never
 * comes. */
static void test_hostile_peers_directory(void)
{
	char conf[PATH_MAX], path[PATH_MAX], secret[PATH_MAX];
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	strcpy(strrchr(dir, '.'), ".XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(conf, sizeof(conf), "%s/fmove.conf", dir);
	snprintf(secret, sizeof(secret), "%s/secret", dir);
	snprintf(path, sizeof(path), "%s/peers.d/n9.conf", dir);
	put_file("fmove.conf", NODE);
	put_file("secret", "password hunter2\n");
	snprintf(path, sizeof(path), "%s/peers.d", dir);
	CU_ASSERT_EQUAL_FATAL(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/peers.d/n9.conf", dir);
	CU_ASSERT_EQUAL_FATAL(symlink(secret, path), 0);
	peers_are("peers.d/n9.conf: a symbolic link");
	CU_ASSERT_EQUAL_FATAL(unlink(path), 0);
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0644), 0);
	peers_are("peers.d/n9.conf: not a regular file");
	CU_ASSERT_EQUAL_FATAL(unlink(path), 0);
	put_file("peers.d/n9.conf", "password hunter2\n");
	peers_are("peers.d/n9.conf:1: syntax error");
	CU_ASSERT_EQUAL_FATAL(fm_config_load_alone(conf, &cfg, &err), 0);
	CU_ASSERT_EQUAL(cfg->peer_count, 0);
	fm_config_free(cfg);
	remove_dir();
}

static void test_unreadable_files(void)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL(fm_config_load("/nonexistent/fmove.conf", &cfg, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nonexistent/fmove.conf is not there: "));
	CU_ASSERT_EQUAL(fm_config_load("/dev/zero", &cfg, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_config_load("/tmp", &cfg, &err), -EINVAL);
}

/* ---- values ---- */

static void test_values(void)
{
	char text[FM_VALUE_TEXT_MAX], host[FM_VALUE_HOST_MAX];
	uint16_t port;
	uint64_t v;

	CU_ASSERT_TRUE(fm_value_size("1MiB", &v) == 0 && v == 1u << 20);
	CU_ASSERT_TRUE(fm_value_size("16 MiB", &v) == 0 && v == 16u << 20);
	CU_ASSERT_TRUE(fm_value_size("2GB", &v) == 0 && v == UINT64_C(2000000000));
	CU_ASSERT_TRUE(fm_value_size("0.000001TB", &v) == 0 && v == 1000000);
	CU_ASSERT_EQUAL(fm_value_size("18446744073709551616", &v), -ERANGE);
	CU_ASSERT_EQUAL(fm_value_size("17000000TiB", &v), -ERANGE);
	CU_ASSERT_EQUAL(fm_value_size("", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("-1", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("1.", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("1.1234567GB", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("1  MiB", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("1MiB ", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size("64k", &v), -EINVAL);
	CU_ASSERT_TRUE(fm_value_size_typed("64k", &v) == 0 && v == 65536);
	CU_ASSERT_TRUE(fm_value_size_typed("1.5G", &v) == 0 && v == UINT64_C(3) << 29);
	CU_ASSERT_TRUE(fm_value_size_typed("64kB", &v) == 0 && v == 64000);
	CU_ASSERT_EQUAL(fm_value_size_typed("64m", &v), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_size_typed("16777216T", &v), -ERANGE);
	CU_ASSERT_TRUE(fm_value_time("500ms", &v) == 0 && v == 500000000);
	CU_ASSERT_TRUE(fm_value_time("2min", &v) == 0 && v == 120 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(fm_value_time("10", &v), -EINVAL);
	CU_ASSERT_TRUE(fm_value_rate("1GB/s", &v) == 0 && v == 1000000000);
	CU_ASSERT_TRUE(fm_value_rate("100Gbit/s", &v) == 0 && v == UINT64_C(12500000000));
	CU_ASSERT_TRUE(fm_value_rate("0", &v) == 0 && v == 0);
	CU_ASSERT_EQUAL(fm_value_rate("1GB", &v), -EINVAL);
	fm_value_size_print(1536, text);
	CU_ASSERT_STRING_EQUAL(text, "1536B");
	fm_value_time_print(90 * FM_NS_PER_S, text);
	CU_ASSERT_STRING_EQUAL(text, "90s");
	CU_ASSERT_TRUE(fm_value_address("h:1", false, host, sizeof(host), &port) == 0 &&
		       port == 1 && strcmp(host, "h") == 0);
	CU_ASSERT_TRUE(fm_value_address("[::1]:65535", false, host, sizeof(host), &port) == 0 &&
		       port == 65535);
	CU_ASSERT_STRING_EQUAL(host, "::1");
	CU_ASSERT_EQUAL(fm_value_address(":7471", true, host, sizeof(host), &port), 0);
	CU_ASSERT_EQUAL(fm_value_address(":7471", false, host, sizeof(host), &port), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_address("::1:7471", false, host, sizeof(host), &port), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_address("[::1]", false, host, sizeof(host), &port), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_address("h:0", false, host, sizeof(host), &port), -EINVAL);
	CU_ASSERT_EQUAL(fm_value_address("h:12345678901", false, host, sizeof(host), &port),
			-EINVAL);
	CU_ASSERT_FALSE(fm_value_is_name(""));
	CU_ASSERT_FALSE(fm_value_is_name(".a"));
	CU_ASSERT_FALSE(fm_value_is_name("a/b"));
	CU_ASSERT_TRUE(fm_value_is_name("spark-1.lan_2"));
}

/* ---- the table, the example, the manual page ---- */

/* A file of the source tree; this file's own path says where that is. */
static char *read_source(const char *name)
{
	char path[PATH_MAX];
	char *text = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", FM_SOURCE_DIR, name);
	f = fopen(path, "r");
	if (!f || getdelim(&text, &room, '\0', f) < 0)
		printf("\n    cannot read %s\n", path);
	if (f)
		fclose(f);
	return text;
}

static char *print(void (*printer)(FILE *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f) {
		printer(f);
		fclose(f);
	}
	return text;
}

/* If these two fail: fmove config example > config/examples/fmove.conf; paste what `fmove config
 * man` prints. */
static void test_example_is_current(void)
{
	char *printed = print(fm_options_print_example);
	char *file = read_source("config/examples/fmove.conf");
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_TRUE(file && printed && strcmp(file, printed) == 0);
	if (printed && load(printed, &cfg, &err) == 0)
		fm_config_free(cfg);
	else
		CU_ASSERT_STRING_EQUAL(err.text, "");
	free(file);
	free(printed);
}

/* What is commented out in it as a whole, peers and volumes, is right as well. */
static void test_whole_example_loads(void)
{
	char *printed = print(fm_options_print_example);
	bool is_within = false;
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	for (char *at = printed; at && *at; at += strcspn(at, "\n") + 1) {
		is_within = is_within || strncmp(at, "#peers", 6) == 0 ||
			    strncmp(at, "#volumes", 8) == 0;
		if (!is_within)
			continue;
		is_within = strncmp(at, "#}", 2) != 0;
		*at = ' ';
	}
	if (printed && load(printed, &cfg, &err) == 0) {
		CU_ASSERT_TRUE(cfg->peer_count == 1 && cfg->volume_count == 1);
		fm_config_free(cfg);
	} else {
		CU_ASSERT_STRING_EQUAL(err.text, "");
	}
	free(printed);
}

static void test_manual_is_current(void)
{
	char *printed = print(fm_options_print_man);
	char *file = read_source("config/man/fmove.conf.5");

	CU_ASSERT_TRUE(file && printed && strstr(file, printed));
	free(file);
	free(printed);
}

static void test_help_fits(void)
{
	char *printed = print(fm_options_print_help);
	bool is_wide = false;
	char *rest = printed;

	for (char *line = strtok_r(printed, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		is_wide |= strlen(line) > 79;
	CU_ASSERT_FALSE(is_wide);
	free(printed);
}

static void test_nearest(void)
{
	CU_ASSERT_STRING_EQUAL(fm_option_nearest("mover", "chunks"), "chunk");
	CU_ASSERT_STRING_EQUAL(fm_option_nearest("stores", "direktory"), "directory");
	CU_ASSERT_PTR_NULL(fm_option_nearest("mover", "xyzzy"));
	CU_ASSERT_PTR_NULL(
		fm_option_nearest("mover", "a_name_that_is_longer_than_any_option_could_be"));
	CU_ASSERT_STRING_EQUAL(fm_option_nearest(NULL, "store"), "stores");
}

/* A reload compares by the table: what differs in text and not in value is the same. */
static void test_equal_values(void)
{
	struct fm_config *a, *b;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(load(full, &a, &err), 0);
	CU_ASSERT_EQUAL_FATAL(
		load(NODE "memory = { arena = \"65536KiB\"; slab = \"4MiB\"; };", &b, &err), 0);
	CU_ASSERT_TRUE(fm_option_is_equal(fm_option_find("memory", "arena"), a, b));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("memory", "total"), a, b));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("node", "name"), a, b));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("stores", "write"), &a->stores[0],
					   &a->stores[1]));
	CU_ASSERT_TRUE(
		fm_option_is_equal(fm_option_find("stores", "read"), &a->stores[0], &a->stores[1]));
	CU_ASSERT_FALSE(
		fm_option_is_equal(fm_option_find("peers", "key"), &a->peers[0], &a->peers[1]));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("volumes", "ctrl_loss_timeout"),
					   &a->volumes[0], &a->volumes[1]));
	CU_ASSERT_TRUE(fm_option_is_equal(fm_option_find("volumes", "ctrl_loss_timeout"),
					  &a->volumes[1], &a->volumes[1]));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("volumes", "paths"), &a->volumes[0],
					   &a->volumes[1]));
	CU_ASSERT_FALSE(fm_option_is_equal(fm_option_find("volumes", "uuid"), &a->volumes[0],
					   &a->volumes[1]));
	fm_config_free(a);
	fm_config_free(b);
}

/* Goal: who has no configuration is told what makes one; who mistyped its name is not. */
static void test_no_file(void)
{
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_config_no_file(FM_CONFIG_DIR "/" FM_CONFIG_FILE, -ENOENT, &err),
			-ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "on the first node: fmove init --system"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fmove invite"));
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(fm_config_no_file("/no/such", -ENOENT, &err), -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "/no/such is not there: is the name right?");
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(fm_config_no_file("/shut", -EACCES, &err), -EACCES);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "may not be read by user "));
	CU_ASSERT_PTR_NULL(strstr(err.text, "by you"));
}

static const struct fm_test tests[] = {
	{"a file that is not there, or is shut, and what to do", test_no_file},
	{"a node's name is enough: the rest has defaults", test_defaults},
	{"every option can be said and arrives", test_everything_said},
	{"a mistake is one line with file, line, key and what is allowed", test_mistakes},
	{"so is a mistake in a store or a peer", test_mistakes_in_lists},
	{"peers that may measure have a store for it", test_bench_store},
	{"which takes the place of one", test_bench_store_has_room},
	{"everything can be said of volumes", test_volumes_said},
	{"a mistake in a volume is told like any other", test_mistakes_in_volumes},
	{"a mount point is absolute, in one spelling, and not the root", test_mount_points},
	{"a volume that could do harm is refused", test_volumes_that_do_not_go_together},
	{"two volumes are two names, two mount points, two namespaces", test_two_volumes},
	{"who only reads may fail fast", test_readers_may_fail_fast},
	{"values that do not go together are refused", test_cross_checks},
	{"what the node keeps for itself is no part of a store",
	 test_the_nodes_own_is_no_part_of_a_store},
	{"the key is in no store", test_the_key_is_in_no_store},
	{"jobs are no part of a store", test_jobs_are_no_part_of_a_store},
	{"a cache is no part of a store, and its marks are in order", test_staging},
	{"hostile text is refused", test_hostile_text},
	{"private networks are networks, and not too many", test_private_networks},
	{"lists have a limit", test_too_many},
	{"the n-th failure leaves nothing behind", test_nth_failure},
	{"a file in peers.d is a peer, and removing it revokes", test_peers_directory},
	{"who has an entry is known, whatever is wrong with it", test_entries},
	{"an entry that cannot be read is there", test_entries_nth_failure},
	{"peers.d shows nobody another file, and is not needed by who needs no peers",
	 test_hostile_peers_directory},
	{"files that are none are named", test_unreadable_files},
	{"sizes, times, rates, addresses, names", test_values},
	{"the example file is what the table prints, and loads", test_example_is_current},
	{"so does what is commented out in it", test_whole_example_loads},
	{"the manual page holds what the table prints", test_manual_is_current},
	{"the help fits 80 columns", test_help_fits},
	{"a mistyped key gets a suggestion", test_nearest},
	{"values are compared, not texts", test_equal_values},
};

FM_TEST_MAIN("config", tests)
