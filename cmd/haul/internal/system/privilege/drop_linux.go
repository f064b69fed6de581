package privilege

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// maxCapability bounds the search for the last capability that the kernel knows: the sets are 64
// bits wide (include/linux/capability.h).
const maxCapability = 63

// Drop permanently changes all threads to u: its user, group and supplementary groups. No
// capability is left in any set, including the bounding set. It also sets no_new_privs, so that
// running a set-user-ID program does not restore any rights. Finally it tries to become root
// again, which must fail.
//
// If a process already runs as u, it keeps its groups and loses its capabilities. If it runs
// neither as u nor as root, Drop returns an error that wraps [syscall.EPERM].
//
// After an error only a part of this may be done, so the process must exit.
func Drop(u User) error {
	if err := drop(u); err != nil {
		return fmt.Errorf("become user %s: %w", u.Name, err)
	}
	return nil
}

func drop(u User) error {
	if err := allowed(u); err != nil {
		return err
	}
	if !is(u) {
		// Do this first. It requires CAP_SETPCAP, which is lost when the user changes.
		if err := dropBounding(); err != nil {
			return err
		}
		if err := become(u); err != nil {
			return err
		}
		// The memory may contain root's secrets. The kernel hides it too when the user changes,
		// unless fs.suid_dumpable is 1.
		if err := Hide(); err != nil {
			return err
		}
	}
	if err := DropCapabilities(); err != nil {
		return err
	}
	if !is(u) {
		return errors.New("the kernel agreed, but the process still runs as another user")
	}
	if syscall.Setresuid(-1, 0, -1) == nil {
		return errors.New("it could become root again")
	}
	return nil
}

// Allowed returns nil if this process may call [Drop]. If it runs neither as u nor as root, Allowed
// returns the error that Drop would return.
func Allowed(u User) error {
	if err := allowed(u); err != nil {
		return fmt.Errorf("become user %s: %w", u.Name, err)
	}
	return nil
}

func allowed(u User) error {
	switch {
	case u.UID <= 0 || u.GID < 0:
		return errors.New("that is root; name a user with fewer rights")
	case !is(u) && os.Geteuid() != 0:
		return fmt.Errorf("%w: this process is not root; start it as root, or as that user (User= of a service), or leave the user out", syscall.EPERM)
	}
	return nil
}

// is reports whether the process runs as the user and group of u, and cannot change back.
func is(u User) bool {
	r, e, s := unix.Getresuid()
	if !all(u.UID, r, e, s) {
		return false
	}
	r, e, s = unix.Getresgid()
	return all(u.GID, r, e, s)
}

// all reports whether each of the ids equals id. It compares them as unsigned 32-bit numbers, which
// the kernel uses, because package unix returns signed ones.
func all(id int, ids ...int) bool {
	return !slices.ContainsFunc(ids, func(i int) bool { return uint32(i) != uint32(id) })
}

// become changes the groups and the user, in the only order in which each step is still allowed.
func become(u User) error {
	for _, step := range []struct {
		name string
		call func() error
	}{
		{"setgroups", func() error { return syscall.Setgroups(u.Groups) }},
		{"setresgid", func() error { return syscall.Setresgid(u.GID, u.GID, u.GID) }},
		{"setresuid", func() error { return syscall.Setresuid(u.UID, u.UID, u.UID) }},
	} {
		if err := step.call(); err != nil {
			return fmt.Errorf("%s: %w%s", step.name, err, explain(err))
		}
	}
	got, err := syscall.Getgroups()
	if err != nil {
		return err
	}
	slices.Sort(got)
	if !slices.Equal(slices.Compact(got), u.Groups) {
		return fmt.Errorf("setgroups left the groups %v in place of %v", got, u.Groups)
	}
	return nil
}

// explain returns advice about an error that even root may get when it changes the user.
func explain(err error) string {
	switch {
	case errors.Is(err, syscall.EPERM):
		return ": root lacks CAP_SETUID or CAP_SETGID, as in a container; set the user where the container is started"
	case errors.Is(err, syscall.EINVAL):
		return ": the number does not exist in this user namespace"
	}
	return ""
}

// DropCapabilities removes all capabilities from all threads and sets no_new_privs, so that running
// another program does not restore any. If the process has no capabilities, it makes no call that a
// system call filter might refuse.
//
// If CAP_SETPCAP allows that, it also empties the bounding set. If not, that does not matter: the
// set only limits the rights that a program may gain when it is run, and with no_new_privs a
// program gains none.
//
// Root without capabilities still owns root's files. After an error the process must exit.
func DropCapabilities() error {
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

func dropCapabilities() error {
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 0 {
		if err := allThreads(unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	held, err := capabilities()
	if err != nil {
		return err
	}
	if held == (sets{}) {
		return nil
	}
	if held[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := dropBounding(); err != nil {
			return err
		}
	}
	// The kernel clears the ambient capabilities together with the permitted ones, but clear them
	// explicitly too. EINVAL means a kernel before Linux 4.3, which has no ambient capabilities.
	err = allThreads(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("ambient set: %w", err)
	}
	if err := setNone(); err != nil {
		return err
	}
	if held, err = capabilities(); err != nil {
		return err
	}
	if held != (sets{}) {
		return errors.New("the kernel agreed, but they are still there")
	}
	return nil
}

// sets holds the effective, permitted and inheritable capabilities. Each element of the array has
// 32 bits of each of these three sets.
type sets [2]unix.CapUserData

// capabilities returns the capabilities of the calling thread.
func capabilities() (s sets, err error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&h, &s[0]); err != nil {
		return s, fmt.Errorf("capget: %w", err)
	}
	return s, nil
}

// setNone empties the three capability sets of all threads.
//
// Package psx runs a system call on each thread. This works with cgo too, where
// syscall.AllThreadsSyscall does not. The Landlock library needs psx anyway. libcap's package cap,
// which is built on psx, would add a language for capability sets, but only the empty set is needed
// here.
func setNone() error {
	h := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none sets
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}

// dropBounding empties the bounding set of all threads. That requires CAP_SETPCAP.
func dropBounding() error {
	for c := uintptr(0); c <= maxCapability; c++ {
		err := allThreads(unix.PR_CAPBSET_DROP, c, 0)
		if errors.Is(err, syscall.EINVAL) && c > 0 {
			return nil // c is above the last capability that the kernel knows
		}
		if errors.Is(err, syscall.EPERM) {
			return nil // root in a container may lack CAP_SETPCAP; DropCapabilities says why that does not matter
		}
		if err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	return nil
}

// Hide prevents other processes of the same user from tracing this process, and from reading its
// memory, its environment and its descriptors. Core files do not contain its memory either.
// Programs that this process runs are not hidden. Root can still do all of this.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // this setting applies to all threads
		return fmt.Errorf("hide the memory of the process from its user: %w", err)
	}
	return nil
}

// allThreads calls prctl in each thread of the process.
func allThreads(option int, arg2, arg3 uintptr) error {
	// Options with one argument require the other arguments to be zero.
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, uintptr(option), arg2, arg3, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
