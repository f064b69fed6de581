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

// ownPrefix begins the name of what a run makes outside the directories it made
// itself; the number of its process follows.
const ownPrefix = "haul-bench-"

// ownName returns the name of something of this run's.
func ownName() string { return fmt.Sprintf("%s%d", ownPrefix, os.Getpid()) }

// Clean removes what killed runs have left: servers and their control groups,
// links, and files in dir, of which the empty name is as in [Suite]. Live runs
// keep what is theirs. [Suite.Run] begins with it.
func Clean(dir string) error {
	peer.Clean() // first: processes hold the other control groups
	sweep(placeFor(dir), os.RemoveAll)
	for _, c := range controllers1 {
		sweep(filepath.Join(unified, c), os.Remove)
	}
	return link.Clean()
}

// placeFor returns the directory that files of a run go below.
func placeFor(dir string) string {
	if dir == "" {
		return os.TempDir()
	}
	return dir
}

// sweep removes from a directory the leftovers of runs that were killed. Files that a
// process may still use, or that no run made, stay.
func sweep(dir string, remove func(path string) error) {
	made, _ := filepath.Glob(filepath.Join(dir, ownPrefix+"*")) // the pattern is well formed
	for _, path := range made {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), ownPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = remove(path) // another user's: leave it
	}
}
