/* SPDX-License-Identifier: MIT */
/*
 * volumes: what a configuration says of them arrives in struct fm_volume.
 *
 * links: fm_nvmed
 */
#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/daemon/volumes.h"
#include "tests/fm_test.h"

#define UUID "5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b"

static const char text[] =
	"node = { name = \"n1\"; };\n"
	"volumes = ( { name = \"data\"; subsystem = \"disk1\"; address = \"10.0.0.9:4420\"; paths "
	"= [ \"[fd00::9]:4421\",\n"
	"  \"nas.lan:4422\" ]; host_address = \"10.0.0.1\"; interface = \"eth0\"; queues = 4; "
	"queue_size = 64; keep_alive = \"3s\";\n"
	"  reconnect_delay = \"4s\";\n"
	"  ctrl_loss_timeout = \"10min\"; header_digest = true; data_digest = true; secret_file = "
	"\"/s\";\n"
	"  controller_secret_file = \"/c\"; tls = true; iopolicy = \"queue-depth\"; namespace = "
	"2;\n"
	"  uuid = \"" UUID "\"; nguid = \"0123456789ABCDEF0123456789abcdef\";\n"
	"  mount = \"/srv/data\"; type = \"ext4\"; options = \"noatime,nodev\"; mode = "
	"\"shared-read\"; writer = \"n1\"; },\n"
	"  { name = \"raw\"; subsystem = \"disk2\"; discovery = \"nas.lan:8009\"; fast_io_fail = "
	"\"30s\"; } );\n";

static struct fm_config *load(void)
{
	struct fm_config *cfg = NULL;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_config_load_string(text, strlen(text), "f.conf", &cfg, &err), 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
	return cfg;
}

static void check_everything_said(const struct fm_volume *v)
{
	CU_ASSERT_STRING_EQUAL(v->name, "data");
	CU_ASSERT_STRING_EQUAL(v->subsystem, "disk1");
	CU_ASSERT_FALSE(v->is_discovered);
	CU_ASSERT_EQUAL_FATAL(v->address_count, 3);
	CU_ASSERT_STRING_EQUAL(v->address[0].host, "10.0.0.9");
	CU_ASSERT_STRING_EQUAL(v->address[0].port, "4420");
	CU_ASSERT_STRING_EQUAL(v->address[1].host, "fd00::9");
	CU_ASSERT_STRING_EQUAL(v->address[2].host, "nas.lan");
	CU_ASSERT_STRING_EQUAL(v->address[2].port, "4422");
	CU_ASSERT_STRING_EQUAL(v->host_address, "10.0.0.1");
	CU_ASSERT_STRING_EQUAL(v->host_interface, "eth0");
	CU_ASSERT_TRUE(v->queues == 4 && v->queue_size == 64);
	CU_ASSERT_TRUE(v->keep_alive_s == 3 && v->reconnect_delay_s == 4);
	CU_ASSERT_TRUE(v->ctrl_loss_s == 600 && v->fast_io_fail_s == FM_VOLUME_NEVER);
	CU_ASSERT_TRUE(v->has_header_digest && v->has_data_digest && v->has_tls);
	CU_ASSERT_STRING_EQUAL(v->secret_file, "/s");
	CU_ASSERT_STRING_EQUAL(v->controller_secret_file, "/c");
	CU_ASSERT_STRING_EQUAL(v->iopolicy, "queue-depth");
	CU_ASSERT_EQUAL(v->nsid, 2);
	CU_ASSERT_STRING_EQUAL(v->uuid, UUID);
	CU_ASSERT_STRING_EQUAL(v->nguid, "0123456789abcdef0123456789abcdef");
	CU_ASSERT_STRING_EQUAL(v->mount_point, "/srv/data");
	CU_ASSERT_STRING_EQUAL(v->fs_type, "ext4");
	CU_ASSERT_STRING_EQUAL(v->mount_options, "noatime,nodev");
	CU_ASSERT_EQUAL(v->mode, FM_VOLUME_SHARED_READ);
	CU_ASSERT_STRING_EQUAL(v->writer, "n1");
}

static void test_everything_arrives(void)
{
	struct fm_config *cfg = load();
	struct fm_volumes volumes;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_volumes_make(cfg, &volumes, &err), 0);
	CU_ASSERT_EQUAL_FATAL(volumes.count, 2);
	check_everything_said(&volumes.volume[0]);
	CU_ASSERT_TRUE(volumes.volume[1].is_discovered && volumes.volume[1].address_count == 1);
	CU_ASSERT_STRING_EQUAL(volumes.volume[1].address[0].port, "8009");
	CU_ASSERT_TRUE(volumes.volume[1].ctrl_loss_s == FM_VOLUME_NEVER &&
		       volumes.volume[1].fast_io_fail_s == 30);
	CU_ASSERT_STRING_EQUAL(volumes.volume[1].iopolicy, "numa");
	fm_volumes_clear(&volumes);
	CU_ASSERT_TRUE(volumes.count == 0 && !volumes.volume);
	fm_volumes_clear(&volumes);
	fm_config_free(cfg);
}

static void test_none_is_no_error(void)
{
	static const char none[] = "node = { name = \"n1\"; };\n";
	struct fm_volumes volumes;
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	CU_ASSERT_EQUAL_FATAL(fm_config_load_string(none, strlen(none), "f.conf", &cfg, &err), 0);
	CU_ASSERT_EQUAL(fm_volumes_make(cfg, &volumes, &err), 0);
	CU_ASSERT_EQUAL(volumes.count, 0);
	fm_volumes_clear(&volumes);
	fm_config_free(cfg);
}

/* Goal: no allocation that fails is lost. Method: the n-th one fails, for every n, until none
 * does. */
static void test_nth_failure(void)
{
	struct fm_config *cfg = load();
	bool has_fired = true;

	for (unsigned n = 1; has_fired && n < 100; n++) {
		struct fm_volumes volumes;
		struct fm_err err = { 0 };
		int ret;

		fm_fault_arm("volumes.alloc", n);
		ret = fm_volumes_make(cfg, &volumes, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret, has_fired ? -ENOMEM : 0);
		CU_ASSERT_EQUAL(volumes.count, has_fired ? 0 : 2);
		fm_volumes_clear(&volumes);
	}
	CU_ASSERT_FALSE(has_fired);
	fm_config_free(cfg);
}

static const struct fm_test tests[] = {
	{ "everything that is said arrives", test_everything_arrives },
	{ "a configuration without volumes", test_none_is_no_error },
	{ "the n-th failure leaves nothing behind", test_nth_failure },
};

FM_TEST_MAIN("volumes", tests)
