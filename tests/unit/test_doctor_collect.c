/* SPDX-License-Identifier: MIT */
/* Facts from the files of a machine that is made here. links: fm_cli */
#include "mover/facts/collect.h"

#include <net/if.h>
#include <sched.h>
#include <stdlib.h>

#include "mover/facts/collect_priv.h"
#include "mover/facts/facts.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "tests/unit/sysfs_tree.h"

static char document[1u << 20];

static struct fm_facts *collect(const struct fm_json *status)
{
	const struct fm_collect_options options = { .root = tree_root,
						    .status = status,
						    .status_why = "nobody listens" };
	struct fm_facts *f = NULL;
	struct fm_err err;

	tree_must(fm_facts_collect(&options, &f, &err) == 0, "collect");
	return f;
}

/* A function of a ConnectX-7, as a DGX Spark's kernel shows it. */
static void device(const char *name, const char *interface, const char *pci)
{
	char dir[PATH_MAX], link[PATH_MAX], target[PATH_MAX], port[PATH_MAX];

	tree_must(snprintf(dir, sizeof(dir), "sys/devices/pci0000:00/%s", pci) < PATH_MAX, pci);
	tree_attr(dir, "current_link_speed", "32.0 GT/s PCIe");
	tree_attr(dir, "max_link_speed", "32.0 GT/s PCIe");
	tree_attr(dir, "current_link_width", "4");
	tree_attr(dir, "max_link_width", "4");
	tree_attr(dir, "numa_node", "-1");
	tree_attr(dir, "aer_dev_nonfatal", "Undefined 0\nTLP 0\nTOTAL_ERR_NONFATAL 2");
	tree_must(snprintf(link, sizeof(link), "%s/driver", dir) < PATH_MAX, dir);
	tree_link("../../../bus/pci/drivers/mlx5_core", link);
	tree_must(snprintf(dir, sizeof(dir), "sys/class/infiniband/%s", name) < PATH_MAX, name);
	tree_attr(dir, "sys_image_guid", "3c6d:6603:00aa:bbcc");
	tree_attr(dir, "hca_type", "MT4129");
	tree_must(snprintf(link, sizeof(link), "%s/device", dir) < PATH_MAX, dir);
	tree_must(snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", pci) <
			  PATH_MAX,
		  pci);
	tree_link(target, link);
	tree_must(snprintf(port, sizeof(port), "%s/ports/1", dir) < PATH_MAX, dir);
	tree_attr(port, "state", "4: ACTIVE");
	tree_attr(port, "rate", "200 Gb/sec (4X HDR)");
	tree_attr(port, "link_layer", "Ethernet");
	tree_attr(port, "gids/0", "fe80:0000:0000:0000:3e6d:66ff:fe03:0001");
	tree_attr(port, "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000");
	tree_attr(port, "gids/2", "0000:0000:0000:0000:0000:ffff:0a00:0001");
	tree_attr(port, "gid_attrs/types/0", "IB/RoCE v1");
	tree_attr(port, "gid_attrs/types/2", "RoCE v2");
	tree_attr(port, "gid_attrs/ndevs/0", interface);
	tree_attr(port, "gid_attrs/ndevs/2", interface);
	tree_must(snprintf(dir, sizeof(dir), "sys/class/net/%s", interface) < PATH_MAX, interface);
	tree_attr(dir, "mtu", "9000");
	tree_attr(dir, "operstate", "up");
	tree_attr(dir, "speed", "200000");
	tree_attr(dir, "ifindex", strstr(name, "P2") ? "5" : "4");
	tree_attr(dir, "phys_port_name", "p0");
	tree_must(snprintf(dir, sizeof(dir), "proc/sys/net/ipv4/conf/%s", interface) < PATH_MAX,
		  interface);
	tree_attr(dir, "rp_filter", "2");
}

