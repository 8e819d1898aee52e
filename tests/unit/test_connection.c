/* SPDX-License-Identifier: MIT */
/*
 * What is written to /dev/nvme-fabrics, what its answers mean, and what is done with the files of
 * the kernel: here a directory that looks like them. links: fm_nvmetcp
 *
 * A regular file can play /dev/nvme-fabrics: what is read after the write is what lies behind what
 * was written.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/libnvme.h"
#include "tests/fm_test.h"

#define HOST_ID "11111111-2222-3333-4444-555555555555"
#define HOST_NQN "nqn.2014-08.org.nvmexpress:uuid:" HOST_ID
#define NQN "nqn.2026-01.org.fmove:test1"
#define SECRET "DHHC-1:01:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0:"
#define POINTS_MAX 100

static struct fm_err err;
static char text[FM_CONNECTION_OPTIONS_MAX];

static struct fm_connection_opts opts_of(void)
{
	return (struct fm_connection_opts){
		.subsystem = NQN,
		.address = "10.77.0.2",
		.port = "4420",
		.host_nqn = HOST_NQN,
		.host_id = HOST_ID,
		.queues = 4,
		.keep_alive_s = 5,
		.reconnect_delay_s = 2,
		.ctrl_loss_s = -1,
		.fast_io_fail_s = -1,
	};
}

/* -------------------------------------------------------------------------------------- options */

static void test_options_plain(void)
{
	struct fm_connection_opts o = opts_of();

	o.keep_alive_s = 0;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_STRING_EQUAL(
		text, "transport=tcp,traddr=10.77.0.2,trsvcid=4420,nqn=" NQN ",hostnqn=" HOST_NQN
		      ",hostid=" HOST_ID
		      ",nr_io_queues=4,keep_alive_tmo=0,reconnect_delay=2,ctrl_loss_tmo=-1");
}

static void test_options_all(void)
{
	struct fm_connection_opts o = opts_of();

	o.subsystem = "disk1";		/* RouterOS */
	o.host_address = "10.77.0.1";
	o.host_interface = "wire0";
	o.queue_size = 64;
	o.has_header_digest = o.has_data_digest = o.has_tls = true;
	o.secret = o.controller_secret = SECRET;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_STRING_EQUAL(
		text, "transport=tcp,traddr=10.77.0.2,trsvcid=4420,nqn=disk1,hostnqn=" HOST_NQN
		      ",hostid=" HOST_ID ",host_traddr=10.77.0.1,host_iface=wire0,nr_io_queues=4,"
					 "queue_size=64,keep_alive_tmo=5,reconnect_delay=2,"
		      "ctrl_loss_tmo=-1,hdr_digest,data_digest,tls,dhchap_secret=" SECRET
		      ",dhchap_ctrl_secret=" SECRET);
}

static void test_options_address(void)
{
	static const char *const bad[] = {"node7", "10.0.0", "10.0.0.1%eth0",
					  "::1::", "1",	     "fe80::1:2:3:4:5:6:7:8:9"};
	struct fm_connection_opts o = opts_of();
	char out[FM_CONNECTION_ADDRESS_MAX];

	CU_ASSERT_EQUAL(fm_connection_address("0:0:0:0:0:0:0:1", out), 0);
	CU_ASSERT_STRING_EQUAL(out, "::1");
	CU_ASSERT_EQUAL(fm_connection_address("FE80::0:1%wire0", out), 0);
	CU_ASSERT_STRING_EQUAL(out, "fe80::1%wire0");
	CU_ASSERT_EQUAL(fm_connection_address(
				"::1%a-name-of-an-interface-that-is-too-long-for-any-kernel", out),
			-EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		o.address = bad[i];
		CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	}
	o.address = "FD00::0:1";
	o.host_address = "fd00:0::2";
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, ",traddr=fd00::1,"));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, ",host_traddr=fd00::2,"));
	o.host_address = "here";
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
}

