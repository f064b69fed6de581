package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
)

// ownPrefix begins the names of things that a run makes outside its own directories. The PID
// follows.
const ownPrefix = "haul-bench-"

// ownName returns a name for something of this run.
func ownName() string { return fmt.Sprintf("%s%d", ownPrefix, os.Getpid()) }

// Clean removes leftovers of killed runs: servers and their control groups, links, and files in
// dir. An empty dir means the same as in [Suite]. It does not touch anything of running
// processes. [Suite.Run] begins with it.
func Clean(dir string) error {
	peer.Clean() // first, because processes keep the other control groups alive
	sweep(placeFor(dir), os.RemoveAll)
	for _, c := range controllers1 {
		sweep(filepath.Join(unified, c), os.Remove)
	}
	return link.Clean()
}

// placeFor returns the directory for the files of a run.
func placeFor(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}

// sweep removes the leftovers of killed runs from a directory. It keeps files that a process may
// still use, and files that no run made.
func sweep(dir string, remove func(path string) error) {
	made, _ := filepath.Glob(filepath.Join(dir, ownPrefix+"*")) // the pattern is well formed
	for _, path := range made {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), ownPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = remove(path) // leave the files of another user
	}
}