static void test_ports(void)
{
	struct fm_facts *f;

	tree_make();
	device("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0");
	device("roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0");
	tree_attr("sys/kernel/config/rdma_cm/rocep1s0f0/ports/1", "default_roce_mode", "RoCE v2");
	tree_attr("proc/sys/kernel", "version", "#1 SMP Debian 6.1.66-1 (2023-12-09)");
	tree_attr("sys/module/zfs", "version", "2.2.2-1");
	tree_link("../bond0", "sys/class/net/enp1s0f0np0/master");
	tree_attr("sys/class/net/bond0/bonding", "mode", "802.3ad 4");
	tree_attr("run/NetworkManager/devices", "4",
		  "# made by it\n[device]\nmanaged=true\nnm-owned=false");
	tree_attr("run/NetworkManager/devices", "5", "[device]\nmanaged=false");
	f = collect(NULL);
	CU_ASSERT_TRUE(fm_fact_is(&f->node.kernel_build, "#1 SMP Debian 6.1.66-1 (2023-12-09)") &&
		       fm_fact_is(&f->node.zfs, "2.2.2-1"));
	CU_ASSERT_TRUE_FATAL(f->ports_read.is_known && f->ports_count == 2);
	CU_ASSERT_TRUE(fm_fact_is(&f->ports[0].device, "roceP2p1s0f0") &&
		       fm_fact_is(&f->ports[1].device, "rocep1s0f0"));
	CU_ASSERT_TRUE(fm_fact_is(&f->ports[1].interface, "enp1s0f0np0") &&
		       fm_fact_is(&f->ports[1].cage, "p0"));
	CU_ASSERT_TRUE(fm_fact_is(&f->ports[1].pci, "0000:01:00.0") &&
		       fm_fact_is(&f->ports[1].driver, "mlx5_core"));
	CU_ASSERT_TRUE(fm_fact_is(&f->ports[1].state, "ACTIVE") &&
		       f->ports[1].rate_mbps.n == 200000);
	CU_ASSERT_TRUE(f->ports[1].pcie_mtps.n == 32000 && f->ports[1].pcie_lanes.n == 4);
	CU_ASSERT_TRUE(fm_fact_is_same(&f->ports[0].card, &f->ports[1].card));
	CU_ASSERT_TRUE(f->ports[1].aer_nonfatal.is_known && f->ports[1].aer_nonfatal.n == 2);
	CU_ASSERT_TRUE(!f->ports[1].aer_fatal.is_known &&
		       strstr(f->ports[1].aer_fatal.text, "No such file"));
	CU_ASSERT_TRUE(!f->ports[1].numa.is_known && strstr(f->ports[1].numa.text, "says -1"));
	CU_ASSERT_FALSE(f->ports[1].rdma_mtu.is_known);
	CU_ASSERT_TRUE(fm_fact_is(&f->ports[1].roce_mode, "RoCE v2") &&
		       !f->ports[0].roce_mode.is_known);
	CU_ASSERT_TRUE(f->gids_count == 4 && fm_fact_is(&f->gids[3].type, "RoCE v2") &&
		       f->gids[3].index.n == 2);
	CU_ASSERT_TRUE(f->interfaces_count == 3 && f->interfaces[1].mtu.n == 9000 &&
		       f->interfaces[1].has_master.is_known && !f->interfaces[1].master.is_known);
	CU_ASSERT_TRUE(fm_fact_is(&f->interfaces[2].master, "bond0") &&
		       fm_fact_is(&f->interfaces[2].bond_mode, "802.3ad 4"));
	CU_ASSERT_TRUE(fm_fact_is_true(&f->node.network_manager) &&
		       !fm_fact_is_true(&f->interfaces[1].nm_managed) &&
		       fm_fact_is_true(&f->interfaces[2].nm_managed));
	CU_ASSERT_TRUE(!f->addresses_read.is_known && f->addresses_count == 0);
	fm_facts_free(f);
	tree_free();
}

