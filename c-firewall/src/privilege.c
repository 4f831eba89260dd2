// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "privilege_landlock.h"
#include "privilege_seccomp.h"

/// Who to be, if root may choose; the second is on every machine.
#define USER_OWN "twinwall"
#define USER_ELSE "nobody"

/// What is kept, and for whom.
struct kept {
    const char *user; // as --user; NULL = the default
    bool sandbox;
    bool raw; // CAP_NET_RAW, too
    enum privilege_list list;
    const struct options *options; // whose files are needed later; NULL = none
    const struct policy *policy;   // likewise
};

/// The user to become. Returns NULL with failure filled in if there is none.
static const struct passwd *find_user(const char *name, struct failure *failure) {
    const struct passwd *user = getpwnam(name ? name : USER_OWN);

    if (!user && !name)
        user = getpwnam(USER_ELSE);
    if (!user)
        failure_set(failure, LOG_EXIT_USAGE, "there is no user \"%s\": choose another with --user",
                    name ? name : USER_ELSE);
    return user;
}

bool privilege_user(const struct options *options, uid_t *user, gid_t *group) {
    struct failure failure;
    const struct passwd *found = geteuid() == 0 ? find_user(options->user, &failure) : NULL;

    if (!found)
        return false;
    *user = found->pw_uid;
    *group = found->pw_gid;
    return true;
}

/// Fills in the capabilities that shall be left, of those that there are.
static void choose_capabilities(const struct kept *kept) {
    const bool raw = kept->raw && capng_have_capability(CAPNG_PERMITTED, CAP_NET_RAW);

    if (!kept->sandbox)
        return;
    capng_clear(CAPNG_SELECT_ALL);
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_NET_ADMIN);
    if (raw)
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_NET_RAW);
}

/// Changes to the user and its group, without any other. Returns 0 or -1.
static int change_ids(const struct passwd *user) {
    if (setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 || setgroups(0, NULL) < 0)
        return -1;
    return setresuid(user->pw_uid, user->pw_uid, user->pw_uid);
}

/// Becomes the user, with the capabilities that were chosen.
static int become_user(const struct passwd *user, const struct kept *kept,
                       struct failure *failure) {
    if ((!kept->sandbox || capng_apply(CAPNG_SELECT_BOUNDS) == 0) &&
        prctl(PR_SET_KEEPCAPS, 1UL) == 0 && change_ids(user) == 0 &&
        capng_apply(CAPNG_SELECT_CAPS) == 0 &&
        (!kept->sandbox || capng_apply(CAPNG_SELECT_AMBIENT) == 0) &&
        prctl(PR_SET_KEEPCAPS, 0UL) == 0)
        return 0;
    failure_set(failure, LOG_EXIT_CAPABILITY,
                "can't become user \"%s\": leave root CAP_SETUID, CAP_SETGID and CAP_SETPCAP for "
                "the start, or say --user root",
                user->pw_name);
    return -EPERM;
}

/// Stays who it is, with the capabilities that were chosen.
static int stay(const struct kept *kept, struct failure *failure) {
    if (!kept->sandbox)
        return 0;
    // Only who has CAP_SETPCAP can; without new privileges the set means nothing any more.
    (void)capng_apply(CAPNG_SELECT_BOUNDS);
    if (capng_apply(CAPNG_SELECT_CAPS) == 0 && capng_apply(CAPNG_SELECT_AMBIENT) == 0)
        return 0;
    failure_set_start(failure, "capset", errno);
    return -EPERM;
}

/// Changes user and capabilities. The kernel forgets by that what the parent's end is to do.
static int change_rights(const struct kept *kept, struct failure *failure) {
    const struct passwd *user = NULL;
    const pid_t parent = getppid();
    int signal = 0, result;

    if (geteuid() == 0) {
        user = find_user(kept->user, failure);
        if (!user)
            return -EINVAL;
    }
    prctl(PR_GET_PDEATHSIG, &signal);
    capng_get_caps_process();
    choose_capabilities(kept);
    result = user && user->pw_uid != 0 ? become_user(user, kept, failure) : stay(kept, failure);
    if (result < 0)
        return result;
    prctl(PR_SET_PDEATHSIG, (unsigned long)signal);
    if (signal != 0 && getppid() != parent)
        raise(signal); // it ended between the two
    return 0;
}

/// Says which files can't be opened again, as a reload or SIGUSR2 would.
static void warn_of_files(const struct kept *kept) {
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : "?";

    for (uint32_t i = 0; kept->policy && i < kept->policy->file_count; i++)
        if (access(kept->policy->files[i], R_OK) < 0)
            log_warn("%s: %s for user %s: a reload will fail: let that user read it, or choose "
                     "another with --user",
                     kept->policy->files[i], strerror(errno), name);
}

/// What is executed later gets no more rights than the program has.
static int set_no_new_privs(struct failure *failure) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0)
        return 0;
    failure_set_start(failure, "prctl", errno);
    return -errno;
}

static int drop(const struct kept *kept, struct failure *failure) {
    int result = change_rights(kept, failure);
    const uid_t user = geteuid();
    int version, calls;

    if (result < 0)
        return result;
    warn_of_files(kept);
    if (!kept->sandbox)
        return 0;
    result = set_no_new_privs(failure);
    if (result < 0)
        return result;
    version = privilege_landlock(kept->options, kept->policy, failure);
    if (version < 0)
        return version;
    calls = privilege_seccomp(kept->list, failure);
    if (calls < 0)
        return calls;
    log_debug("sandbox: user %u, %d system calls, Landlock %d", user, calls, version);
    return 0;
}

int privilege_drop(const struct options *options, const struct loaded *loaded,
                   struct failure *failure) {
    const struct requirement *requirement = load_requirement(loaded);

    return drop(
        &(struct kept){
            .user = options->user,
            .sandbox = options->sandbox,
            .raw = requirement && requirement->reject,
            .list = PRIVILEGE_FIREWALL,
            .options = options,
            .policy = requirement ? &loaded->policy : NULL,
        },
        failure);
}

int privilege_drop_guard(const char *user, bool sandbox, struct failure *failure) {
    return drop(&(struct kept){.user = user, .sandbox = sandbox, .list = PRIVILEGE_GUARD}, failure);
}