static void test_options_default_queues(void)
{
	struct fm_connection_opts o = opts_of();

	o.queues = 0;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, ",nr_io_queues="));
	CU_ASSERT_PTR_NULL(strstr(text, ",nr_io_queues=0"));
	o.subsystem = FM_CONNECTION_DISCOVERY_NQN;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_PTR_NULL(strstr(text, "nr_io_queues"));
}

/* Each text in turn with what must not be in it: nothing can become another option, and no error
 * shows the value. */
static void test_options_injection(void)
{
	static const char *const bad[] = { "x,tls", "x\n", "\n", "x\x7f", "\x01" };
	struct fm_connection_opts o;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char **fields[] = {&o.subsystem,	    &o.address, &o.port,
					 &o.host_nqn,	    &o.host_id, &o.host_address,
					 &o.host_interface, &o.secret,	&o.controller_secret};

		for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
			o = opts_of();
			*fields[k] = bad[i];
			fm_err_clear(&err);
			CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
			CU_ASSERT_TRUE(strlen(err.text) > 10);
			CU_ASSERT_PTR_NULL(strstr(err.text, bad[i]));
		}
	}
}

static void test_options_refused(void)
{
	static const char *const secrets[] = {"geheim",
					      "DHHC-1:",
					      "DHHC-1:01:",
					      "DHHC-1:04:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2Vj:",
					      "DHHC-1:01:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2Vj",
					      "DHHC-1:01:c2VjcmV0c2VjcmV0 c2VjcmV0c2VjcmV0c2Vj:",
					      "DHHC-1:01:c2VjcmV0c2VjcmV0:2VjcmV0c2VjcmV0c2Vj:"};
	struct fm_connection_opts o;
	char name[300];

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		o = opts_of();
		o.secret = secrets[i];
		CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
		CU_ASSERT_PTR_NULL(strstr(err.text, "c2Vj"));
		CU_ASSERT_PTR_NULL(strstr(err.text, "geheim"));
	}
	o = opts_of();
	o.controller_secret = SECRET;		/* without one of the host */
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	o = opts_of();
	o.host_id = "";
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	o = opts_of();
	o.host_id = "22222222-2222-3333-4444-555555555555";
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "same"));
	o = opts_of();
	o.reconnect_delay_s = 0;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	o = opts_of();
	o.port = NULL;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
	memset(name, 'n', sizeof(name));
	name[224] = '\0';
	o = opts_of();
	o.subsystem = name;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -EINVAL);
}

static void test_options_too_long(void)
{
	struct fm_connection_opts o = opts_of();
	static char iface[FM_CONNECTION_OPTIONS_MAX];

	memset(iface, 'i', sizeof(iface) - 1);
	o.host_interface = iface;
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), -E2BIG);
}

/* -------------------------------------------------------------------------------------- answers */

static int parse(const char *answer, int *instance, int *cntlid)
{
	return fm_connection_answer_parse(answer, strlen(answer), instance, cntlid);
}

static void test_answer(void)
{
	static const char *const bad[] = {
		"",
		"instance=1",
		"instance=1,",
		"instance=,cntlid=1",
		"instance=-1,cntlid=-1",
		"instance=1,cntlid=2x",
		"instance=1,cntlid=2\n\n",
		"instance=99999999999,cntlid=1",
		" instance=1,cntlid=2",
		"cntlid=1,instance=2",
		"instance=+1,cntlid=2",
	};
	int instance = 0, cntlid = 0;

	CU_ASSERT_EQUAL(parse("instance=3,cntlid=17\n", &instance, &cntlid), 0);
	CU_ASSERT_EQUAL(instance, 3);
	CU_ASSERT_EQUAL(cntlid, 17);
	CU_ASSERT_EQUAL(parse("instance=0,cntlid=1", &instance, &cntlid), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse(bad[i], &instance, &cntlid), -EBADMSG);
	CU_ASSERT_EQUAL(
		fm_connection_answer_parse("instance=3,cntlid=1\0\n", 21, &instance, &cntlid),
		-EBADMSG);
}