/* The value of a counter is the later one; one that was set back, or is new, did not grow. */
static void test_counters(void)
{
	static const char port[] = "sys/class/infiniband/rocep1s0f0/ports/1";
	struct fm_collect c = { .root = tree_root, .facts = fm_facts_new() };

	tree_make();
	device("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0");
	tree_attr(port, "hw_counters/out_of_sequence", "40");
	tree_attr(port, "counters/symbol_error", "9");
	tree_attr("sys/class/infiniband/rocep1s0f0/ports/2", "counters/symbol_error", "50");
	tree_attr("sys/class/net/enp1s0f0np0", "carrier_changes", "2");
	fm_collect_ports(&c);
	fm_collect_counters(&c);
	tree_attr(port, "hw_counters/out_of_sequence", "47");
	tree_attr(port, "hw_counters/packet_seq_err", "5");
	tree_attr(port, "counters/symbol_error", "0");
	tree_attr("sys/class/infiniband/rocep1s0f0/ports/2", "counters/symbol_error", "51");
	fm_collect_growth(&c);
	CU_ASSERT_TRUE(c.facts->node.interval_ms.is_known);
	CU_ASSERT_EQUAL_FATAL(c.facts->counters_count, 4);
	CU_ASSERT_TRUE(fm_fact_is(&c.facts->counters[0].name, "out_of_sequence") &&
		       fm_fact_is(&c.facts->counters[0].object, "rocep1s0f0:1"));
	CU_ASSERT_TRUE(c.facts->counters[0].value.n == 47 && c.facts->counters[0].growth.n == 7);
	CU_ASSERT_TRUE(c.facts->counters[1].value.n == 0 && c.facts->counters[1].growth.n == 0);
	CU_ASSERT_TRUE(fm_fact_is(&c.facts->counters[2].object, "enp1s0f0np0") &&
		       c.facts->counters[2].growth.n == 0);
	CU_ASSERT_TRUE(fm_fact_is(&c.facts->counters[3].object, "rocep1s0f0:2") &&
		       c.facts->counters[3].growth.n == 1);
	fm_facts_free(c.facts);
	tree_free();
}

/* Goal: of meminfo what is shared is no page cache; the driver's first GPU is named. */
static void test_memory(void)
{
	struct fm_facts *f;

	tree_make();
	tree_attr("proc", "meminfo",
		  "MemTotal:       1000 kB\nMemFree:         100 kB\nCached:          500 kB\n"
		  "SwapCached:        7 kB\nShmem:           200 kB\nHugetlb:           0 kB");
	tree_attr("proc/driver/nvidia/gpus/000f:01:00.0", "information",
		  "Model: \t\t NVIDIA GB10\nIRQ:   \t\t 255");
	f = collect(NULL);
	CU_ASSERT_TRUE(f->node.free_bytes.is_known && f->node.free_bytes.n == 100 * 1024);
	CU_ASSERT_TRUE(f->node.page_cache_bytes.is_known &&
		       f->node.page_cache_bytes.n == 300 * 1024);
	CU_ASSERT_TRUE(fm_fact_is(&f->node.gpu, "NVIDIA GB10"));
	fm_facts_free(f);
	tree_attr("proc", "meminfo", "MemTotal:       1000 kB\nCached:          500 kB");
	tree_attr("proc/driver/nvidia/gpus/000f:01:00.0", "information", "IRQ: 255");
	f = collect(NULL);
	CU_ASSERT_TRUE(!f->node.free_bytes.is_known && !f->node.page_cache_bytes.is_known);
	CU_ASSERT_TRUE(!f->node.gpu.is_known && strstr(f->node.gpu.text, "not said"));
	fm_facts_free(f);
	tree_free();
}

static void take_peer(void *ctx, const char *name, uint64_t value)
{
	if (strcmp(name, "peer_ifindex") == 0)
		*(uint64_t *)ctx = value;
}

/* Goal: a driver's own statistics are read from the kernel; one with none says so. */
static void test_ethtool(void)
{
	uint64_t peer = 0;

	CU_ASSERT_EQUAL(fm_collect_ethtool("fmove-none", take_peer, &peer), -ENODEV);
	CU_ASSERT_EQUAL(fm_collect_ethtool("a-name-that-is-longer-than-any", take_peer, &peer),
			-ENAMETOOLONG);
	CU_ASSERT_EQUAL(fm_collect_ethtool("lo", take_peer, &peer), -EOPNOTSUPP);
	if (unshare(CLONE_NEWNET) < 0 ||
	    system("ip link add fm0 type veth peer name fm1 2>/dev/null") != 0)
		return; /* not root, or no such interfaces here */
	CU_ASSERT_EQUAL(fm_collect_ethtool("fm0", take_peer, &peer), 0);
	CU_ASSERT_EQUAL(peer, if_nametoindex("fm1"));
}

