// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege/privilege.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "privilege/landlock.h"
#include "privilege/seccomp.h"
#include "privilege/user.h"

enum { USER_BYTES = 64 }; // maximum size of a user's name in a message with its final NUL

/// Rights that the process retains when it drops all others.
struct kept {
    const char *user; // value of --user; NULL = the user "twinwall"
    bool sandbox;
    bool raw; // true if CAP_NET_RAW is retained, too
    enum privilege_list list;
    const struct options *options; // options that name the files needed later; NULL = no files
    const struct policy *policy;   // policy whose files are needed later; NULL = no files
};

int privilege_check(const struct options *options, struct failure *failure) {
    struct privilege_user user;

    return geteuid() == 0 ? privilege_user_find(options->user, &user, failure) : 0;
}

/// Fills in the failure to change to a user. Returns -EPERM.
static int fail_become(const struct privilege_user *user, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CAPABILITY,
                "can't become user \"%s\": leave root CAP_SETUID, CAP_SETGID and CAP_SETPCAP for "
                "the start, or say --user root",
                user->name);
    return -EPERM;
}

/// Returns the signal that the kernel sends to this process at the parent's end. The kernel forgets
/// this signal when the user changes; restore_parents_end sets it again.
static struct privilege_end parents_end(void) {
    struct privilege_end end = {.parent = getppid()};

    prctl(PR_GET_PDEATHSIG, &end.signal);
    return end;
}

static void restore_parents_end(const struct privilege_end *end) {
    prctl(PR_SET_PDEATHSIG, (unsigned long)end->signal);
    if (end->signal != 0 && getppid() != end->parent)
        raise(end->signal); // the parent ended before prctl
}

int privilege_lower(const struct options *options, struct privilege_lowered *lowered,
                    struct failure *failure) {
    struct privilege_user user = {.uid = geteuid(), .gid = getegid()};

    if (geteuid() == 0 && privilege_user_find(options->user, &user, failure) < 0)
        return -EINVAL;
    capng_get_caps_process();
    lowered->capabilities = capng_save_state();
    lowered->end = parents_end();
    // The groups are not needed any more: privilege_drop removes them.
    if (user.uid != geteuid() && setgroups(0, NULL) < 0)
        goto failed;
    setfsgid(user.gid);
    setfsuid(user.uid);
    for (unsigned capability = 0; capability <= CAP_LAST_CAP; capability++)
        capng_update(CAPNG_DROP, CAPNG_EFFECTIVE, capability);
    // Neither call reports success, but with an invalid number both return the current value.
    if (capng_apply(CAPNG_SELECT_CAPS) == 0 && (uid_t)setfsuid((uid_t)-1) == user.uid &&
        (gid_t)setfsgid((gid_t)-1) == user.gid)
        return 0;
failed:
    privilege_raise(lowered);
    return fail_become(&user, failure);
}

void privilege_raise(struct privilege_lowered *lowered) {
    setfsuid(geteuid());
    setfsgid(getegid());
    capng_restore_state(&lowered->capabilities);
    capng_apply(CAPNG_SELECT_CAPS);
    restore_parents_end(&lowered->end);
}

int privilege_none(struct failure *failure) {
    const uid_t user = getuid();
    const gid_t group = getgid();

    if (user == 0)
        return 0;
    capng_clear(CAPNG_SELECT_ALL);
    if (setresgid(group, group, group) == 0 && setresuid(user, user, user) == 0 &&
        capng_apply(CAPNG_SELECT_CAPS) == 0 && capng_apply(CAPNG_SELECT_AMBIENT) == 0)
        return 0;
    failure_set_start(failure, "capset", errno);
    return -EPERM;
}

/// Selects the capabilities to keep: all permitted capabilities if the sandbox is off; otherwise
/// CAP_NET_ADMIN, and CAP_NET_RAW if it is requested and permitted.
static void choose_capabilities(const struct kept *kept) {
    const bool raw = kept->raw && capng_have_capability(CAPNG_PERMITTED, CAP_NET_RAW);

    if (!kept->sandbox)
        return;
    capng_clear(CAPNG_SELECT_ALL);
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_NET_ADMIN);
    if (raw)
        capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_NET_RAW);
}

