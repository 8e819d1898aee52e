/* SPDX-License-Identifier: MIT */
/*
 * volume_store: what a store on a volume is, as fmove-nvmed says of the volume.
 *
 * links: fm_services
 */
#include <string.h>

#include "mover/services/volume_store.h"
#include "tests/fm_test.h"

static struct fm_volume_said sealed(void)
{
	return (struct fm_volume_said){ .name = "data", .subsystem = "disk1", .wwid = "uuid.a",
					.is_mounted = true, .device = 5, .mounted_epoch = 3 };
}

static struct fm_volume_store of(const struct fm_volume_said *v)
{
	struct fm_volume_store out;

	fm_volume_store_of(v, 1, "data", &out);
	return out;
}

/* Goal: the seal that is mounted names the bytes; another seal and another volume, other ones. */
static void test_sealed(void)
{
	struct fm_volume_said v = sealed();

	CU_ASSERT_EQUAL(of(&v).device, 5);
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "uuid.a@3");
	CU_ASSERT_STRING_EQUAL(of(&v).written_by, "");
	v.mounted_epoch = 4;
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "uuid.a@4");
	strcpy(v.wwid, "uuid.b");
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "uuid.b@4");
}

/* Goal: what may change, or has no identity, is no other node's source. */
static void test_not_sealed(void)
{
	struct fm_volume_said v = sealed();

	v.mounted_epoch = 0;
	v.epoch = 3;		/* the seal that was heard of; another one is mounted, or none */
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	v = sealed();
	v.is_read_write = true;
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	v = sealed();
	v.wwid[0] = '\0';
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	strcpy(v.wwid, "a/b");
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	memset(v.wwid, 'x', 62);
	v.wwid[62] = '\0';
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	v.wwid[61] = '\0';
	CU_ASSERT_EQUAL(strlen(of(&v).shared), 63);
}

/* Goal: a volume that another node writes to says who, and is never taken for sealed. */
static void test_written(void)
{
	struct fm_volume_said v = sealed();

	strcpy(v.written_by, "n2");
	CU_ASSERT_STRING_EQUAL(of(&v).written_by, "n2");
	CU_ASSERT_STRING_EQUAL(of(&v).shared, "");
	CU_ASSERT_EQUAL(of(&v).device, 5);
}

/* Goal: what is not mounted here, or of another name, is not there. */
static void test_not_there(void)
{
	struct fm_volume_said v[2] = { sealed(), sealed() };
	struct fm_volume_store out;

	v[0].device = 0;
	CU_ASSERT_EQUAL(of(&v[0]).device, 0);
	CU_ASSERT_STRING_EQUAL(of(&v[0]).shared, "");
	fm_volume_store_of(v, 2, "other", &out);
	CU_ASSERT_EQUAL(out.device, 0);
	/* Fragments of what hangs have the name, too. */
	fm_volume_store_of(v, 2, "data", &out);
	CU_ASSERT_EQUAL(out.device, 5);
}

/* Goal: a store is opened anew when anything of that is another. */
static void test_is(void)
{
	struct fm_volume_said v = sealed();
	struct fm_volume_store is = of(&v);
	struct fm_store store = { .device = 5, .shared = "uuid.a@3" };

	CU_ASSERT_TRUE(fm_volume_store_is(&is, &store));
	store.device = 6;
	CU_ASSERT_FALSE(fm_volume_store_is(&is, &store));
	store.device = 5;
	strcpy(store.shared, "uuid.a@4");
	CU_ASSERT_FALSE(fm_volume_store_is(&is, &store));
	strcpy(store.shared, is.shared);
	strcpy(store.written_by, "n2");
	CU_ASSERT_FALSE(fm_volume_store_is(&is, &store));
}

/* Goal: only an ID of that volume, or of one that is not known, may be that of a store on it. */
static void test_may_be(void)
{
	struct fm_volume_said v[2] = { sealed(), sealed() };

	strcpy(v[0].name, "other");
	strcpy(v[0].wwid, "uuid.b");
	v[1].device = 0;	/* not mounted */
	CU_ASSERT_TRUE(fm_volume_store_may_be(v, 2, "data", "uuid.a@3"));
	CU_ASSERT_TRUE(fm_volume_store_may_be(v, 2, "data", "uuid.a@2"));
	CU_ASSERT_FALSE(fm_volume_store_may_be(v, 2, "data", "uuid.b@3"));
	CU_ASSERT_FALSE(fm_volume_store_may_be(v, 2, "data", "uuid.@3"));
	CU_ASSERT_FALSE(fm_volume_store_may_be(v, 2, "data", "uuid.ab@3"));
	CU_ASSERT_FALSE(fm_volume_store_may_be(v, 2, "data", "nfs1"));
	CU_ASSERT_TRUE(fm_volume_store_may_be(v, 1, "data", "uuid.b@3"));	/* not told */
	CU_ASSERT_TRUE(fm_volume_store_may_be(NULL, 0, "data", "uuid.b@3"));
	CU_ASSERT_FALSE(fm_volume_store_may_be(NULL, 0, "data", "nfs1"));
	v[1].wwid[0] = '\0';	/* never seen here */
	CU_ASSERT_TRUE(fm_volume_store_may_be(v, 2, "data", "uuid.b@3"));
}

static const struct fm_test tests[] = {
	{ "the seal that is mounted names the bytes", test_sealed },
	{ "what may change is no other node's source", test_not_sealed },
	{ "one that another node writes to", test_written },
	{ "one that is not mounted here, or of another name", test_not_there },
	{ "a store is opened anew when that is another", test_is },
	{ "a copy waits for the rules of its own volume", test_may_be },
};

FM_TEST_MAIN("volume_store", tests)