/* Values that no kernel writes, or that a newer one might, are unknown with what was read. */
static void test_odd_values(void)
{
	static const char port[] = "sys/class/infiniband/mlx5_0/ports/1";
	static const char pci[] = "sys/class/infiniband/mlx5_0/device";
	struct fm_facts *f;

	tree_make();
	tree_attr("sys/class/infiniband/mlx5_0", "sys_image_guid", "0000:0000:0000:0000");
	tree_attr(port, "rate", "fast");
	tree_attr(port, "state", "");
	tree_attr(port, "gid_attrs/ndevs/0", "eth0; reboot");
	tree_attr(pci, "current_link_speed", "Unknown");
	tree_attr(pci, "current_link_width", "0");
	tree_attr("sys/class/net/eth0 x", "mtu", "9000");
	f = collect(NULL);
	CU_ASSERT_EQUAL_FATAL(f->ports_count, 1);
	CU_ASSERT_TRUE(!f->ports[0].rate_mbps.is_known &&
		       strstr(f->ports[0].rate_mbps.text, "says fast"));
	CU_ASSERT_TRUE(!f->ports[0].state.is_known && strstr(f->ports[0].state.text, "is empty"));
	CU_ASSERT_TRUE(!f->ports[0].interface.is_known &&
		       strstr(f->ports[0].interface.text, "no name"));
	CU_ASSERT_TRUE(!f->ports[0].pcie_mtps.is_known &&
		       strstr(f->ports[0].pcie_mtps.text, "says Unknown"));
	CU_ASSERT_TRUE(!f->ports[0].pcie_lanes.is_known && !f->ports[0].card.is_known);
	CU_ASSERT_FALSE(f->interfaces[0].name.is_known);
	fm_facts_free(f);
	tree_free();
}

/* The kernel shows all of it to root only: 256 bytes with the PCIe capability at 0x60, MPS 256. */
static void test_config_space(void)
{
	static char config[256] = { [6] = 0x10,	   [0x34] = 0x40, [0x40] = 0x01,
				    [0x41] = 0x60, [0x60] = 0x10, [0x68] = 0x20 };
	struct fm_facts *f;

	tree_make();
	device("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0");
	tree_put_bytes("sys/devices/pci0000:00/0000:01:00.0/config", config, sizeof(config));
	f = collect(NULL);
	CU_ASSERT_TRUE(f->ports[0].mps.is_known && f->ports[0].mps.n == 256);
	fm_facts_free(f);
	tree_put_bytes("sys/devices/pci0000:00/0000:01:00.0/config", config, 64);
	f = collect(NULL);
	CU_ASSERT_FALSE(f->ports[0].mps.is_known);
	fm_facts_free(f);
	config[0x41] = 0x40; /* a list that leads to itself */
	tree_put_bytes("sys/devices/pci0000:00/0000:01:00.0/config", config, sizeof(config));
	f = collect(NULL);
	CU_ASSERT_FALSE(f->ports[0].mps.is_known);
	fm_facts_free(f);
	tree_free();
}