static void test_knows(void)
{
	static const char known[] = "instance=-1,cntlid=-1,transport=%s,nqn=%s,hdr_digest,tls_key=%"
				    "d,dhchap_secret=%s\n";

	CU_ASSERT_TRUE(fm_connection_knows(known, "dhchap_secret"));
	CU_ASSERT_TRUE(fm_connection_knows(known, "hdr_digest"));
	CU_ASSERT_FALSE(fm_connection_knows(known, "tls"));
	CU_ASSERT_FALSE(fm_connection_knows(known, "digest"));
	CU_ASSERT_FALSE(fm_connection_knows(known, "dhchap_ctrl_secret"));
	CU_ASSERT_TRUE(fm_connection_knows("instance=-1,cntlid=-1,transport=%s,tls\n", "tls"));
	CU_ASSERT_TRUE(fm_connection_knows("", "tls"));		/* a kernel that says nothing */
}

/* ------------------------------------------------------------------------------------- troubles */

static void check_trouble(int error, const char *log, const char *secret,
			  enum fm_connection_trouble want, const char *word)
{
	struct fm_connection_opts o = opts_of();

	o.secret = secret;
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(fm_connection_explain(error, log, &o, &err), want);
	CU_ASSERT_EQUAL(err.code, error);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, word));
	CU_ASSERT_PTR_NULL(strchr(err.text, '\n'));
	CU_ASSERT_PTR_NULL(strstr(err.text, "DHHC"));
	CU_ASSERT_TRUE(strlen(fm_connection_trouble_name(want)) > 2);
}

static void test_troubles(void)
{
	struct fm_connection_opts o = opts_of();
	static const char wrong_nqn[] =
		"3,1,2,-;nvme nvme1: Connect Invalid Data Parameter, subsysnqn \"" NQN "\"\n";
	static const char not_allowed[] =
		"3,1,2,-;nvme nvme1: Connect for subsystem " NQN " is not allowed, hostnqn: x\n";
	static const char two_ids[] = "3,1,2,-;nvme_fabrics: found same hostnqn " HOST_NQN
				      " but different hostid 1-2-3\n";
	static const char no_answer[] =
		"3,1,2,-;nvme nvme1: qid 0: authentication failed, error 880\n";
	static const char of_another[] =
		"3,1,2,-;nvme nvme1: Connect Invalid Data Parameter, subsysnqn \"other\"\n";

	check_trouble(-EHOSTUNREACH, "", NULL, FM_TROUBLE_UNREACHABLE, "10.77.0.2 port 4420");
	check_trouble(-ECONNREFUSED, "", NULL, FM_TROUBLE_UNREACHABLE, "is the target up");
	check_trouble(-ECONNREFUSED, "", SECRET, FM_TROUBLE_UNREACHABLE, "wrong secret");
	o.port = "8009";
	CU_ASSERT_EQUAL(fm_connection_explain(-ECONNREFUSED, "", &o, &err), FM_TROUBLE_UNREACHABLE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "ADDRESS:4420"));
	check_trouble(-ETIMEDOUT, "", NULL, FM_TROUBLE_UNREACHABLE, "is the target up");
	check_trouble(-EIO, wrong_nqn, NULL, FM_TROUBLE_NQN, "fmove nvme discover 10.77.0.2");
	check_trouble(-EIO, not_allowed, NULL, FM_TROUBLE_NOT_ALLOWED, "add " HOST_NQN);
	check_trouble(-EIO, of_another, NULL, FM_TROUBLE_REFUSED, "or does not allow");
	check_trouble(-EIO, "", NULL, FM_TROUBLE_REFUSED, "or does not allow");
	check_trouble(-EKEYREJECTED, "", SECRET, FM_TROUBLE_SECRET, "not the one the target has");
	check_trouble(-EIO, no_answer, SECRET, FM_TROUBLE_SECRET, "most likely");
	check_trouble(-EIO, no_answer, NULL, FM_TROUBLE_REFUSED, "or does not allow");
	check_trouble(-ENOKEY, "", NULL, FM_TROUBLE_SECRET, "set secret_file");
	check_trouble(-EOPNOTSUPP, "", SECRET, FM_TROUBLE_KERNEL, "DH-HMAC-CHAP");
	check_trouble(-ENOENT, "", NULL, FM_TROUBLE_MODULE, "modprobe nvme_tcp");
	check_trouble(-EPERM, "", NULL, FM_TROUBLE_PERMISSION, "root");
	check_trouble(-EINVAL, "", NULL, FM_TROUBLE_VALUE, "dmesg");
	check_trouble(-EINVAL, two_ids, NULL, FM_TROUBLE_HOST, "disconnect it");
	check_trouble(-ENOMEM, "", NULL, FM_TROUBLE_OTHER, "memory");
}

