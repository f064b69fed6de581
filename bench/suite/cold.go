package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/bench/suite/record"
)

// coldFiles names the scenario of files that are not in the page cache.
const coldFiles = "cold"

const (
	coldRate    = 4 * mB // bytes a second that the server may read from the disk
	coldClients = 4
	coldSize    = 32 * mB
	dropEvery   = 100 * time.Millisecond
)

// cold downloads large files of which the page cache is emptied again and
// again, by a server that has been held to coldRate.
func cold(ctx context.Context, st *stage) (func() extent, error) {
	l := record.Load{Concurrency: coldClients, Transfers: longerTransfers, Size: coldSize, BlockSize: 1468, Window: 16}
	if err := st.makeFiles(ctx, record.Load{Size: coldSize, Transfers: coldClients}); err != nil {
		return nil, err
	}
	if err := st.drop(); err != nil {
		return nil, err
	}
	stop, err := st.background(ctx, l)
	if err != nil {
		return nil, err
	}
	dropping, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		for dropping.Err() == nil && failed == nil {
			failed = st.drop()
			time.Sleep(dropEvery)
		}
	})
	return func() extent {
		e := stop()
		cancel()
		wg.Wait()
		if failed != nil {
			e.warning = fmt.Sprintf("the files may have been cached: %v", failed)
		}
		return e
	}, nil
}

// drop takes the cold files out of the page cache. Only clean pages go, hence
// the sync.
func (st *stage) drop() error {
	for i := range coldClients {
		f, err := os.Open(filepath.Join(st.root, fileName(coldSize, strconv.Itoa(i))))
		if err != nil {
			return fmt.Errorf("empty the page cache: %w", err)
		}
		err = errors.Join(unix.Fsync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		if closed := f.Close(); err != nil || closed != nil {
			return fmt.Errorf("empty the page cache of %s: %w", f.Name(), errors.Join(err, closed))
		}
	}
	return nil
}

// A throttle holds processes to a rate at which they read from a disk.
type throttle struct {
	group string // of version 1; empty with version 2, where a server's own group is used
	disk  string // "MAJOR:MINOR"
}

const (
	blkioGroups = "/sys/fs/cgroup/blkio"
	unified     = "/sys/fs/cgroup"
)

// newThrottle prepares a limit for the disk that dir is on.
func newThrottle(dir string) (*throttle, error) {
	disk, err := diskOf(dir)
	if err != nil {
		return nil, err
	}
	t := &throttle{disk: disk}
	if strings.Contains(word(filepath.Join(unified, "cgroup.subtree_control")), "io") {
		return t, nil
	}
	group := filepath.Join(blkioGroups, ownName())
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, fmt.Errorf("a slow disk needs a control group that limits reads, as root: %w", err)
	}
	t.group = group
	if err := os.WriteFile(filepath.Join(group, "blkio.throttle.read_bps_device"), fmt.Appendf(nil, "%s %d", disk, coldRate), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("a slow disk needs a kernel that limits reads: %w", err), t.close())
	}
	return t, nil
}

// join holds a process to the limit, and those that come from it later.
func (t *throttle) join(pid int) error {
	file, text := filepath.Join(t.group, "cgroup.procs"), strconv.Itoa(pid)
	if t.group == "" {
		_, path, ok := strings.Cut(word(fmt.Sprintf("/proc/%d/cgroup", pid)), "0::")
		if !ok {
			return fmt.Errorf("limit the reads of process %d: it is in no control group of version 2", pid)
		}
		file, text = filepath.Join(unified, path, "io.max"), fmt.Sprintf("%s rbps=%d", t.disk, coldRate)
	}
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		return fmt.Errorf("limit the reads of process %d: %w", pid, err)
	}
	return nil
}

// close removes the limit; its processes must have ended.
func (t *throttle) close() error {
	if t.group == "" {
		return nil
	}
	return os.Remove(t.group)
}

// diskOf returns the number of the disk that a directory is on: of the whole
// disk, for parts of it cannot be limited.
func diskOf(dir string) (string, error) {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return "", fmt.Errorf("find the disk of %s: %w", dir, err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	device, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", number))
	if err != nil {
		return "", fmt.Errorf("a slow disk needs a disk: %s is a file system without one of its own (--dir names another place)", fileSystem(dir))
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); err == nil {
		return word(filepath.Join(filepath.Dir(device), "dev")), nil
	}
	return number, nil
}