static void test_processes(void)
{
	struct fm_facts *f;

	tree_make();
	tree_attr("proc/77", "comm", "fmoved");
	tree_attr("proc/77", "limits",
		  "Limit                     Soft Limit           Hard Limit           Units\n"
		  "Max open files            1024                 65536                files\n"
		  "Max locked memory         65536                unlimited            bytes");
	tree_attr("proc/77", "status",
		  "Name:\tfmoved\nUid:\t990\t990\t990\t990\nCapEff:\t0000000000004000");
	tree_attr("proc/77", "cgroup", "0::/system.slice/fmoved.service");
	tree_attr("sys/fs/cgroup/system.slice", "memory.max", "268435456");
	tree_attr("sys/fs/cgroup/system.slice/fmoved.service", "memory.max", "max");
	tree_attr("proc/77", "oom_score_adj", "-500");
	tree_attr("proc/78", "comm", "bash");
	tree_attr("proc/79", "comm", "fmove-nvmed");
	tree_attr("proc/79", "cgroup", "0::/../elsewhere");
	f = collect(NULL);
	CU_ASSERT_EQUAL_FATAL(f->processes_count, 2);
	CU_ASSERT_TRUE(f->processes[0].pid.n == 77 && f->processes[0].uid.n == 990);
	CU_ASSERT_TRUE(f->processes[0].memlock_bytes.n == FM_FACT_UNLIMITED &&
		       f->processes[0].files.n == 65536);
	CU_ASSERT_TRUE(fm_fact_is_true(&f->processes[0].ipc_lock) &&
		       f->processes[0].memory_max_bytes.n == 256u << 20);
	CU_ASSERT_TRUE(fm_fact_is(&f->processes[0].oom_score_adj, "-500") &&
		       !f->processes[1].oom_score_adj.is_known);
	CU_ASSERT_TRUE(fm_fact_is(&f->processes[1].name, "fmove-nvmed") &&
		       !f->processes[1].memory_max_bytes.is_known);
	fm_facts_free(f);
	tree_free();
}

static void test_storage(void)
{
	struct fm_facts *f;

	tree_make();
	tree_attr("sys/devices/pci0000:00/0000:02:00.0", "current_link_speed", "16.0 GT/s PCIe");
	tree_attr("sys/devices/pci0000:00/0000:02:00.0", "current_link_width", "4");
	tree_mkdirs("sys/devices/pci0000:00/0000:02:00.0/nvme/nvme0");
	tree_link("../../../0000:02:00.0", "sys/devices/pci0000:00/0000:02:00.0/nvme/nvme0/device");
	tree_mkdirs("sys/block/nvme0n1");
	tree_link("../../devices/pci0000:00/0000:02:00.0/nvme/nvme0", "sys/block/nvme0n1/device");
	tree_mkdirs("sys/block/loop0");
	tree_attr("sys/class/nvme/nvme0/hwmon3", "temp1_input", "68850");
	tree_attr("sys/class/nvme/nvme0/hwmon3", "temp1_max", "81850");
	tree_mkdirs("sys/devices/virtual/nvme-fabrics/ctl");
	tree_tcp("nvme1", "nqn.2026-01.org.fmove:data", "10.0.0.9", "4420");
	tree_attr("sys/class/nvme/nvme1/diag", "reconnect_count", "3");
	tree_tcp("nvme2", "nqn.2026-01.org.fmove:more", "10.0.0.9", "4420");
	tree_attr("etc", "fstab",
		  "# comment\n\nUUID=7f6b / ext4 defaults 0 1\n/dev/nvme1n1\t/data xfs "
		  "ro,password=secret\n"
		  "curlftpfs#me:secret@host /ftp fuse rw 0 0\nbroken "
		  "line");
	tree_attr("etc/nvme", "discovery.conf", "# targets\n-t tcp -a 10.0.0.9");
	tree_attr("etc/nvme", "config.json", "[]");
	tree_mkdirs("etc/systemd/system/default.target.wants");
	tree_link("/lib/systemd/system/nvmf-autoconnect.service",
		  "etc/systemd/system/default.target.wants/nvmf-autoconnect.service");
	f = collect(NULL);
	CU_ASSERT_TRUE(f->disks_count == 1 && fm_fact_is(&f->disks[0].name, "nvme0n1") &&
		       f->disks[0].pcie_mtps.n == 16000);
	CU_ASSERT_TRUE(f->disks[0].temperature_c.is_known && f->disks[0].temperature_c.n == 68 &&
		       f->disks[0].temperature_max_c.n == 81);
	CU_ASSERT_TRUE(f->fstab_count == 2 && fm_fact_is(&f->fstab[1].source, "/dev/nvme1n1") &&
		       fm_fact_is(&f->fstab[1].type, "xfs"));
	CU_ASSERT_TRUE(fm_facts_write(f, document, sizeof(document)) > 0 &&
		       !strstr(document, "secret"));
	CU_ASSERT_TRUE(f->controllers_count == 3 &&
		       fm_fact_is(&f->controllers[1].transport, "tcp"));
	CU_ASSERT_TRUE(fm_fact_is(&f->controllers[1].address, "traddr=10.0.0.9,trsvcid=4420"));
	CU_ASSERT_FALSE(f->controllers[0].address.is_known);
	CU_ASSERT_TRUE(f->controllers[1].reconnects.is_known &&
		       f->controllers[1].reconnects.n == 3);
	CU_ASSERT_TRUE(!f->controllers[2].reconnects.is_known &&
		       strstr(f->controllers[2].reconnects.text, "No such file"));
	CU_ASSERT_TRUE(f->owners_count == 1 &&
		       fm_fact_is(&f->owners[0].evidence, "/etc/nvme/discovery.conf"));
	fm_facts_free(f);
	tree_free();
}

