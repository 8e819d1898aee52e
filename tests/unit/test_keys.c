/* SPDX-License-Identifier: MIT */
/*
 * keys and invitations: made once, readable by their owner, used once.
 *
 * links: fm_config
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/base64.h"
#include "config/files.h"
#include "config/invite.h"
#include "config/keys.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"

static char dir[] = "/tmp/fmove-test-keys.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void run(const char *fmt, const char *arg)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof(command), "cd '%s' && ", dir);
	snprintf(command + strlen(command), sizeof(command) - strlen(command), "%s%s", fmt, arg);
	CU_ASSERT_EQUAL(system(command), 0);
}

static void test_base64(void)
{
	/* RFC 4648, section 10 */
	static const struct { const char *bytes, *text, *url;
	} cases[] = {
		{"", "", ""},
		{"f", "Zg==", "Zg"},
		{"fo", "Zm8=", "Zm8"},
		{"foo", "Zm9v", "Zm9v"},
		{"foob", "Zm9vYg==", "Zm9vYg"},
		{"fooba", "Zm9vYmE=", "Zm9vYmE"},
		{"foobar", "Zm9vYmFy", "Zm9vYmFy"},
		{"\xfb\xff\xfe", "+//+", "-__-"},
	};
	char text[16];
	uint8_t back[8];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = strlen(cases[i].bytes);

		fm_base64_encode(FM_BASE64, (const uint8_t *)cases[i].bytes, len, text);
		CU_ASSERT_STRING_EQUAL(text, cases[i].text);
		CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, text, back, len), 0);
		CU_ASSERT_EQUAL(memcmp(back, cases[i].bytes, len), 0);
		fm_base64_encode(FM_BASE64_URL, (const uint8_t *)cases[i].bytes, len, text);
		CU_ASSERT_STRING_EQUAL(text, cases[i].url);
		CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64_URL, text, back, len), 0);
	}
	/* bits that belong to no byte */
	CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, "Zh==", back, 1), -EINVAL);
	CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, "Zg=", back, 1), -EINVAL);
	CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, "Zg==", back, 2), -EINVAL);
	CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, "Z===", back, 1), -EINVAL);
	CU_ASSERT_EQUAL(fm_base64_decode(FM_BASE64, "+_+_", back, 3), -EINVAL);
}

static void test_generate(void)
{
	uint8_t key[FM_VALUE_KEY_LEN], back[FM_VALUE_KEY_LEN], other[FM_VALUE_KEY_LEN];
	struct fm_err err = { 0 };
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fm_key_generate(path_of("a.key"), key, &err), 0);
	CU_ASSERT_TRUE(stat(path_of("a.key"), &st) == 0 && (st.st_mode & 07777) == 0400);
	CU_ASSERT_EQUAL(fm_key_read(path_of("a.key"), back, &err), 0);
	CU_ASSERT_EQUAL(memcmp(key, back, sizeof(key)), 0);
	CU_ASSERT_EQUAL(fm_key_generate(path_of("a.key"), other, &err), -EEXIST);
	CU_ASSERT_EQUAL(fm_key_read(path_of("a.key"), back, &err), 0);
	CU_ASSERT_EQUAL(memcmp(key, back, sizeof(key)), 0);
	CU_ASSERT_EQUAL(fm_key_generate(path_of("b.key"), other, &err), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(key, other, sizeof(key)), 0);
}

/* What openssl(1) says of the same file. */
static void test_openssl_agrees(void)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	char ours[FM_VALUE_KEY_TEXT_MAX], command[256];
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_key_generate(path_of("o.key"), key, &err), 0);
	fm_value_key_print(key, ours);
	snprintf(command, sizeof(command),
		 "test \"$(openssl pkey -in o.key -pubout -outform DER | tail -c 32 | base64)\" = "
		 "'%s'", ours);
	run(command, "");
}

