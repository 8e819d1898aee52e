/* SPDX-License-Identifier: MIT */
/* links: fm_store */
/*
 * test_placing - who is refused since the name is taken may be the one who gave it: it is on the
 * disk then, and not about to go.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/unit/store_scene.h"

/* ---- a disk ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool holds;			/* a sync of a directory does not return ... */
	bool has_come;			/* ... and there is one */
	int code;			/* what it returns then: an errno; 0: the disk's own */
	unsigned files, dirs;		/* synced so far */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int hold_here(void)
{
	int code;

	pthread_mutex_lock(&disk.lock);
	disk.dirs++;
	disk.has_come |= disk.holds;
	pthread_cond_broadcast(&disk.changed);
	while (disk.holds)
		pthread_cond_wait(&disk.changed, &disk.lock);
	code = disk.code;
	pthread_mutex_unlock(&disk.lock);
	return code;
}

/* Instead of the library's. */
int fsync(int fd)
{
	struct stat st;
	int code = 0;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		code = hold_here();
	else
		disk.files++;
	errno = code;
	return code ? -1 : (int)syscall(SYS_fsync, fd);
}

static void disk_holds(bool holds, int code)
{
	pthread_mutex_lock(&disk.lock);
	disk.holds = holds;
	disk.has_come &= holds;
	disk.code = code;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static void await_sync(void)
{
	pthread_mutex_lock(&disk.lock);
	while (!disk.has_come)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

static void forget_syncs(void)
{
	disk.files = disk.dirs = 0;
}

/* ---- a sink ---- */

static const struct fm_attr attr = { .mode = 0644 };

static int try_create(const char *path, bool is_synced, struct fm_file **out)
{
	const struct fm_create how = { .size = 0, .is_synced = is_synced };

	fm_err_clear(&err);
	return s->ops->create(s, path, &root_user, &how, out, &err);
}

static struct fm_file *create(const char *path)
{
	struct fm_file *file = NULL;

	CU_ASSERT_EQUAL_FATAL(try_create(path, true, &file), 0);
	return file;
}

static int publish(struct fm_file *file, bool is_durable)
{
	struct fm_err why = { 0 };
	int ret = file->ops->publish(file, 0, &attr, is_durable, &why);

	if (ret < 0)
		file->ops->discard(file);
	file->ops->close(file);
	return ret;
}

static void drop(struct fm_file *file)
{
	file->ops->discard(file);
	file->ops->close(file);
}

static void *publish_durably(void *arg)
{
	return (void *)(intptr_t)publish(arg, true);
}

static int joined(pthread_t thread)
{
	void *ret;

	pthread_join(thread, &ret);
	return (int)(intptr_t)ret;
}

/* ---- what has the name ---- */

static void test_what_exists_is_synced_first(void)
{
	struct fm_file *file;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(publish(create("d/e/f"), false), 0);
	forget_syncs();
	CU_ASSERT_EQUAL(try_create("d/e/f", false, &file), -EEXIST);
	CU_ASSERT_EQUAL(disk.files + disk.dirs, 0);
	CU_ASSERT_EQUAL(try_create("d/e/f", true, &file), -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "exists"));
	CU_ASSERT_EQUAL(disk.files, 1);
	CU_ASSERT_TRUE(disk.dirs >= 3);		/* e, d, and the store */
	/* What cannot be synced is not said to exist. */
	disk_holds(false, EIO);
	CU_ASSERT_EQUAL(try_create("d/e/f", true, &file), -EIO);
	disk_holds(false, 0);
	CU_ASSERT_EQUAL(s->ops->remove(s, "d", &root_user, true, &err), 0);
	end();
}

/* The same of a name that is taken only when it is to be given. */
static void test_what_appears_is_synced_first(void)
{
	struct fm_file *one, *other;

	begin(ON_DISK, false);
	one = create("f");
	other = create("f");
	CU_ASSERT_EQUAL(publish(one, false), 0);
	forget_syncs();
	CU_ASSERT_EQUAL(publish(other, true), -EEXIST);
	CU_ASSERT_TRUE(disk.files >= 1 && disk.dirs >= 1);
	end();
}

/* is_undone: its sync fails, and it takes its name back. */
static void try_under_way(bool is_undone)
{
	struct fm_file *file = create("f"), *other = create("f");
	pthread_t thread;

	disk_holds(true, 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, publish_durably, file), 0);
	await_sync();
	CU_ASSERT_EQUAL(access(at("f"), F_OK), 0);
	CU_ASSERT_EQUAL(try_create("f", true, &file), -EBUSY);
	CU_ASSERT_EQUAL(try_create("f", false, &file), -EBUSY);
	CU_ASSERT_EQUAL(publish(other, false), -EBUSY);
	disk_holds(false, is_undone ? EIO : 0);
	CU_ASSERT_EQUAL(joined(thread), is_undone ? -EIO : 0);
	disk_holds(false, 0);
	CU_ASSERT_EQUAL(try_create("f", true, &file), is_undone ? 0 : -EEXIST);
	if (is_undone)
		drop(file);
}

static void test_a_publication_under_way_is_not_there_yet(void)
{
	begin(ON_DISK, false);
	try_under_way(true);
	try_under_way(false);
	end();
}

static void *create_the_same(void *arg)
{
	const struct fm_create how = { .size = 0, .is_synced = true };
	struct fm_err why = { 0 };
	struct fm_file *file = NULL;
	int ret = s->ops->create(s, "f", &root_user, &how, &file, &why);

	(void)arg;
	if (ret == 0)
		drop(file);
	return (void *)(intptr_t)ret;
}

/* One that ends soon is waited for. */
static void test_the_end_of_a_publication_is_waited_for(void)
{
	pthread_t thread, asks;
	struct fm_file *file;
	int ret;

	begin(ON_DISK, false);
	file = create("f");
	disk_holds(true, 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, publish_durably, file), 0);
	await_sync();
	CU_ASSERT_EQUAL_FATAL(pthread_create(&asks, NULL, create_the_same, NULL), 0);
	(void)usleep(1000);
	disk_holds(false, 0);
	CU_ASSERT_EQUAL(joined(thread), 0);
	ret = joined(asks);
	CU_ASSERT_TRUE(ret == -EEXIST || ret == -EBUSY);	/* a machine may stand still */
	end();
}

static const struct fm_test tests[] = {
	{ "what exists is synced before that is said", test_what_exists_is_synced_first },
	{ "what has appeared is, too", test_what_appears_is_synced_first },
	{ "a publication under way is not there yet",
	  test_a_publication_under_way_is_not_there_yet },
	{ "its end is waited for", test_the_end_of_a_publication_is_waited_for },
};

int main(void)
{
	return fm_test_main("placing", tests, sizeof(tests) / sizeof(tests[0]));
}