/* Stores and secrets are looked at below the root, too; the daemon's word comes from its status. */
static void test_config_and_daemon(void)
{
	static const char status_text[] =
		"{\"node\":\"gpu1\",\"lanes\":[\"threads, because\"],\"rdma\":\"port "
		"7471\",\"arena_bytes\":1048576,\"peers\":[{\"name\":\"gpu2\","
		"\"rails\":[{\"kind\":\"rdma\",\"device\":\"mlx5_0\",\"local\":\"10.0.0.1\","
		"\"remote\":\"fe80::2%eth0\",\"up\":true,\"mtu\":4096,"
		"\"error\":\"\"}]}]}";
	struct fm_json *status;
	struct fm_facts *f;
	char path[PATH_MAX];
	struct fm_err err;

	tree_make();
	tree_attr(
		"etc/fmove", "fmove.conf",
		"node = { name = \"gpu1\"; }; memory = { total = \"1GiB\"; arena = \"512MiB\"; };\n"
		"stores = ( { name = \"data\"; directory = \"/data\"; }, { name = \"null\"; "
		"directory = \"null:\"; } );");
	tree_attr("etc/fmove", "node.key", "secret");
	tree_path(path, "etc/fmove/node.key");
	tree_must(chmod(path, 0640) == 0, path);
	tree_mkdirs("data");
	tree_path(path, "data");
	tree_must(chmod(path, 0777) == 0, path);
	f = collect(NULL);
	CU_ASSERT_TRUE(f->daemon.total_bytes.n == 1u << 30 &&
		       f->daemon.arena_bytes.n == 512u << 20);
	CU_ASSERT_TRUE(f->stores_count == 1 && f->stores[0].mode.n == 0777 &&
		       f->stores[0].size_bytes.is_known);
	CU_ASSERT_TRUE(fm_fact_is(&f->stores[0].directory, "/data"));
	CU_ASSERT_TRUE(!f->stores[0].direct.is_known && f->stores[0].direct.text);
	CU_ASSERT_TRUE(f->stores[0].read_only.is_known && !f->stores[0].read_only.n);
	CU_ASSERT_TRUE(f->stores[0].writers.is_known);
	CU_ASSERT_TRUE(f->files_count == 1 && f->files[0].mode.n == 0640 &&
		       fm_fact_is(&f->files[0].path, "/etc/fmove/node.key"));
	CU_ASSERT_TRUE(!f->rails_read.is_known &&
		       strcmp(f->rails_read.text, "nobody listens") == 0);
	fm_facts_free(f);

	tree_attr("data", "file", "anything");
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(status_text, strlen(status_text), &status, &err), 0);
	f = collect(status);
	fm_json_free(status);
	CU_ASSERT_TRUE(fm_fact_is(&f->node.name, "gpu1") &&
		       fm_fact_is(&f->daemon.io, "threads, because"));
	CU_ASSERT_TRUE(f->daemon.arena_bytes.n == 1048576 && f->rails_count == 1);
	CU_ASSERT_TRUE(f->stores[0].direct.is_known);
	CU_ASSERT_TRUE(!f->rails[0].packet_passes.is_known);
	CU_ASSERT_TRUE(fm_fact_is(&f->rails[0].remote, "fe80::2") &&
		       fm_fact_is(&f->rails[0].device, "mlx5_0") &&
		       fm_fact_is_true(&f->rails[0].up));
	fm_facts_free(f);

	tree_attr("etc/fmove", "fmove.conf", "node = { nam");
	f = collect(NULL);
	CU_ASSERT_TRUE(!f->stores_read.is_known && strstr(f->stores_read.text, "fmove.conf:"));
	fm_facts_free(f);
	tree_free();
}