/// Changes to the user and its group, without supplementary groups. Returns 0 or -1.
static int change_ids(const struct privilege_user *user) {
    if (setresgid(user->gid, user->gid, user->gid) < 0 || setgroups(0, NULL) < 0)
        return -1;
    return setresuid(user->uid, user->uid, user->uid);
}

/// Changes to the user, with the chosen capabilities.
/// - bounds: true if this process may change the bounding set. If it is false and the sandbox is
///   on, the function fails; it does not call libcap-ng, which would print an error.
/// - Returns 0, or -EPERM with failure filled in.
static int become_user(const struct privilege_user *user, const struct kept *kept, bool bounds,
                       struct failure *failure) {
    if ((!kept->sandbox || (bounds && capng_apply(CAPNG_SELECT_BOUNDS) == 0)) &&
        prctl(PR_SET_KEEPCAPS, 1UL) == 0 && change_ids(user) == 0 &&
        capng_apply(CAPNG_SELECT_CAPS) == 0 &&
        (!kept->sandbox || capng_apply(CAPNG_SELECT_AMBIENT) == 0) &&
        prctl(PR_SET_KEEPCAPS, 0UL) == 0)
        return 0;
    return fail_become(user, failure);
}

/// Sets the chosen capabilities without a change of the user. Does nothing if the sandbox is off.
/// - bounds: true if this process may change the bounding set; false = the set stays as it is.
/// - Returns 0, or -EPERM with failure filled in.
static int stay(const struct kept *kept, bool bounds, struct failure *failure) {
    if (!kept->sandbox)
        return 0;
    // Failure is ignored: the bounding set has no effect with no_new_privs.
    if (bounds)
        (void)capng_apply(CAPNG_SELECT_BOUNDS);
    if (capng_apply(CAPNG_SELECT_CAPS) == 0 && capng_apply(CAPNG_SELECT_AMBIENT) == 0)
        return 0;
    failure_set_start(failure, "capset", errno);
    return -EPERM;
}

/// Changes the user if root has started the program, and the capabilities. Returns 0, or -errno
/// with failure filled in.
static int change_rights(const struct kept *kept, struct failure *failure) {
    const struct privilege_end end = parents_end();
    struct privilege_user user = {.uid = 0};
    int result;
    bool bounds;

    if (geteuid() == 0) {
        result = privilege_user_find(kept->user, &user, failure);
        if (result < 0)
            return result;
    }
    capng_get_caps_process();
    bounds = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);
    choose_capabilities(kept);
    result =
        user.uid != 0 ? become_user(&user, kept, bounds, failure) : stay(kept, bounds, failure);
    if (result < 0)
        return result;
    restore_parents_end(&end);
    return 0;
}

/// Logs a warning for each file of the policy that a reload can't read.
static void warn_of_files(const struct kept *kept) {
    const struct passwd *user = getpwuid(geteuid());
    char name[USER_BYTES];

    if (user)
        snprintf(name, sizeof name, "%s", user->pw_name);
    else
        snprintf(name, sizeof name, "%u", geteuid());
    for (uint32_t i = 0; kept->policy && i < kept->policy->file_count; i++)
        if (access(kept->policy->files[i], R_OK) < 0)
            log_warn("%s: %s for user %s: a reload will fail: let that user read it, or choose "
                     "another with --user",
                     kept->policy->files[i], strerror(errno), name);
}

/// Sets no_new_privs: programs that are executed later get no more rights than this program.
static int set_no_new_privs(struct failure *failure) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0)
        return 0;
    failure_set_start(failure, "prctl", errno);
    return -errno;
}

static int drop_to(const struct kept *kept, struct failure *failure) {
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

    return drop_to(
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
    return drop_to(&(struct kept){.user = user, .sandbox = sandbox, .list = PRIVILEGE_GUARD},
                   failure);
}
