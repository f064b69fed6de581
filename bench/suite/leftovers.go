package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownPrefix begins the name of what a run makes outside the directories it made
// itself; the number of its process follows.
const ownPrefix = "haul-bench-"

// ownName returns the name of something of this run's.
func ownName() string { return fmt.Sprintf("%s%d", ownPrefix, os.Getpid()) }

// sweep removes from a directory what runs have left there that were killed.
// What a process may still use, and what no run made, stays.
func sweep(dir string, remove func(path string) error) {
	made, _ := filepath.Glob(filepath.Join(dir, ownPrefix+"*")) // the pattern is well formed
	for _, path := range made {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), ownPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = remove(path) // another user's: it is his
	}
}