/*
 * Goal: a daemon does not tell its peers where secrets are, nor the name by which a target knows
 * this host.
 */
static void test_for_peers(void)
{
	const struct fm_collect_options options = { .root = tree_root, .is_within_daemon = true };
	struct fm_facts *f = NULL;
	struct fm_err err;

	tree_make();
	tree_attr("etc/fmove", "fmove.conf",
		  "node = { name = \"gpu1\"; }; volumes = ( { name = \"v\"; subsystem = \"d\"; "
		  "address = \"h:4420\"; writer = \"gpu1\"; secret_file = \"/etc/fmove/v.chap\"; } "
		  "); stores = ( { name = \"s\"; directory = \"/srv/private\"; } );");
	tree_attr("etc", "fstab", "private:/export /mnt nfs rw 0 0\n");
	tree_attr("etc/fmove", "node.key", "secret");
	tree_attr("etc/nvme", "hostnqn", "nqn.private");
	tree_attr("etc/nvme", "hostid", "id.private");
	tree_tcp("nvme1", "nqn.2026-01.org.fmove:data", "10.0.0.9", "4420");
	tree_attr("sys/class/nvme/nvme1", "hostnqn", "nqn.private");
	CU_ASSERT_EQUAL_FATAL(fm_facts_collect(&options, &f, &err), 0);
	CU_ASSERT_TRUE(f->daemon.volumes.is_known && f->controllers_count == 1);
	CU_ASSERT_TRUE(fm_facts_write(f, document, sizeof(document)) > 0);
	CU_ASSERT_PTR_NULL(strstr(document, "private"));
	CU_ASSERT_PTR_NULL(strstr(document, "node.key"));
	CU_ASSERT_PTR_NULL(strstr(document, "v.chap"));
	CU_ASSERT_TRUE(!f->files_read.is_known && strstr(f->files_read.text, "peers"));
	fm_facts_free(f);
	tree_free();
}

/*
 * A machine with nothing to read: each fact is unknown, lists that may be missing are empty, and
 * nothing fails.
 */
static void test_nothing(void)
{
	struct fm_facts *f;
	char path[PATH_MAX];

	tree_make();
	tree_path(path, "sys/class/infiniband");
	tree_attr("sys/class", "infiniband", "a file where a directory should be");
	f = collect(NULL);
	CU_ASSERT_TRUE(!f->ports_read.is_known && strstr(f->ports_read.text, "Not a directory"));
	CU_ASSERT_TRUE(!f->node.memory_bytes.is_known && !f->node.cpus.is_known &&
		       !f->processes_read.is_known);
	CU_ASSERT_TRUE(f->fstab_read.is_known && f->controllers_read.is_known &&
		       f->fstab_count == 0);
	fm_facts_free(f);
	tree_free();
}

static const struct fm_test tests[] = {
	{ "ports, GIDs, interfaces and who manages them", test_ports },
	{ "errors that grew between two looks", test_counters },
	{ "what ethtool shows", test_ethtool },
	{ "memory, and the GPU that may share it", test_memory },
	{ "a value that is no value is unknown, and says what it was", test_odd_values },
	{ "the size of PCIe packets is in the configuration space", test_config_space },
	{ "the daemons, their limits and the least of their control groups", test_processes },
	{ "disks, fstab, connections and who makes them", test_storage },
	{ "the configuration, its files, and what the daemon says", test_config_and_daemon },
	{ "peers are not told where secrets are, nor who the host is", test_for_peers },
	{ "where nothing can be read everything is unknown", test_nothing },
};
FM_TEST_MAIN("doctor_collect", tests)
