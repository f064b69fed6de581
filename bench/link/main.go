package link

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The program's name, as its argument 0, when it is started to be something else than
// itself. No environment is needed for it, since callers of [Link.Command] may set
// their own.
const (
	asEmulator = "haul-link: emulator"
	asGuest    = "haul-link: enter namespace"
	asPinned   = "haul-link: enter namespace on one core"
	asProbe    = "haul-link: probe"
)

var mainCalled bool // set once, before there is anything beside the main goroutine

// Main must be the first call in main, and in TestMain, of a program that uses
// this package. Where the program was started as a part of a link it does not
// return.
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

// self is this program: it is found also if its file was replaced meanwhile.
const self = "/proc/self/exe"

// guest becomes a program in a namespace: args are the namespace's name, the
// program's path, both of its addresses and its arguments from 0.
func guest(args []string) error {
	name, path, local, peer, argv := args[0], args[1], args[2], args[3], args[4:]
	// The thread that calls execve is the process from then on, so that it is
	// enough if this one is in the namespace.
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

// Where programs find the addresses of a link's ends.
const (
	envLocal = "HAUL_LINK_LOCAL"
	envPeer  = "HAUL_LINK_PEER"
)

// died makes a child end when its parent does. It is meant for the thread that
// starts it, and so is wrong for goroutines that lock theirs and end.
func died() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// absolute is for programs named by a relative path.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