/* ---------------------------------------------------------------------- the files of the kernel */

static char root[64];

static void put(const char *path, const char *content)
{
	char full[256];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	(void)fputs(content, f);
	(void)fclose(f);
}

static char *get(const char *path)
{
	static char content[2 * FM_CONNECTION_OPTIONS_MAX];
	char full[256];
	size_t len;
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	len = fread(content, 1, sizeof(content) - 1, f);
	content[len] = '\0';
	(void)fclose(f);
	return content;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void clear_root(void)
{
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A kernel that answers `answer` to these options, and knows what there is. */
static void make_kernel(const struct fm_connection_opts *o, const char *answer)
{
	static char file[2 * FM_CONNECTION_OPTIONS_MAX];
	size_t len;

	(void)snprintf(root, sizeof(root), "/tmp/fm-connection-XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	CU_ASSERT_EQUAL_FATAL(fm_connection_options(o, text, &err), 0);
	len = strlen(text);
	memset(file, ' ', len);
	(void)snprintf(file + len, sizeof(file) - len, "%s", answer);
	put("/dev/nvme-fabrics", file);
	put("/sys/module/nvme_tcp/refcnt", "1\n");
	put("/sys/class/nvme/nvme3/subsysnqn", NQN "\n");
	put("/sys/class/nvme/nvme3/hostnqn", HOST_NQN "\n");
	put("/sys/class/nvme/nvme3/transport", "tcp\n");
	put("/sys/class/nvme/nvme3/uevent",
	    "DEVNAME=nvme3\nNVME_TRTYPE=tcp\nNVME_TRADDR=10.77.0.2\nNVME_TRSVCID=4420\n");
	put("/sys/class/nvme/nvme3/state", "live\n");
	put("/sys/class/nvme/nvme3/cntlid", "5\n");
	put("/sys/class/nvme/nvme3/fast_io_fail_tmo", "off\n");
	put("/sys/class/nvme/nvme3/delete_controller", "");
	put("/sys/class/nvme/nvme3/rescan_controller", "");
}

static void test_open(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble = FM_TROUBLE_OTHER;
	struct fm_connection c = { 0 };

	make_kernel(&o, "instance=3,cntlid=17\n");
	o.fast_io_fail_s = 30;
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), 0);
	CU_ASSERT_EQUAL(trouble, FM_TROUBLE_NONE);
	CU_ASSERT_STRING_EQUAL(c.controller, "nvme3");
	CU_ASSERT_EQUAL(c.cntlid, 17);
	CU_ASSERT_FALSE(c.was_there);
	CU_ASSERT_EQUAL(fm_connection_options(&o, text, &err), 0);
	CU_ASSERT_EQUAL(strncmp(get("/dev/nvme-fabrics"), text, strlen(text)), 0);
	CU_ASSERT_EQUAL(strncmp(get("/sys/class/nvme/nvme3/fast_io_fail_tmo"), "30", 2), 0);
	clear_root();
}

static void test_rescan(void)
{
	struct fm_connection_opts o = opts_of();

	make_kernel(&o, "");
	fm_connection_rescan(root, "nvme3");
	fm_connection_rescan(root, "nvme4");	/* gone */
	CU_ASSERT_EQUAL(strncmp(get("/sys/class/nvme/nvme3/rescan_controller"), "1", 1), 0);
	clear_root();
	fm_connection_rescan(root, "nvme3");
}

/* The controller was made and the kernel did not say which: it is looked for. */
static void test_open_without_answer(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble;
	struct fm_connection c = { 0 };

	make_kernel(&o, "what?");
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), 0);
	CU_ASSERT_STRING_EQUAL(c.controller, "nvme3");
	CU_ASSERT_EQUAL(c.cntlid, 5);
	o.port = "4421";
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -EAGAIN);
	clear_root();
}

