package link

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are values of argument 0 for starting the program in another role. They are not passed in
// an environment variable, because callers of [Link.Command] may set their own environment.
const (
	asEmulator = "haul-link: emulator"
	asGuest    = "haul-link: enter namespace"
	asPinned   = "haul-link: enter namespace on one core"
	asProbe    = "haul-link: probe"
)

var mainCalled bool // Main has been called; set once, before other goroutines exist

// Main must be the first call in main, and in TestMain, of a program that uses this package. If
// the program was started as a part of a link, Main does not return.
func Main() {
	mainCalled = true
	var part func(args []string) error
	switch os.Args[0] {
	case asEmulator:
		part = emulate
	case asGuest:
		part = guest
	case asPinned:
		part = pinned
	case asProbe:
		part = probe
	default:
		return
	}
	if err := part(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "link:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// self is a path that always leads to the program of this process, even if its file was replaced
// meanwhile.
const self = "/proc/self/exe"

// guest replaces this process by a program in a namespace. args holds the namespace's name, the
// program's path, the local address, the peer's address, and the program's arguments from argument
// 0 on.
func guest(args []string) error {
	name, path, local, peer, argv := args[0], args[1], args[2], args[3], args[4:]
	// The thread that calls execve becomes the process, so it is enough that this thread is in
	// the namespace.
	if err := enter(namespacePath(name)); err != nil {
		return err
	}
	env := []string{envLocal + "=" + local, envPeer + "=" + peer}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, envLocal+"=") && !strings.HasPrefix(v, envPeer+"=") {
			env = append(env, v)
		}
	}
	if err := unix.Exec(path, argv, env); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}

// These environment variables give programs the addresses of both sides.
const (
	envLocal = "HAUL_LINK_LOCAL"
	envPeer  = "HAUL_LINK_PEER"
)

// died makes the kernel kill a child when the thread that started it exits, at the latest when this
// process exits. So it must not be used in a goroutine that locks its thread and then returns.
func died() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// absolute returns an absolute path for a program named by a relative one.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
