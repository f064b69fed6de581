package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/bench/suite/record"
)

// coldFiles is the name of the disturbance by downloads of files that are not in the page cache.
const coldFiles = "cold"

const (
	coldRate    = 4 * mB // limit of the server's reads from the disk, in bytes a second
	coldClients = 4
	coldSize    = 32 * mB
	dropEvery   = 100 * time.Millisecond
)

// cold is a disturbance that downloads large files, and keeps removing them from the page cache.
// The server's reads from the disk are limited to coldRate.
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

// drop removes the cold files from the page cache. Only clean pages can be removed, so drop syncs
// the files first.
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

// diskOf returns the device number of the disk that contains a directory. It is the number of the
// whole disk, because reads from a partition cannot be limited.
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