static void test_bad_keys(void)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_key_read(path_of("none"), key, &err), -ENOENT);
	run("cp a.key open.key && chmod 0440 open.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("open.key"), key, &err), -EACCES);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "mode 0440); run: chmod 0400"));
	run("echo nonsense > no.key; chmod 0400 no.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("no.key"), key, &err), -EINVAL);
	run("openssl genpkey -algorithm X25519 -out x.key 2>/dev/null; chmod 0400 x.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("x.key"), key, &err), -EINVAL);
	run("openssl genpkey -algorithm ED25519 -aes256 -pass pass:abcd -out p.key 2>/dev/null; "
	    "chmod 0400 p.key",
	    "");
	/* and asks nobody for the password */
	CU_ASSERT_EQUAL(fm_key_read(path_of("p.key"), key, &err), -EINVAL);
	CU_ASSERT_EQUAL(fm_key_read("/dev/null", key, &err), -EINVAL);
}

/*
 * Who owns the file can have another key in it. Root reads what the directory's owner may have, or
 * what only root can have put there.
 */
static void test_key_of_another(void)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	struct fm_err err = { 0 };

	if (geteuid() != 0)
		return;		/* nobody else can give a file away */
	run("mkdir -m 0755 given && cp a.key given/ && chown 12345 given/a.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("given/a.key"), key, &err), 0);
	run("chmod 0777 given", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("given/a.key"), key, &err), -EACCES);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "belongs to user 12345"));
	run("mkdir -p service && cp a.key service/ && chown -R 12345 service", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("service/a.key"), key, &err), 0);
	run("chown 12346 service/a.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("service/a.key"), key, &err), -EACCES);
	run("chown 0 service/a.key", "");
	CU_ASSERT_EQUAL(fm_key_read(path_of("service/a.key"), key, &err), 0);
}

static void test_key_nth_failure(void)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	bool has_fired = true;
	struct fm_err err;

	for (unsigned n = 1; has_fired && n < 100; n++) {
		int ret;

		fm_fault_arm(NULL, n);
		ret = fm_key_generate(path_of("f.key"), key, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE(has_fired ? ret < 0 : ret == 0);
		/* no half of a key */
		CU_ASSERT_EQUAL(access(path_of("f.key"), F_OK) == 0, !has_fired);
	}
	CU_ASSERT_FALSE(has_fired);
}

/* ---- invitations ---- */

static void test_token_text(void)
{
	struct fm_invite invite, back;
	char text[FM_INVITE_TEXT_MAX];

	memset(&invite, 0xa5, sizeof(invite));
	fm_invite_print(&invite, text);
	CU_ASSERT_EQUAL(strlen(text), 64);
	CU_ASSERT_EQUAL(fm_invite_parse(text, &back), 0);
	CU_ASSERT_EQUAL(memcmp(&invite, &back, sizeof(back)), 0);
	text[63] = '\0';
	CU_ASSERT_EQUAL(fm_invite_parse(text, &back), -EINVAL);
	CU_ASSERT_EQUAL(fm_invite_parse("", &back), -EINVAL);
}

static void test_used_once(void)
{
	struct fm_invite one = { .key = { 1 } }, two = { .key = { 1 } };
	uint8_t wrong[FM_INVITE_SECRET_LEN] = { 0 };
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_invite_check(dir, wrong, &err), -ENOENT);	/* no directory at all */
	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &one, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &two, &err), 0);
	CU_ASSERT_NOT_EQUAL(memcmp(one.secret, two.secret, sizeof(one.secret)), 0);
	CU_ASSERT_EQUAL(fm_invite_check(dir, wrong, &err), -ENOENT);
	CU_ASSERT_EQUAL(fm_invite_check(dir, one.secret, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_check(dir, one.secret, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_use(dir, one.secret, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_use(dir, one.secret, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "wrong, or was used already"));
	CU_ASSERT_EQUAL(fm_invite_use(dir, two.secret, &err), 0);
}

/* The file holds a hash and no secret; what else lies there opens nothing and is left alone. */
static void test_directory_tells_nothing(void)
{
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };
	struct stat st;
	char text[FM_INVITE_TEXT_MAX];

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	fm_invite_print(&invite, text);
	text[20] = '\0';	/* the secret's part */
	run("! grep -rqF -- ", text);
	CU_ASSERT_TRUE(stat(path_of("invites"), &st) == 0 && (st.st_mode & 0777) == 0700);
	run("echo rubbish > invites/0123456789abcdef; mkdir invites/d; ln -s /etc/passwd "
	    "invites/l; : > "
	    "invites/0000000000000000",
	    "");
	CU_ASSERT_EQUAL(fm_invite_check(dir, invite.secret, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), 0);
	run("test -f invites/0123456789abcdef && test -d invites/d && rm -r invites", "");
}

static time_t passed_s;

/* The machine's own time, later; nobody sets it. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, out);

	if (clock == CLOCK_BOOTTIME)
		out->tv_sec += passed_s;
	return ret;
}

/* Goal: a token ends by itself, whatever becomes of the clock that people set, and does not come to
 * life again. Method: time passes on the other one; its file is as after a restart. */
static void test_too_late(void)
{
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	passed_s = FM_INVITE_VALID_S - 5;
	CU_ASSERT_TRUE(fm_invite_left(dir, &err) > 0);
	CU_ASSERT_EQUAL(fm_invite_check(dir, invite.secret, &err), 0);
	passed_s = FM_INVITE_VALID_S;
	CU_ASSERT_EQUAL(fm_invite_left(dir, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), -ETIME);
	passed_s = 0;
	run("sed -i 's/ [0-9]* / 99999999999 /' invites/*", "");
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), -ETIME);

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	run("test $(ls invites | wc -l) -eq 1", "");
	CU_ASSERT_EQUAL(fm_invite_check(dir, invite.secret, &err), 0);
	/* of another run of the machine, which may be at any time */
	run("sed -i 's/-[0-9a-f]*$/-000000000000/' invites/*", "");
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), -ETIME);
	/* of a version that wrote the time of the day */
	run("sed -i 's/ .*/ 1/' invites/*", "");
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), -ETIME);
	run("rm -r invites", "");
}

