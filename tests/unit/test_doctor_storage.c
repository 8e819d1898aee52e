/* SPDX-License-Identifier: MIT */
/* What is mounted by a number, who connects volumes, room. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static void check(struct fm_facts *f)
{
	scene_check(fm_check_storage, &f, 1);
}

static struct fm_facts_controller *controller(struct fm_facts *f, const char *name,
					      const char *address, const char *host)
{
	struct fm_facts_controller *c = fm_facts_add(f, f->controllers, &f->controllers_count);

	fm_fact_text(&c->name, FM_FACT_NAME, name);
	text(&c->transport, *address ? "tcp" : "pcie");
	text(&c->address, address);
	text(&c->subsystem, *address ? "nqn.2026-01.org.fmove:data" : name);
	text(&c->host_nqn, host);
	return c;
}

static void test_fstab(void)
{
	static const char *const good[] = {
		"UUID=7f6b",	  "/dev/sda1",		"/dev/disk/by-id/nvme-x",
		"/dev/nvme0n1px", "/dev/nvme",		"/dev/nvme-fabrics",
		"/dev/nvme0",	  "/dev/mapper/nvme0n1"
	};
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_fstab *l = fm_facts_add(f, f->fstab, &f->fstab_count);

	text(&l->point, "/data");
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		text(&l->source, good[i]);
		check(f);
		CU_ASSERT_EQUAL(scene_found.count, 0);
	}
	text(&l->source, "/dev/nvme12n3p10");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("fstab-device-name", FM_NOTE,
				     "/dev/nvme12n3p10 at /data by its number",
				     "blkid -s UUID -o value /dev/nvme12n3p10"));
	text(&l->source, "/dev/nvme0n1");
	(void)controller(f, "nvme0", "", "");
	(void)controller(f, "nvme1", "", "");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("fstab-device-name", FM_ERROR, "/dev/nvme0n1", "UUID="));
	f->controllers_count = 1;
	fm_fact_number(&f->daemon.volumes, 1);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("fstab-device-name", FM_ERROR, "/dev/nvme0n1", "UUID="));
	f->controllers_count = 2;
	fm_facts_free(f);
}

static void owner(struct fm_facts *f, const char *name, const char *evidence)
{
	struct fm_facts_owner *o = fm_facts_add(f, f->owners, &f->owners_count);

	fm_fact_text(&o->name, FM_FACT_NAME, name);
	text(&o->evidence, evidence);
}

static void test_two_owners(void)
{
	struct fm_facts *f = scene_node("n1");

	owner(f, "fmove-nvmed", "fmove-nvmed.service");
	owner(f, "nvmf-autoconnect", "/etc/nvme/discovery.conf");
	check(f); /* no volumes of ours */
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&f->daemon.volumes, 2);
	check(f);
	CU_ASSERT_TRUE(scene_is_only(
		"nvme-two-owners", FM_ERROR,
		"nvmf-autoconnect connects NVMe targets at the boot (/etc/nvme/discovery.conf)",
		"systemctl disable --now nvmf-autoconnect.service"));
	fm_facts_free(f);
}

static void test_connected_twice(void)
{
	struct fm_facts *f = scene_node("n1");

	(void)controller(f, "nvme1", "traddr=10.0.0.9,trsvcid=4420,src_addr=10.0.0.1",
			 "nqn.host:a");
	(void)controller(f, "nvme2", "traddr=10.0.0.9,trsvcid=4420",
			 "nqn.host:a"); /* two paths of one host */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	text(&f->controllers[1].host_nqn, "nqn.host:b");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("nvme-connected-twice", FM_ERROR,
				     "as host nqn.host:a and as host nqn.host:b",
				     "nvme disconnect -d nvme2"));
	text(&f->controllers[1].address, "traddr=10.0.0.9,trsvcid=4421");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_identity(void)
{
	struct fm_facts *f = scene_node("n1");

	text(&f->daemon.host_nqn,
	     "nqn.2014-08.org.nvmexpress:uuid:AAAAAAAA-2222-3333-4444-555555555555");
	text(&f->daemon.host_id, "aaaaaaaa-2222-3333-4444-555555555555");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	text(&f->daemon.host_id, "bbbbbbbb-2222-3333-4444-555555555555");
	check(f);
	CU_ASSERT_TRUE(scene_is_only("nvme-host-identity", FM_WARNING, "the host ID is bbbbbbbb",
				     "/etc/nvme/hostnqn"));
	text(&f->daemon.host_nqn, "nqn.2026-01.com.example:n1"); /* has none to compare */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_room(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	text(&s->name, "data");
	fm_fact_number(&s->size_bytes, 1000000000000);
	fm_fact_number(&s->free_bytes, 20000000000);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->free_bytes, 19999999999);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("store-full", FM_WARNING,
				     "store data has 20.0 GB free of 1.00 TB", "fmove purge"));
	fm_fact_number(&s->size_bytes, 0); /* as some file systems say */
	fm_fact_number(&s->free_bytes, 0);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_read_only(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	text(&s->name, "data");
	fm_fact_number(&s->writers, true);
	fm_fact_unknown(&s->read_only, "nobody asked");
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->read_only, false);
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->read_only, true);
	check(f);
	CU_ASSERT_TRUE(scene_is_only("store-read-only", FM_ERROR,
				     "store data is mounted read-only", "remount,rw"));
	fm_fact_number(&s->writers, false);	/* a sealed volume, for instance */
	check(f);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

static void test_hot(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_disk *d = fm_facts_add(f, f->disks, &f->disks_count);

	fm_fact_text(&d->name, FM_FACT_NAME, "nvme0n1");
	fm_fact_number(&d->temperature_c, 69);
	fm_fact_unknown(&d->temperature_max_c, "no such file");
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&d->temperature_max_c, 70);
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&d->temperature_c, 70);
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_TRUE(scene_is_only("disk-hot", FM_WARNING,
				     "nvme0n1 has 70 degrees Celsius; 70 is where it warns", "#"));
	fm_facts_free(f);
}

static void test_direct(void)
{
	struct fm_facts *f = scene_node("n1");
	struct fm_facts_store *s = fm_facts_add(f, f->stores, &f->stores_count);

	text(&s->name, "data");
	text(&s->type, "fuse.sshfs");
	fm_fact_number(&s->direct, true);
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_unknown(&s->direct, "it is empty");
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_fact_number(&s->direct, false);
	scene_check(fm_check_storage, &f, 1);
	CU_ASSERT_TRUE(scene_is_only("store-without-direct", FM_NOTE,
				     "store data, fuse.sshfs, has no O_DIRECT", "ext4"));
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "fstab names a disk by its number", test_fstab },
	{ "somebody else connects volumes, too", test_two_owners },
	{ "a target is connected as two hosts", test_connected_twice },
	{ "the host's NQN and ID do not belong together", test_identity },
	{ "a store has little room", test_room },
	{ "a store that may be written is on a read-only file system", test_read_only },
	{ "a disk is as hot as it may be", test_hot },
	{ "a store has no O_DIRECT", test_direct },
};
FM_TEST_MAIN("doctor_storage", tests)