/* What the kernel cannot do is refused before anything is written to it. */
static void test_open_refused_first(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble = FM_TROUBLE_NONE;
	struct fm_connection c = { 0 };

	make_kernel(&o, "");
	put("/dev/nvme-fabrics", "instance=-1,cntlid=-1,transport=%s,dhchap_secret=%s\n");
	put("/proc/kallsyms", "0000000000000000 t nvme_auth_free\t[nvme_core]\n");
	o.secret = SECRET;
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(trouble, FM_TROUBLE_KERNEL);
	o.secret = NULL;
	o.has_tls = true;
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "TLS"));
	o.has_tls = false;
	o.host_interface = "wire0";
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(strncmp(get("/dev/nvme-fabrics"), "instance=-1", 11), 0);
	clear_root();
}

/* A kernel that takes the secret and connects without it: not a connection that may stay. */
static void test_open_secret_unused(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble = FM_TROUBLE_NONE;
	struct fm_connection c = { 0 };

	o.secret = SECRET;
	make_kernel(&o, "instance=3,cntlid=17\n");
	put("/proc/kallsyms", "0000000000000000 t nvme_auth_init_ctrl\t[nvme_core]\n");
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(trouble, FM_TROUBLE_KERNEL);
	CU_ASSERT_STRING_EQUAL(get("/sys/class/nvme/nvme3/delete_controller"), "1");
	CU_ASSERT_PTR_NULL(strstr(err.text, "DHHC"));
	clear_root();
	make_kernel(&o, "instance=3,cntlid=17\n");
	put("/proc/kallsyms", "0000000000000000 t nvme_auth_init_ctrl\t[nvme_core]\n");
	put("/sys/class/nvme/nvme3/dhchap_secret", SECRET "\n");
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), 0);
	clear_root();
}

static void test_open_no_module(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble = FM_TROUBLE_NONE;
	struct fm_connection c = { 0 };
	char path[128];

	make_kernel(&o, "");
	(void)snprintf(path, sizeof(path), "%s/dev/nvme-fabrics", root);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(fm_connection_open(root, &o, &c, &trouble, &err), -ENOENT);
	CU_ASSERT_EQUAL(trouble, FM_TROUBLE_MODULE);
	clear_root();
}