/* What is not used up for good must not open anything: power may go, and the file be there
 * again. */
static void test_use_is_synced(void)
{
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
	fm_fault_arm("invite.sync", 1);
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), -EIO);
	fm_fault_arm(NULL, 0);
	fm_fault_arm("boot.id", 1);
	CU_ASSERT_EQUAL(fm_invite_left(dir, &err), -EIO);
	fm_fault_arm(NULL, 0);
	run("rm -r invites", "");
}

/* Goal: a token can be an operand. Method: so many that one in 64 would show. */
static void test_no_option(void)
{
	char text[FM_INVITE_TEXT_MAX];
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };

	for (int i = 0; i < 1000; i++) {
		CU_ASSERT_EQUAL_FATAL(fm_invite_new(dir, &invite, &err), 0);
		fm_invite_print(&invite, text);
		CU_ASSERT_NOT_EQUAL(text[0], '-');
		CU_ASSERT_EQUAL_FATAL(fm_invite_use(dir, invite.secret, &err), 0);
	}
}

static void test_limit(void)
{
	struct fm_invite invite = { .key = { 1 } };
	struct fm_err err = { 0 };

	run("rm -rf invites", "");
	for (int i = 0; i < FM_INVITES_MAX; i++)
		CU_ASSERT_EQUAL(fm_invite_new(dir, &invite, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_new(dir, &invite, &err), -ENOSPC);
	CU_ASSERT_EQUAL(fm_invite_use(dir, invite.secret, &err), 0);
	CU_ASSERT_EQUAL(fm_invite_new(dir, &invite, &err), 0);
}

/* Goal: also where a file system cannot rename to a free name only, nothing is replaced. */
static void test_file_without_noreplace(void)
{
	struct fm_file_write how = { .mode = 0600 };
	struct fm_err err = { 0 };

	run("mkdir free", "");
	how.path = path_of("free/file");
	for (unsigned i = 0; i < 2; i++) {
		fm_fault_arm("config.noreplace", 1);
		CU_ASSERT_EQUAL(fm_file_write(&how, i ? "other\n" : "first\n", &err),
				i ? -EEXIST : 0);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		run("test \"$(ls -A free; cat free/file)\" = \"$(echo file; echo first)\"", "");
	}
}

static void test_end(void)
{
	run("rm -rf ../", strrchr(dir, '/') + 1);
}

static void test_begin(void)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
}

static const struct fm_test tests[] = {
	{ "a directory for the tests below", test_begin },
	{ "base64 is that of RFC 4648, and strict", test_base64 },
	{ "a key is made once, for its owner only", test_generate },
	{ "openssl reads the same public key", test_openssl_agrees },
	{ "a file that is no key is named and explained", test_bad_keys },
	{ "the key of another user", test_key_of_another },
	{ "the n-th failure leaves no key file", test_key_nth_failure },
	{ "a token's text is whole or refused", test_token_text },
	{ "a token works once", test_used_once },
	{ "who reads the directory cannot join", test_directory_tells_nothing },
	{ "a token ends by itself", test_too_late },
	{ "a token is used up for good, or opens nothing", test_use_is_synced },
	{ "no token looks like an option", test_no_option },
	{ "open tokens have a limit", test_limit },
	{ "a file system that cannot rename to a free name has them all the same",
	  test_file_without_noreplace },
	{ "the directory goes again", test_end },
};

FM_TEST_MAIN("keys", tests)
