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

// ownPrefix begins the names of the directories and control groups that a run makes. The PID
// follows.
const ownPrefix = "haul-bench-"

// ownName returns the beginning of a name for a directory or a control group of this run.
func ownName() string { return fmt.Sprintf("%s%d", ownPrefix, os.Getpid()) }

// Clean removes leftovers of killed runs: servers and their control groups, links, and files in
// dir. If dir is empty, Clean uses the same directory as a [Suite] with an empty Dir. Clean does
// not touch leftovers of processes that are running. [Suite.Run] calls it first.
func Clean(dir string) error {
	peer.Clean() // first, because the other control groups cannot be removed while they contain processes
	sweep(placeFor(dir), os.RemoveAll)
	for _, c := range controllers1 {
		sweep(filepath.Join(unified, c), os.Remove)
	}
	return link.Clean()
}

// placeFor returns the directory in which a run makes its own directory: see Suite.Dir.
func placeFor(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}

// sweep removes the leftovers of killed runs from a directory. It keeps files that a process may
// still use, and files that no run made.
func sweep(dir string, remove func(path string) error) {
	made, _ := filepath.Glob(filepath.Join(dir, ownPrefix+"*")) // fails only if the pattern is malformed
	for _, path := range made {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), ownPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = remove(path) // an error means that the files belong to another user, so leave them
	}
}
