package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Space is a network namespace with only a loopback device and its own kernel settings.
// Measurements over its loopback device have the same conditions for all contenders, and the
// settings of the machine do not change. Its methods may be called from several goroutines.
type Space struct {
	name    string
	stop    func() bool // keeps the end of the context from closing the Space
	closing sync.Once
	closed  error
}

// NewSpace makes a namespace with the given kernel settings, which are named as for sysctl(8). The
// namespace is closed when ctx ends, if not earlier. If this process is killed, the next call of
// [Clean] removes the namespace.
func NewSpace(ctx context.Context, settings map[string]string) (*Space, error) {
	if !mainCalled {
		return nil, errors.New("make a network namespace: link.Main must be the first call in main")
	}
	if os.Getuid() != 0 {
		return nil, errors.New("make a network namespace: that needs root")
	}
	if err := Clean(); err != nil {
		return nil, err
	}
	names, err := newNames()
	if err != nil {
		return nil, err
	}
	s := &Space{name: names[A]}
	if err := ip("netns", "add", s.name); err != nil {
		return nil, err
	}
	if err := s.configure(ctx, settings); err != nil {
		s.remove()
		return nil, errors.Join(fmt.Errorf("make a network namespace: %w", err), s.closed)
	}
	s.stop = context.AfterFunc(ctx, s.remove)
	return s, nil
}

// configure brings the loopback device up, and applies the kernel settings.
func (s *Space) configure(ctx context.Context, settings map[string]string) error {
	if err := ip("-n", s.name, "link", "set", "dev", "lo", "up"); err != nil {
		return err
	}
	if control, ok := settings[controlSetting]; ok {
		putBack, err := allow(control)
		if err != nil {
			return err
		}
		defer putBack()
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		// A process that opens a file in /proc/sys/net gets the one of its own namespace.
		path := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
		cmd := s.Command(ctx, AnyCore, "sh", "-c", `printf '%s\n' "$1" >"$2"`, "sh", settings[name], path)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("set %s to %s: %w: %s", name, settings[name], err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// controlSetting is the kernel setting for TCP's congestion control. A namespace may use only a
// congestion control that every user of the machine may choose.
const (
	controlSetting = "net.ipv4.tcp_congestion_control"
	allowedPath    = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"

	// allowedLock is locked while a process has changed the set of congestion controls that every
	// user may choose. Otherwise one process could restore the set while another process still
	// needs its change.
	allowedLock = "/run/" + namePrefix + "congestion.lock"
)

// allow lets every user choose a congestion control until putBack is called. A namespace that has
// chosen it by then keeps it.
func allow(control string) (putBack func(), err error) {
	lock, err := os.OpenFile(allowedLock, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX) // the owner holds the lock for milliseconds
	}
	if err != nil {
		return nil, fmt.Errorf("lock what congestion control is allowed: %w", err)
	}
	putBack = func() { _ = lock.Close() } // nothing was written to the file, so an error does not matter
	was, err := os.ReadFile(allowedPath)
	if err != nil {
		putBack()
		return nil, fmt.Errorf("look whether the congestion control %s is allowed: %w", control, err)
	}
	if slices.Contains(strings.Fields(string(was)), control) {
		return putBack, nil
	}
	if err := os.WriteFile(allowedPath, []byte(strings.TrimSpace(string(was))+" "+control), 0); err != nil {
		putBack()
		return nil, fmt.Errorf("allow the congestion control %s (does this kernel have it?): %w", control, err)
	}
	return func() {
		_ = os.WriteFile(allowedPath, was, 0) // an error does not matter: the set only stays larger than before
		_ = lock.Close()
	}, nil
}

// loopback is the address of the device in a Space.
const loopback = "127.0.0.1"

// AnyCore lets a program run on all cores that this process may use.
const AnyCore = -1

// Command is like [Link.Command], for a command in the namespace. It runs only on the given core,
// from its first instruction on, or on all cores if core is AnyCore.
func (s *Space) Command(ctx context.Context, core int, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self)
	path, err := exec.LookPath(name)
	if err != nil {
		cmd.Err = fmt.Errorf("run %s in a network namespace: %w", name, err)
	}
	cmd.Args = append([]string{asPinned, strconv.Itoa(core), s.name, absolute(path), loopback, loopback, name}, args...)
	cmd.SysProcAttr = died()
	return cmd
}

// pinned is like guest, but first confines this process to the core whose number is the first
// argument, unless that is AnyCore.
func pinned(args []string) error {
	core, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("run on core %q: %w", args[0], err)
	}
	runtime.LockOSThread() // only this thread is confined to the core, and the thread that calls execve becomes the process
	if core != AnyCore {
		var set unix.CPUSet
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("run on core %d: %w", core, err)
		}
	}
	return guest(args[1:])
}

// Cores returns the numbers of the cores that this process may use.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("find out which cores this process may use: %w", err)
	}
	var cores []int
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores, nil
}

// Close ends the programs in the namespace, and removes the namespace. Later calls return the
// result of the first call.
func (s *Space) Close() error {
	s.stop()
	s.remove()
	return s.closed
}

func (s *Space) remove() {
	s.closing.Do(func() { s.closed = removeAll([]string{s.name}, nil) })
}