static void test_close(void)
{
	struct fm_connection_opts o = opts_of();
	char path[128], gone[128];

	make_kernel(&o, "");
	/* not there */
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme9", NQN, 0, &err), 0);
	CU_ASSERT_EQUAL(fm_connection_close(root, "../nvme3", NQN, 0, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3n1", NQN, 0, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3", "other", 0, &err), -ESTALE);
	put("/sys/class/nvme/nvme3/transport", "pcie\n");
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3", NQN, 0, &err), -EINVAL);
	CU_ASSERT_STRING_EQUAL(get("/sys/class/nvme/nvme3/delete_controller"), "");
	put("/sys/class/nvme/nvme3/transport", "tcp\n");
	/* a kernel that does not do it */
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3", NQN, 0, &err), -ETIMEDOUT);
	CU_ASSERT_STRING_EQUAL(get("/sys/class/nvme/nvme3/delete_controller"), "1");
	/* The controller goes, and somebody still holds its device. */
	put("/sys/class/nvme-subsystem/nvme-subsys3/nvme3/state", "live\n");
	put("/sys/class/nvme-subsystem/nvme-subsys3/nvme3n1/size", "8\n");
	(void)snprintf(path, sizeof(path), "%s/sys/class/nvme/nvme3/state", root);
	(void)snprintf(gone, sizeof(gone), "%s/sys/class/nvme/nvme3/was", root);
	CU_ASSERT_EQUAL(rename(path, gone), 0);
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3", NQN, 0, &err), -EBUSY);
	/* Another path to the same device: it stays, and rightly. */
	put("/sys/class/nvme-subsystem/nvme-subsys3/nvme4/state", "live\n");
	CU_ASSERT_EQUAL(fm_connection_close(root, "nvme3", NQN, 0, &err), 0);
	clear_root();
}

/* The library that is here is the one built against; what is no controller is an error, not a
 * crash. */
static void test_libnvme(void)
{
	struct fm_discovery *log = calloc(1, sizeof(*log));

	CU_ASSERT_PTR_NOT_NULL_FATAL(log);
	CU_ASSERT_EQUAL(fm_libnvme_check(&err), 0);
	fm_err_clear(&err);
	CU_ASSERT_TRUE(fm_libnvme_discover(-1, log, &err) < 0);
	CU_ASSERT_TRUE(err.code < 0 && strlen(err.text) > 10);
	free(log);
}

#ifdef FM_FAULTS
static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Whatever call fails, there is one error with a text and no descriptor left open. */
static void test_faults(void)
{
	struct fm_connection_opts o = opts_of();
	enum fm_connection_trouble trouble;
	struct fm_connection c;
	bool has_fired = true;
	unsigned fds = fds_open();

	for (unsigned n = 1; has_fired; n++) {
		int ret;

		CU_ASSERT_TRUE_FATAL(n < POINTS_MAX);
		make_kernel(&o, "instance=3,cntlid=17\n");
		fm_err_clear(&err);
		fm_fault_arm(NULL, n);
		ret = fm_connection_open(root, &o, &c, &trouble, &err);
		if (ret == 0)
			ret = fm_connection_close(root, c.controller, NQN, 0, &err);
		fm_connection_rescan(root, "nvme3");
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(err.code, ret);
		CU_ASSERT_TRUE(ret == 0 || strlen(err.text) > 10);
		CU_ASSERT_EQUAL(fds_open(), fds);
		clear_root();
	}
}
#endif

static const struct fm_test tests[] = {
	{"every value is said, zeros too", test_options_plain},
	{"all there is to say", test_options_all},
	{"an address is written in one way", test_options_address},
	{"queues as many as cores, none for discovery", test_options_default_queues},
	{"no value can become another option", test_options_injection},
	{"what the kernel would refuse is refused here, without showing a secret",
	 test_options_refused},
	{"options longer than the kernel takes are an error", test_options_too_long},
	{"the kernel's answer is read strictly", test_answer},
	{"what a kernel knows is read from its list", test_knows},
	{"each trouble has its kind and one plain line", test_troubles},
	{"a connection is made and its settings are finished", test_open},
	{"the kernel is told to look for namespaces", test_rescan},
	{"a controller that the kernel does not name is found", test_open_without_answer},
	{"what the kernel cannot do is refused before it is asked", test_open_refused_first},
	{"a secret that the kernel did not use undoes the connection", test_open_secret_unused},
	{"a missing module is named", test_open_no_module},
	{"only the right controller is removed, and it must be gone", test_close},
	{"libnvme is the version built against", test_libnvme},
#ifdef FM_FAULTS
	{"each failure is one error and leaves nothing", test_faults},
#endif
};

FM_TEST_MAIN("connection", tests)
